"""The newest results of each station, in memory."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass

from edge_infer.evidence.pictures import Scene
from edge_infer.result import Result

KEPT = 100
"""Committed results a station."""


@dataclass(frozen=True, slots=True, eq=False)
class Inspected:
    """A result and what it was made from."""

    result: Result
    scene: Scene


class Recent:
    """Thread-safe; fed by the delivery, asked by the verbs."""

    def __init__(self, *, scenes: bool) -> None:
        """``scenes``: keep a frame a station, which takes megabytes."""
        self._scenes = scenes
        self._lock = threading.Lock()
        self._committed: dict[str, deque[Result]] = {}
        self._decided: dict[str, Result] = {}
        self._inspected: dict[str, Inspected] = {}

    def decide(self, result: Result) -> None:
        """An inspection ended, published or not."""
        with self._lock:
            self._decided[result.station] = result

    def inspect(self, result: Result, scene: Scene) -> None:
        """A frame was judged and its result is published."""
        if self._scenes:
            with self._lock:
                self._inspected[result.station] = Inspected(result, scene)

    def commit(self, result: Result) -> None:
        """A result is durable and has its number."""
        with self._lock:
            self._committed.setdefault(result.station, deque(maxlen=KEPT)).append(result)

    def forget(self, station: str) -> None:
        """It was removed."""
        with self._lock:
            for kept in (self._committed, self._decided, self._inspected):
                kept.pop(station, None)

    def keep_scenes(self, keep: bool) -> None:
        """Whether a frame a station is kept, from now on."""
        with self._lock:
            self._scenes = keep
            if not keep:
                self._inspected.clear()

    def decision(self, station: str) -> Result | None:
        """The newest inspection's."""
        with self._lock:
            return self._decided.get(station)

    def inspected(self, station: str) -> Inspected | None:
        """The newest frame that was judged and published."""
        with self._lock:
            return self._inspected.get(station)

    def result(
        self, station: str, *, result_id: str | None = None, part_id: str | None = None
    ) -> Result | None:
        """The newest that has the id and is of the part, where they are given."""
        with self._lock:
            for one in reversed(self._committed.get(station, ())):
                if result_id in (None, one.result_id) and part_id in (None, one.part_id):
                    return one
        return None
