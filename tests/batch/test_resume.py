"""A batch that was killed, stopped or ran out of room, and the same command again."""

from __future__ import annotations

import io
import json
import signal
import threading
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import cv2
import pytest

from edge_infer.backends.onnxruntime import OnnxRuntime
from edge_infer.batch.batch import fingerprint
from edge_infer.batch.inputs import find
from edge_infer.batch.part import folder_of
from edge_infer.errors import BackendError
from edge_infer.model.load import load_model
from edge_infer.network import Network
from tests.support.batches import Batch, clip, lines
from tests.support.filesystems import SmallDisk

Run = Callable[..., tuple[int, str]]


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_after_kill_9_the_same_command_makes_the_same_file_to_the_byte(
    *, tmp_path: Path, yolox: Path, model: Path, parts: Path, bottles: Path, run: Run, suffix: str
) -> None:
    network, frames, kills = (yolox, 100, 2) if suffix == "jsonl" else (model, 400, 2)
    video = clip(bottles, tmp_path / "clip.mp4", frames)
    (parts / "7.png").write_bytes(b"damaged")
    inputs = (parts, video, parts / "3.png")
    whole = tmp_path / f"whole.{suffix}"
    assert run(network, *inputs, "--out", whole)[0] == 1
    out = tmp_path / f"o.{suffix}"
    # amid the video
    marked = 20
    for _ in range(kills):
        batch = Batch(network, inputs, out)
        marked = batch.wait_for_marks(marked)
        batch.signal(signal.SIGKILL)
        assert batch.end()[0] == -signal.SIGKILL
        assert not out.exists()
    code, error = Batch(network, inputs, out).end()
    assert (code, "going on after " in error) == (1, True)
    assert out.read_bytes() == whole.read_bytes()
    assert not folder_of(out).exists()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_keeps_what_is_in_hand_and_says_how_to_go_on(
    tmp_path: Path, model: Path, bottles: Path, number: signal.Signals, code: int
) -> None:
    inputs = [clip(bottles, tmp_path / "clip.mp4", 50)] * 400
    out = tmp_path / "o.jsonl"
    batch = Batch(model, inputs, out)
    batch.wait_for_marks()
    batch.signal(number)
    ended, error = batch.end(10)
    kept = batch.marked()
    assert (ended, error) == (
        code, f"stopped after {kept} lines; the same command (without --restart) goes on from there",
    )  # fmt: skip
    # what was written is what is marked: nothing was thrown away
    told = (batch.part / "lines.jsonl").read_bytes().splitlines()
    assert len(told) == kept
    assert [json.loads(line)["frame"] for line in told] == [at % 50 for at in range(kept)]


def test_going_on_with_something_else_is_refused_and_restart_begins_anew(
    tmp_path: Path, model: Path, parts: Path, bottles: Path, run: Run
) -> None:
    inputs = [clip(bottles, tmp_path / "clip.mp4", 50)] * 400
    out = tmp_path / "o.jsonl"
    batch = Batch(model, inputs, out)
    batch.wait_for_marks()
    # meanwhile nobody else may
    code, error = run(model, *inputs, "--out", out, "--restart")
    assert (code, "another edge-infer batch writes" in error) == (1, True)
    batch.signal(signal.SIGKILL)
    batch.end()
    before = (batch.part / "lines.jsonl").read_bytes()
    told = json.loads((batch.part / "journal.jsonl").read_bytes().split(b"\n")[0])["batch"]
    assert (told["opencv"], told["av"]) == (cv2.__version__, version("av"))
    assert version("onnxruntime") in told["runtime"]
    code, error = run(model, parts, "--out", out)
    assert (code, len(error.splitlines())) == (1, 1)
    assert "inputs (400 paths; names, sizes and times of change: " in error
    assert "12 paths; names" in error
    assert "--restart" in error
    card = model / "model.yaml"
    card.write_text(card.read_text() + "score_threshold: 0.9\n")
    assert "model.yaml (" in run(model, *inputs, "--out", out)[1]
    assert "backend (onnxruntime" in run(model, *inputs, "--out", out, "--backend", "openvino")[1]
    assert (batch.part / "lines.jsonl").read_bytes() == before
    assert run(model, parts, "--out", out, "--restart")[0] == 0
    assert len(lines(out)) == 12
    code, error = run(model, parts, "--out", out)
    assert (code, "is there already" in error) == (1, True)


def test_words_of_the_card_that_change_no_line_are_no_other_batch(model: Path, parts: Path) -> None:
    inputs = find([str(parts)], io.BytesIO(), ())
    card = load_model(model)
    network = Network.open(card, OnnxRuntime(type="onnxruntime"))
    try:
        before = fingerprint(card, network, inputs)
        path = model / "model.yaml"
        path.write_text(path.read_text() + "# golden pictures are to come\n")
        assert fingerprint(load_model(model), network, inputs) == before
    finally:
        network.close()


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_a_full_disk_is_one_line_and_with_room_the_same_command_finishes(
    *, tmp_path: Path, model: Path, parts: Path, run: Run, small_disk: SmallDisk, suffix: str
) -> None:
    inputs = [parts] * 50
    whole = tmp_path / f"whole.{suffix}"
    assert run(model, *inputs, "--out", whole)[0] == 0
    disk = small_disk("2m")
    disk.fill(100_000)
    out = disk.path / f"o.{suffix}"
    code, error = run(model, *inputs, "--out", out)
    assert (code, len(error.splitlines())) == (1, 1)
    assert f"cannot write {out}: No space left on device; make room" in error
    assert not out.exists()
    # also nothing is left running
    assert not [one for one in threading.enumerate() if one.name.startswith("batch-")]
    disk.make_room()
    assert run(model, *inputs, "--out", out)[0] == 0
    assert out.read_bytes() == whole.read_bytes()


def test_a_runtime_that_fails_ends_it_and_is_no_error_of_the_picture(
    tmp_path: Path, model: Path, parts: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Network.infer
    left = iter(range(7))

    def failing(self: Network, *arguments: Any) -> Any:
        if next(left, None) is None:
            raise BackendError("the device is gone", hint="is it there?")
        return real(self, *arguments)

    out = tmp_path / "o.jsonl"
    with monkeypatch.context() as patched:
        patched.setattr(Network, "infer", failing)
        code, error = run(model, parts, "--out", out)
    assert (code, error) == (
        1, "the device is gone; what was judged is kept: the same command goes on from there",
    )  # fmt: skip
    code, error = run(model, parts, "--out", out)
    assert (code, "going on after" in error) == (0, True)
    assert [Path(line["image"]).stem for line in lines(out)] == [str(at) for at in range(12)]
    assert not any("error" in line for line in lines(out))
