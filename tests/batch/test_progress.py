"""How far a batch is, and what it costs."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from io import BytesIO
from pathlib import Path

import pytest

from edge_infer.batch.inputs import find
from edge_infer.commands.batch_progress import Expected
from edge_infer.sources import _recording as recording
from tests.support.batches import Batch, clip, picture

Run = Callable[..., tuple[int, str]]


def test_memory_does_not_grow_with_the_number_of_frames(tmp_path: Path, model: Path, bottles: Path) -> None:
    video = clip(bottles, tmp_path / "clip.mp4", 100)
    peaks = []
    for repeats in (2, 10):
        batch = Batch(model, [video] * repeats, tmp_path / f"{repeats}.jsonl")
        assert batch.process.stderr is not None
        batch.process.stderr.read()
        _, status, used = os.wait4(batch.process.pid, 0)
        batch.process.returncode = os.waitstatus_to_exitcode(status)
        batch.end()
        assert batch.process.returncode == 0
        peaks.append(used.ru_maxrss * 1024)
    # 800 frames more are 550 MB
    assert peaks[1] - peaks[0] < 60e6


def test_a_terminal_sees_a_bar_with_rate_and_time_left(tmp_path: Path, model: Path, bottles: Path) -> None:
    video = clip(bottles, tmp_path / "clip.mp4", 300)
    reader, writer = pty.openpty()
    command: list[str | Path] = ["batch", model, video, video, "--out", tmp_path / "o.jsonl"]
    process = subprocess.Popen([sys.executable, "-m", "edge_infer", *command], stderr=writer)
    os.close(writer)
    shown = b""
    # a terminal that nobody writes to any more ends in an error
    with suppress(OSError):
        while more := os.read(reader, 65536):
            shown += more
    os.close(reader)
    assert process.wait(20) == 0
    assert b"600/600" in shown
    assert b"/s" in shown
    assert b"600 lines" in shown


def test_without_a_terminal_a_line_is_said_at_the_end_and_one_in_a_while(
    tmp_path: Path, model: Path, parts: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, error = run(model, parts, "--out", tmp_path / "a.jsonl")
    assert (code, len(error.splitlines())) == (0, 1)
    monkeypatch.setattr("edge_infer.commands.batch_progress.TOLD_S", 0.0)
    _, error = run(model, parts, "--out", tmp_path / "b.jsonl")
    assert "1 of 12 frames, " in error
    assert "0 errors, 0:00:0" in error


def test_time_left_is_told_where_videos_say_how_long_they_are_and_not_guessed_where_none_does(
    tmp_path: Path, bottles: Path
) -> None:
    video = clip(bottles, tmp_path / "clip.mp4", 60)
    raw = tmp_path / "raw.h264"
    clip(bottles, raw, 60)
    assert recording.length(video) == 60
    assert recording.length(tmp_path / "none.mp4") is None
    picture(tmp_path / "1.png", 1)

    def expected(*names: str) -> Expected:
        return Expected(find([str(tmp_path / name) for name in names], BytesIO(), ()))

    known = expected("1.png", "clip.mp4", "clip.mp4", "1.png")
    # nobody knows of a video before its turn
    assert known.total(0, 0, 0) is None
    assert known.total(1, 1, 0) == 1 + 60 + 60 + 1
    assert known.total(31, 1, 30) == 122
    assert known.total(121, 3, 0) == 122
    assert known.total(122, 4, 0) == 122
    # frames that no index promised move the end
    assert expected("clip.mp4").total(70, 0, 70) == 70
    unknown = expected("raw.h264", "1.png")
    assert unknown.total(5, 0, 5) is None
    assert unknown.total(60, 1, 0) == 61
