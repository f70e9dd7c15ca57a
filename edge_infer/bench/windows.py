"""Windows of time in which one way of working runs alone, in turns with another one; and their arithmetic."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from edge_infer.backends.bare import Run

ROUNDS = 5


class Window(NamedTuple):
    """What was done while nothing else of ours ran."""

    frames: Mapping[str, int]
    """By model."""
    seconds: float
    """Until the last frame was done, however long the window was meant to be."""
    cpu_s: float
    """Of the whole process."""

    @property
    def total(self) -> int:
        """Frames of all models."""
        return sum(self.frames.values())

    @property
    def fps(self) -> float:
        """Frames a second."""
        return self.total / self.seconds


Rates = Mapping[str, Window]
"""A window of each model alone, one after the other."""


class Turns(NamedTuple):
    """Bare, pipeline, bare, ..., bare: one more of the bare ones."""

    bare: tuple[Rates, ...]
    pipeline: tuple[Window, ...]

    @property
    def ratio(self) -> float:
        """The median of what each pipeline window is of the bare ones beside it.

        Whatever makes the whole machine slower or faster meanwhile is in all three.
        """
        return statistics.median(
            ideal_s(window, before, after) / window.seconds
            for before, window, after in zip(self.bare, self.pipeline, self.bare[1:], strict=False)
        )

    @property
    def bare_fps(self) -> float:
        """Frames a second of the bare runtimes with as many frames of each model as the pipeline had."""
        frames = {name: sum(one.frames[name] for one in self.pipeline) for name in self.bare[0]}
        rates = {name: statistics.median(one[name].fps for one in self.bare) for name in frames}
        return sum(frames.values()) / sum(frames[name] / rates[name] for name in frames)

    @property
    def pipeline_fps(self) -> float:
        """The median of the pipeline's windows."""
        return statistics.median(one.fps for one in self.pipeline)

    @property
    def cpu_ms_per_frame(self) -> float:
        """Of the pipeline, over all its windows."""
        return 1000 * sum(one.cpu_s for one in self.pipeline) / sum(one.total for one in self.pipeline)

    @property
    def bare_cpu_ms_per_frame(self) -> float:
        """Of the bare runtimes, with as many frames of each model as the pipeline had."""
        total = sum(one.total for one in self.pipeline)
        spent_s = 0.0
        for name in self.bare[0]:
            frames = sum(one.frames[name] for one in self.pipeline)
            windows = [one[name] for one in self.bare]
            spent_s += frames * sum(one.cpu_s for one in windows) / sum(one.total for one in windows)
        return 1000 * spent_s / total


def ideal_s(window: Window, before: Rates, after: Rates) -> float:
    """What the bare runtimes would have needed for the window's frames, at the mean of their rates."""
    return sum(
        frames / ((before[name].fps + after[name].fps) / 2)
        for name, frames in window.frames.items()
        if frames
    )


def timed(name: str, run: Run, seconds: float) -> Window:
    """A window of one model that is at least one frame long."""
    began_s, cpu_s = time.perf_counter(), time.process_time()
    end_s, started = began_s + seconds, False

    def stop() -> bool:
        nonlocal started
        over, started = started and time.perf_counter() >= end_s, True
        return over

    frames = run(stop)
    return Window({name: frames}, time.perf_counter() - began_s, time.process_time() - cpu_s)


def take_turns(
    bare: Callable[[], Rates], pipeline: Callable[[], Window], rounds: int = ROUNDS
) -> Iterator[Turns]:
    """What there is after each round; the last one is all."""
    turns = Turns((bare(),), ())
    for _ in range(rounds):
        turns = Turns(turns.bare, (*turns.pipeline, pipeline()))
        turns = Turns((*turns.bare, bare()), turns.pipeline)
        yield turns


def fastest(ways: Mapping[str, Callable[[], float]], rounds: int = 3) -> str:
    """The name of the way whose median is the highest; each is tried a few times, in turns."""
    if len(ways) == 1:
        return next(iter(ways))
    tried: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            tried[name].append(way())
    return max(tried, key=lambda name: statistics.median(tried[name]))


def percentile(values: Sequence[float], share: float) -> float:
    """The value that ``share`` (0..1) of them do not exceed; of at least one value."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]
