"""A folder that is there whole or not at all."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from edge_infer.errors import EdgeInferError
from edge_infer.tune.part import building, scratch

_HALF = """
import sys, time
from pathlib import Path
from edge_infer.tune.part import building, scratch
with building(Path(sys.argv[1])) as folder:
    (folder / "model.onnx").write_bytes(b"x" * 1000)
    (scratch(folder) / "calibration.npy").write_bytes(b"x" * 1000)
    print("half", flush=True)
    sys.stdin.read()
"""


def names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def half_way(out: Path) -> subprocess.Popen[str]:
    """A process that has begun to build and waits."""
    child = subprocess.Popen(
        [sys.executable, "-c", _HALF, str(out)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "half\n"
    return child


def test_the_folder_is_there_at_the_end_only(tmp_path: Path) -> None:
    out = tmp_path / "a b-tuned"
    with building(out) as folder:
        (folder / "inner").mkdir()
        (folder / "inner/model.onnx").write_bytes(b"1")
        (scratch(folder) / "calibration.npy").write_bytes(b"2")
        assert not out.exists()
    assert (out / "inner/model.onnx").read_bytes() == b"1"
    assert names(tmp_path) == ["a b-tuned"]


def test_an_exception_leaves_nothing(tmp_path: Path) -> None:
    def cancelled() -> None:
        with building(tmp_path / "out") as folder:
            (folder / "model.onnx").write_bytes(b"1")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cancelled()
    assert names(tmp_path) == []


def test_kill_9_leaves_nothing_half_written_and_the_next_run_clears_up(tmp_path: Path) -> None:
    out = tmp_path / "out"
    child = half_way(out)
    child.send_signal(signal.SIGKILL)
    child.communicate()
    assert not out.exists()
    assert names(tmp_path) == [".out.part"]
    with building(out) as folder:
        assert names(folder) == []
    assert names(tmp_path) == ["out"]


def test_two_at_once_are_refused(tmp_path: Path) -> None:
    out = tmp_path / "out"
    child = half_way(out)
    with pytest.raises(EdgeInferError, match="another `edge-infer tune` is at work"), building(out):
        pass
    child.communicate("")
    assert (out / "model.onnx").exists()


def test_what_is_there_is_never_written_over(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "model.onnx").write_bytes(b"in use")
    with pytest.raises(EdgeInferError, match="is there already and is not written over"), building(out):
        pass
    assert (out / "model.onnx").read_bytes() == b"in use"


def test_what_appears_meanwhile_is_not_written_over(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(EdgeInferError, match="is there already"), building(out):
        out.mkdir()
    assert names(out) == []


def test_a_place_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(EdgeInferError, match="; name a folder with --out"), building(tmp_path / "file/out"):
        pass
