"""The pipeline of one network, driven through the service's engine."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import cast

import numpy as np
import pytest

from edge_infer.bench.frames import Frames
from edge_infer.bench.saturated import Saturated
from edge_infer.errors import BackendError
from edge_infer.findings import Findings
from edge_infer.network import Inference, Network

FRAMES = Frames("made", (np.zeros((4, 4, 3), np.uint8), np.ones((4, 4, 3), np.uint8)))


class Slow:
    """A network that takes its time, or fails: a real one does neither on demand."""

    def __init__(self, requests: int = 1, takes_s: float = 0.001) -> None:
        self.requests = requests
        self.takes_s = takes_s
        self.failure: BackendError | None = None
        self.inside = self.most_inside = self.frames = 0
        self.seen: set[int] = set()
        self.closed = False
        self._lock = threading.Lock()

    def infer(self, pixels: np.ndarray) -> Inference:
        with self._lock:
            self.inside += 1
            self.frames += 1
            self.most_inside = max(self.most_inside, self.inside)
            self.seen.add(int(pixels[0, 0, 0]))
        # what a runtime does to its caller
        time.sleep(self.takes_s)
        with self._lock:
            self.inside -= 1
        if self.failure is not None:
            raise self.failure
        return Inference(Findings(), 0.0, 0.0, 0.0)

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def slow() -> Slow:
    return Slow(requests=3)


@pytest.fixture
def line(slow: Slow) -> Iterator[Saturated]:
    opened = Saturated("m", cast(Network, slow), FRAMES)
    yield opened
    opened.close()
    assert slow.closed


def test_every_request_is_busy(slow: Slow, line: Saturated) -> None:
    slow.takes_s = 0.02
    line.window(0.2)
    assert slow.most_inside == 3


def test_what_is_counted_is_done_and_nothing_goes_on_behind_the_window(slow: Slow, line: Saturated) -> None:
    slow.takes_s = 0.01
    window = line.window(0.1)
    assert slow.inside == 0
    assert window.frames == {"m": slow.frames}
    # the last frame belongs to the window: it ends with it, not before
    assert 0.1 <= window.seconds < 1.0


def test_all_frames_in_memory_take_part(slow: Slow, line: Saturated) -> None:
    line.window(0.05)
    assert slow.seen == {0, 1}


def test_windows_follow_each_other(slow: Slow, line: Saturated) -> None:
    first, second = line.window(0.02), line.window(0.02)
    assert first.total + second.total == slow.frames
    assert min(first.total, second.total) > 0


def test_the_shortest_window_has_a_frame_of_each_request_at_most(slow: Slow, line: Saturated) -> None:
    assert 1 <= line.window(0.0).total <= slow.requests


def test_latency_is_of_one_frame_at_a_time_from_its_capture(slow: Slow, line: Saturated) -> None:
    slow.takes_s = 0.01
    latencies = line.latencies_ms(0.1)
    assert slow.most_inside == 1
    assert len(latencies) == slow.frames
    assert min(latencies) >= 10


def test_a_runtime_that_fails_ends_the_window_with_its_own_words(slow: Slow, line: Saturated) -> None:
    slow.failure = BackendError("the device is gone")
    with pytest.raises(BackendError, match="the device is gone"):
        line.window(5.0)
    assert slow.frames <= slow.requests * 2
