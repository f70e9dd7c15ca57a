"""The stations of a site, each offered more frames than it can judge."""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from edge_infer import clock
from edge_infer.bench.frames import Frames
from edge_infer.bench.measured import Share
from edge_infer.bench.windows import Window
from edge_infer.errors import BackendError
from edge_infer.findings import Findings
from edge_infer.frame import Frame, PartTrigger
from edge_infer.result import Decision, Result
from edge_infer.station import StationSettings
from edge_infer.station.station import Station

PATIENCE_S = 60.0
"""How long what is in the network may take."""
MOST_FPS = 2000.0
"""Of one camera."""


class Line:
    """Its cameras give frames only within a window, so that the bare runtime can have the machine between."""

    def __init__(self, stations: Mapping[str, Station], frames: Mapping[str, Frames], sink: Sink) -> None:
        """``frames``: by camera; ``sink`` is where all the stations deliver."""
        self._stations = stations
        self._cameras = {name: _Memory(name, one) for name, one in frames.items()}
        self._sink = sink
        self._per_station: Counter[str] = Counter()
        self._dropped_before = {name: one.dropped for name, one in stations.items()}
        self._seconds = 0.0

    def window(self, seconds: float, each_fps: float) -> Window:
        """``each_fps``: what a camera gives, at most ``MOST_FPS``: more than its stations can take."""
        before = self._sink.judged.copy()
        step_s = 1 / min(each_fps, MOST_FPS)
        cpu_s, began_s = time.process_time(), time.perf_counter()
        due_s = began_s
        while due_s < began_s + seconds:
            for camera in self._cameras.values():
                frame = camera.next()
                for station in self._stations.values():
                    if station.camera == camera.name:
                        station.offer(frame)
            # one that is late gives no two frames at once
            due_s = max(due_s + step_s, time.perf_counter())
            # the pace of the cameras, which is what is asked for here
            time.sleep(max(0.0, due_s - time.perf_counter()))
        self._wait_idle()
        done = self._sink.judged - before
        took_s = max(self._sink.last_s, began_s + 1e-9) - began_s
        self._per_station += done
        self._seconds += took_s
        frames: Counter[str] = Counter()
        for name, station in self._stations.items():
            frames[station.settings.model] += done[name]
        return Window(dict(frames), took_s, time.process_time() - cpu_s)

    def forget(self) -> None:
        """What was counted so far: the machine was getting warm."""
        self._per_station.clear()
        self._sink.judged.clear()
        self._sink.undefined.clear()
        self._sink.ages_ms.clear()
        self._sink.reasons.clear()
        self._dropped_before = {name: one.dropped for name, one in self._stations.items()}
        self._seconds = 0.0

    def refuse_idle(self) -> None:
        """BackendError where a station had frames and its network was asked for none of them."""
        for name in self._stations:
            if not self._sink.judged[name]:
                why = self._sink.reasons.get(name, "it gave no result")
                raise BackendError(
                    f"station {name} judges none of these frames: {why}",
                    hint="name frames that it can judge with --source",
                )

    @property
    def stations(self) -> int:
        """How many there are."""
        return len(self._stations)

    @property
    def frames(self) -> Frames:
        """Of the first camera."""
        return next(iter(self._cameras.values())).frames

    def latencies_ms(self) -> Sequence[float]:
        """Ages of all frames that were judged, when they were."""
        return self._sink.ages_ms

    def shares(self) -> list[Share]:
        """What each station had of all windows."""
        total = self._per_station.total()
        return [
            Share(
                station=name,
                model=station.settings.model,
                fps=self._per_station[name] / self._seconds,
                share=self._per_station[name] / total,
                dropped=station.dropped - self._dropped_before[name],
                undefined=self._sink.undefined[name],
            )
            for name, station in self._stations.items()
        ]

    def _wait_idle(self) -> None:
        offered = {name: self._cameras[one.camera].given for name, one in self._stations.items()}
        idle = self._sink.wait(
            lambda: all(
                self._sink.answered[name] + one.dropped >= offered[name]
                for name, one in self._stations.items()
            ),
            PATIENCE_S,
        )
        if not idle:
            raise BackendError(f"frames were not judged after {PATIENCE_S:g} s")


class Sink:
    """Takes what stations deliver, counts it and lets it go."""

    def __init__(self) -> None:
        self.answered: Counter[str] = Counter()
        """Inspections by station."""
        self.judged: Counter[str] = Counter()
        """Those that a network answered."""
        self.undefined: Counter[str] = Counter()
        self.reasons: dict[str, str] = {}
        """The last thing that kept a station from judging."""
        self.ages_ms: list[float] = []
        self.last_s = 0.0
        """When the newest judged inspection was there, by the performance counter."""
        self._changed = threading.Condition()

    def decide(self, result: Result) -> None:
        """See Delivery."""
        with self._changed:
            self.answered[result.station] += 1
            if result.processing_times is not None:
                self.judged[result.station] += 1
                self.last_s = time.perf_counter()
                if result.age_ms is not None:
                    self.ages_ms.append(result.age_ms)
            else:
                self.undefined[result.station] += 1
                self.reasons[result.station] = ", ".join(one.text for one in result.reasons)
            self._changed.notify_all()

    def publish(
        self, result: Result, frame: Frame | None, findings: Findings | None, settings: StationSettings
    ) -> None:
        """See Delivery."""

    def line_stop(self, station: str, decision: Decision) -> None:
        """See Delivery."""

    def accept(self, station: str, trigger: PartTrigger) -> None:
        """See Delivery."""

    def reference_unused(self, station: str, why: str) -> None:
        """See Delivery."""

    def wait(self, until: Callable[[], bool], timeout_s: float) -> bool:
        """False where it was not true in time."""
        with self._changed:
            return self._changed.wait_for(until, timeout_s)


class _Memory:
    """A camera that has its frames already."""

    def __init__(self, name: str, frames: Frames) -> None:
        self.name = name
        self.frames = frames
        self.given = 0
        self._pixels = itertools.cycle(frames.pixels)

    def next(self) -> Frame:
        """Captured now."""
        self.given += 1
        return Frame(
            camera=self.name,
            seq=self.given,
            pixels=next(self._pixels),
            time_s=time.monotonic(),
            captured_at=clock.now(),
            # they are shown again and again, and no camera is frozen
            still=True,
        )
