"""`edge-infer batch` in this process, and what it is over."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from edge_infer import cli
from tests.support.batches import picture, spot_model
from tests.support.real_networks import write_card

Run = Callable[..., tuple[int, str]]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Iterator[Any]:
    """Exit code, standard output, text on standard error of any command, in this process."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def call(*arguments: object) -> tuple[int, bytes, str]:
        monkeypatch.setattr(sys, "argv", ["edge-infer", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        printed = capfdbinary.readouterr()
        error = os.fsdecode(printed.err)
        assert "Traceback" not in error
        assert "bug" not in error
        return int(ended.value.code or 0), printed.out, error.strip()

    yield call
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def run(command: Any) -> Run:
    """`batch` in this process; nothing ever goes to standard output."""

    def call(*arguments: object) -> tuple[int, str]:
        code, printed, error = command("batch", *arguments)
        assert printed == b""
        return code, error

    return call


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return spot_model(tmp_path / "spots")


@pytest.fixture
def parts(tmp_path: Path) -> Path:
    for at in range(12):
        picture(tmp_path / f"parts/{at}.png", at)
    return tmp_path / "parts"


@pytest.fixture
def bottles(shared: Path) -> Path:
    return shared / "assets/videos/bottle-detection.mp4"


@pytest.fixture
def yolox(shared: Path, tmp_path: Path) -> Path:
    (tmp_path / "yolox").mkdir()
    return write_card(tmp_path / "yolox", shared, "yolox_nano/yolox_nano")
