"""Weeks in a minute: the real service, from the camera to the broker and the disk, at full speed."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import av
import numpy as np
import pytest

from tests.support.mosquitto import Mosquitto
from tests.support.running import Running
from tests.support.runs import RESULTS, RULE, Run, Subscribe, site, whole
from tests.test_run import broken

FRAMES, WARM_UP = 50_000, 10_000
TAPE = 2500
"""Frames of one recording; it is played again and again, as another file."""
EACH = 500
"""Frames between two looks."""
SLOPE = 1.0
"""MB of memory that 10,000 frames may add."""


@dataclass(frozen=True)
class Look:
    frames: int
    rss_mb: float
    files: int
    threads: int


def tape(folder: Path, frames: int) -> None:
    """Small pictures, each another one: a frozen camera would be noticed."""
    folder.mkdir()
    path = folder / "0.mp4"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("mpeg4", rate=100)
        stream.width = stream.height = 64
        stream.pix_fmt = "yuv420p"
        picture = np.random.default_rng(1).integers(0, 255, (64, 64, 3), np.uint8)
        for i in range(TAPE):
            picture[:8, :8] = (i * 7) % 256
            for packet in stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")):
                container.mux(packet)
        for packet in stream.encode():
            container.mux(packet)
    for i in range(1, frames // TAPE):
        (folder / f"{i}.mp4").hardlink_to(path)


def look(running: Running, frames: int) -> Look:
    process = Path(f"/proc/{running.process.pid}")
    rss = int((process / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return Look(
        frames, rss / 1e6, len(list((process / "fd").iterdir())), len(list((process / "task").iterdir()))
    )


def soak(
    folder: Path,
    broker: Mosquitto,
    run: Run,
    subscribe: Subscribe,
    *,
    frames: int,
    environment: Mapping[str, str] | None = None,
) -> list[Look]:
    """Runs a recording of so many frames with everything that keeps something; looks at the process."""
    heard = subscribe(broker, RESULTS)
    tape(folder / "tape", frames)
    path = site(
        folder / "a",
        broker,
        cameras={"scene": {"type": "files", "path": "../tape"}},
        # by the recording's time: each tenth inspection is a result
        stations={"cap": {"camera": "scene", "model": "m", "rules": [RULE], "publish": {"every_s": 0.1}}},
        evidence={"max_bytes": "1MB", "min_free_bytes": 0, "ok_every": 10, "per_minute": 600},
    )
    running = run(path, **(environment or {}))
    looks: list[Look] = []
    while running.process.poll() is None:
        results = heard.messages("cap/result")
        seen = results[-1].json["frameSeq"] if results else 0
        if seen >= EACH * (len(looks) + 1) and seen < frames - EACH:
            looks.append(look(running, seen))
        time.sleep(0.1)  # looks, not events: the process is asked from outside
    assert running.wait() == 0, running.log
    heard.wait(lambda got: got[-1].json["frameSeq"] > frames - 50, "cap/result")
    assert len(whole(heard.messages())) == 1
    return looks


def slope(looks: list[Look]) -> float:
    """MB in 10,000 frames, least squares."""
    return float(np.polyfit([one.frames / 10_000 for one in looks], [one.rss_mb for one in looks], 1)[0])


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_memory_files_and_threads_stay_as_they_are_over_50000_frames(
    tmp_path: Path, mosquitto: Mosquitto, run: Run, subscribe: Subscribe
) -> None:
    looks = soak(tmp_path, mosquitto, run, subscribe, frames=FRAMES)
    steady = [one for one in looks if one.frames > WARM_UP]
    assert len(steady) > 40
    assert slope(steady) < SLOPE, steady
    half = len(steady) // 2
    for count in ("files", "threads"):
        numbers = [getattr(one, count) for one in steady]
        # the fewest: now and then a picture is being written
        assert min(numbers[half:]) <= min(numbers[:half]), numbers


@pytest.mark.slow
def test_a_kilobyte_that_each_frame_leaves_behind_would_be_noticed(
    tmp_path: Path, mosquitto: Mosquitto, run: Run, subscribe: Subscribe
) -> None:
    leak = (
        "import edge_infer.station.meter as meter\n"
        "left, count = [], meter.Meter.count\n"
        "def leak(*args): left.append(bytearray(1000)); count(*args)\n"
        "meter.Meter.count = leak\n"
    )
    environment = broken(tmp_path / "leak", leak)
    looks = soak(tmp_path, mosquitto, run, subscribe, frames=10_000, environment=environment)
    assert slope([one for one in looks if one.frames > 3000]) > 5 * SLOPE
