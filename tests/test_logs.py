from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from edge_infer import logs


@pytest.fixture(autouse=True)
def restore() -> Iterator[None]:
    root = logging.getLogger("edge_infer")
    before = (root.handlers[:], root.level, root.propagate)
    yield
    root.handlers[:], root.level, root.propagate = before


def test_the_journal_gets_one_line_with_its_priority(capsys: pytest.CaptureFixture[str]) -> None:
    logs.start(journal=True)
    logging.getLogger("edge_infer.camera").warning("lost\nbad")
    out = capsys.readouterr()
    assert (out.out, out.err) == ("", "<4>edge_infer.camera: lost\\nbad\n")


def test_below_the_level_nothing_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    logs.start(journal=False, level=logging.WARNING)
    logging.getLogger("edge_infer.camera").info("connected")
    assert capsys.readouterr().err == ""
