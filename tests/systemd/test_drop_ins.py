"""Additions to the unit, which not every device needs."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.systemd.test_unit import UNIT, tree, verify

__all__ = ["tree"]

DROP_INS = sorted((UNIT.parent / "drop-ins").glob("*.conf"))


def put(tree: Path, drop_in: Path) -> Path:
    folder = tree / f"etc/systemd/system/{UNIT.name}.d"
    folder.mkdir()
    return Path(shutil.copy(drop_in, folder))


@pytest.mark.parametrize("drop_in", DROP_INS, ids=lambda path: path.stem)
def test_systemd_understands_every_line_of_it(tree: Path, drop_in: Path) -> None:
    put(tree, drop_in)
    done = verify(tree)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_misspelt_key_would_be_noticed(tree: Path) -> None:
    drop_in = put(tree, DROP_INS[0])
    drop_in.write_text(drop_in.read_text().replace("DeviceAllow=", "DevicesAllow="))
    assert "'DevicesAllow'" in verify(tree).stderr
