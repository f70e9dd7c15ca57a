"""`edge-infer batch` in this process and as one of its own, and what it is over."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import av
import cv2
import numpy as np

from tests.support import networks


def spot_model(folder: Path) -> Path:
    """A network that really looks: its box, score and class are those of the picture's bright spot."""
    folder.mkdir(parents=True, exist_ok=True)
    networks.spot(folder / "spot.onnx")
    (folder / "model.yaml").write_text(
        "format: 1\nname: spots\nversion: '1'\nnetwork: spot.onnx\ndecoder: yolo-end2end\n"
        "labels: [red, green, blue]\n",
        encoding="utf-8",
    )
    return folder


def picture(path: Path, at: int) -> Path:
    """64 x 64, dark, with a bright spot at another place for every ``at``."""
    pixels = np.full((64, 64, 3), 20, np.uint8)
    x, y = at * 7 % 48, at * 5 % 40
    pixels[y : y + 10, x : x + 12] = 150 + at % 100
    path.parent.mkdir(parents=True, exist_ok=True)
    cv2.imwrite(str(path), pixels)
    return path


def clip(video: Path, path: Path, frames: int) -> Path:
    """The first frames of a real video, as they are stored there."""
    with av.open(str(video)) as source, av.open(str(path), "w") as target:
        stream = source.streams.video[0]
        copied = target.add_stream_from_template(stream)
        packets = (packet for packet in source.demux(stream) if packet.size)
        for _, packet in zip(range(frames), packets, strict=False):
            packet.stream = copied
            target.mux(packet)
    return path


def lines(out: Path) -> list[dict[str, Any]]:
    """What is in a finished file."""
    return [json.loads(line) for line in out.read_bytes().splitlines()]


class Batch:
    """`edge-infer batch MODEL INPUT... --out OUT` as a process."""

    def __init__(self, model: Path, inputs: Sequence[str | bytes | Path], out: Path, *more: str) -> None:
        self.out = out
        self.part = out.with_name(f"{out.name}.part")
        self.command = [sys.executable, "-m", "edge_infer", "batch", model, *inputs, "--out", out, *more]
        self.process = subprocess.Popen(
            self.command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    def wait_for_marks(self, more_than: int = 0, timeout_s: float = 60) -> int:
        """Until so many lines, and one more, would survive a kill; how many there are."""
        until_s = time.monotonic() + timeout_s
        while time.monotonic() < until_s:
            marked = self.marked()
            if marked > more_than:
                return marked
            if self.process.poll() is not None:
                raise AssertionError(f"it ended before: {self.end()}")
            # a file that grows in another process has no event that costs less
            time.sleep(0.01)
        raise AssertionError(f"no mark beyond {more_than} lines in {timeout_s} s")

    def marked(self) -> int:
        """Lines that would survive a kill now."""
        try:
            marks = (self.part / "journal.jsonl").read_bytes().split(b"\n")[1:-1]
        except FileNotFoundError:
            return 0
        return int(json.loads(marks[-1])[0]) if marks else 0

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def end(self, timeout_s: float = 60) -> tuple[int, str]:
        """Exit code and what it said on standard error; nothing was said on standard output."""
        out, error = self.process.communicate(timeout=timeout_s)
        assert out == b""
        return self.process.returncode, os.fsdecode(error).strip()
