from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from itertools import pairwise
from typing import Any

import pytest
from pydantic import ValidationError

from edge_infer.errors import SourceError, SourceStalledError
from edge_infer.frame import Frame
from edge_infer.settings import Secrets
from edge_infer.sources import Source, synthetic
from edge_infer.sources.synthetic import Synthetic


def settings(**keys: Any) -> Synthetic:
    return Synthetic.model_validate_json(json.dumps({"type": "synthetic", **keys}))


def opened(**keys: Any) -> Source:
    return settings(**keys).open("scene", Secrets({}))


def all_frames(source: Source) -> list[Frame]:
    frames = []
    while (frame := source.read(5)) is not None:
        frames.append(frame)
    return frames


class Clock:
    """Stands for the module's ``time``: moves only when told."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def monotonic(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    fake = Clock()
    monkeypatch.setattr(synthetic, "time", fake)
    return fake


@pytest.mark.parametrize(
    ("keys", "recorded"),
    [
        ({}, False),
        ({"frames": 5}, True),
        ({"frames": 5, "realtime": True}, False),
        ({"frames": 5, "loop": True}, False),
        ({"frames": 5, "realtime": False, "loop": False}, True),
    ],
)
def test_it_is_a_recording_exactly_when_it_has_an_end_and_its_own_pace_does_not_matter(
    keys: dict[str, Any], recorded: bool
) -> None:
    assert settings(**keys).recorded is recorded


@pytest.mark.parametrize("key", ["loop", "realtime"])
def test_playing_a_recording_without_a_length_is_a_mistake(key: str) -> None:
    with pytest.raises(ValidationError, match=f"{key}: true needs frames: N"):
        settings(**{key: True})


@pytest.mark.parametrize(
    "keys", [{"fps": 0}, {"fps": 1000}, {"seed": -1}, {"defect_rate": 1.1}, {"frames": 0}, {"speed": 3}]
)
def test_settings_outside_their_range_are_refused(keys: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        settings(**keys)


def test_the_settings_load_neither_cv2_nor_the_scene() -> None:
    program = (
        "import sys, edge_infer.sources.synthetic\n"
        "print('cv2' in sys.modules, 'edge_infer.scene' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


def test_a_recording_is_read_as_fast_as_one_likes_and_then_ends() -> None:
    source = opened(frames=30, fps=1)
    began = time.monotonic()
    frames = all_frames(source)
    assert time.monotonic() - began < 10
    assert [frame.seq for frame in frames] == list(range(1, 31))
    assert [frame.time_s for frame in frames] == [float(n) for n in range(1, 31)]
    assert source.read(1) is None


def test_frames_say_that_they_are_drawn() -> None:
    frame = all_frames(opened(frames=1))[0]
    assert frame.simulated
    assert frame.camera == "scene"
    assert frame.damaged is None
    assert not frame.pixels.flags.writeable


def test_two_recordings_of_one_seed_are_the_same() -> None:
    first, second = all_frames(opened(frames=40, seed=6)), all_frames(opened(frames=40, seed=6))
    for a, b in zip(first, second, strict=True):
        assert (a.pixels == b.pixels).all()
        assert [(t.time_s, t.part_id, t.truth) for t in a.triggers] == [
            (t.time_s, t.part_id, t.truth) for t in b.triggers
        ]


@pytest.mark.parametrize(("fps", "frames"), [(0.5, 90), (10, 90), (13.7, 120), (60, 420)])
@pytest.mark.parametrize("seed", [1, 7])
def test_every_part_triggers_once_on_the_first_frame_after_it(fps: float, frames: int, seed: int) -> None:
    recording = all_frames(opened(frames=frames, fps=fps, seed=seed, defect_rate=0.5))
    triggers = [(frame, trigger) for frame in recording for trigger in frame.triggers]
    assert [t.part_id for _, t in triggers] == [f"P{n:06d}" for n in range(1, len(triggers) + 1)]
    assert len(triggers) >= 7
    for frame, trigger in triggers:
        assert frame.time_s - 1 / fps - 1e-9 <= trigger.time_s <= frame.time_s
        assert trigger.at <= frame.captured_at
        assert trigger.truth in ("OK", "NOK")
    spacing_s = [b.time_s - a.time_s for (_, a), (_, b) in pairwise(triggers)]
    assert max(spacing_s) < 1.3 * min(spacing_s)


def test_a_live_scene_keeps_the_pace_of_the_monotonic_clock() -> None:
    source = opened(fps=20)
    before = time.monotonic()
    frames = [source.read(1) for _ in range(11)]
    after = time.monotonic()
    first, last = frames[0], frames[-1]
    assert first is not None
    assert last is not None
    assert before < first.time_s < last.time_s <= after
    assert last.time_s - first.time_s == pytest.approx((last.seq - first.seq) / 20)
    assert after - before >= 10 / 20


def test_a_live_frame_that_is_not_due_in_time_is_a_stall_and_comes_later() -> None:
    source = opened(fps=4)
    with pytest.raises(SourceStalledError, match=r"no frame within 0\.01 s"):
        source.read(0.01)
    frame = source.read(2)
    assert frame is not None
    assert frame.seq == 1


def test_close_from_another_thread_ends_a_pending_read() -> None:
    source = opened(fps=0.01)
    threading.Timer(0.2, source.close).start()
    began = time.monotonic()
    with pytest.raises(SourceError, match="was closed") as caught:
        source.read(60)
    assert not isinstance(caught.value, SourceStalledError)
    assert time.monotonic() - began < 10


def test_a_closed_scene_gives_nothing_and_closes_twice() -> None:
    source = opened(frames=5)
    source.close()
    source.close()
    with pytest.raises(SourceError, match="was closed"):
        source.read(1)


def test_a_late_reader_gets_the_newest_frame_with_its_true_number_and_time(clock: Clock) -> None:
    source = opened(fps=10, seed=1)
    clock.now_s += 0.45
    frame = source.read(1)
    assert frame is not None
    assert frame.seq == 4
    assert frame.time_s == pytest.approx(1000.4)


def test_a_late_reader_still_sees_every_part_at_the_light_barrier(clock: Clock) -> None:
    recording = all_frames(opened(fps=10, seed=3, frames=120))
    wanted = [(frame.seq, t.part_id, t.truth) for frame in recording for t in frame.triggers]
    live = opened(fps=10, seed=3)
    seen: list[tuple[int, str | None, str | None]] = []
    seqs: list[int] = []
    clock.now_s += 0.05
    while not seqs or seqs[-1] < 120:
        clock.now_s += 1.93
        frame = live.read(0.2)
        assert frame is not None
        seqs.append(frame.seq)
        seen += [(frame.seq, t.part_id, t.truth) for t in frame.triggers]
    assert [entry for entry in seen if entry[0] <= 120] == wanted
    assert seqs == sorted(set(seqs))
    assert len(seqs) < 60


def test_a_loop_begins_again_and_counts_frames_and_parts_on(clock: Clock) -> None:
    source = opened(fps=10, seed=2, frames=30, loop=True)
    frames = []
    for _ in range(75):
        clock.now_s += 0.1
        frame = source.read(1)
        assert frame is not None
        frames.append(frame)
    assert [frame.seq for frame in frames] == list(range(1, 76))
    assert (frames[0].pixels == frames[30].pixels).all()
    assert (frames[14].pixels == frames[74].pixels).all()
    triggers = [(frame.seq, trigger) for frame in frames for trigger in frame.triggers]
    assert [t.part_id for _, t in triggers] == [f"P{n:06d}" for n in range(1, len(triggers) + 1)]
    first_round = [(seq, t.truth) for seq, t in triggers if seq <= 30]
    assert [(seq - 30, t.truth) for seq, t in triggers if 30 < seq <= 60] == first_round
    assert all(frames[seq - 1].time_s - 0.1 <= t.time_s <= frames[seq - 1].time_s for seq, t in triggers)


def test_a_loop_shorter_than_its_first_part_never_triggers(clock: Clock) -> None:
    source = opened(fps=10, frames=2, loop=True)
    for _ in range(20):
        clock.now_s += 0.1
        frame = source.read(1)
        assert frame is not None
        assert frame.triggers == ()


def test_a_recording_played_in_real_time_ends(clock: Clock) -> None:
    source = opened(fps=10, frames=12, realtime=True)
    clock.now_s += 100
    frames = all_frames(source)
    assert frames[-1].seq == 12
    assert len(frames) < 12
    assert [t.part_id for frame in frames for t in frame.triggers] == ["P000001"]
