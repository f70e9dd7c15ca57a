"""One station with a network that the test controls, and a box for what it hands on."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from edge_infer.engine import Engine
from edge_infer.findings import Findings
from edge_infer.frame import Frame, PartTrigger
from edge_infer.network import Inference, Network
from edge_infer.result import Decision, Device, Identifier, Origin, Result
from edge_infer.station import StationSettings
from edge_infer.station.identity import Identity
from edge_infer.station.inspection import Unusable
from edge_infer.station.setup import Setup
from edge_infer.station.station import Station
from tests.support.frames import found

CAP = found(("cap", 0.9, (0, 0, 10, 10)))


class Scripted:
    """A network that waits, fails or answers when the test says so: a real one will not on demand."""

    def __init__(self, requests: int = 1) -> None:
        self.requests = requests
        self.go = threading.Event()
        self.go.set()
        self.begun = threading.Semaphore(0)
        self.answer: Callable[[NDArray[np.uint8]], Findings] = lambda _: CAP
        self.seen: list[float] = []
        self.seen_part: tuple[int, int, int, int] | None = None

    def look(self, pixels: NDArray[np.uint8], _view: object) -> Inference:
        self.begun.release()
        assert self.go.wait(10)
        self.seen.append(float(pixels[0, 0, 0]))
        return Inference(self.answer(pixels), 1.0, 2.0, 3.0, self.seen_part)

    def close(self) -> None:
        pass


class Box:
    """Collects what a station hands on."""

    def __init__(self) -> None:
        self.published: list[Result] = []
        self.frames: list[Frame | None] = []
        """What each was made from."""
        self.decided: list[Decision] = []
        self.stops: list[Decision] = []
        self.accepted: list[PartTrigger] = []
        self.unused: list[str] = []
        self._changed = threading.Condition()

    def publish(self, result: Result, frame: Frame | None, _findings: object, _settings: object) -> None:
        with self._changed:
            self.published.append(result)
            self.frames.append(frame)
            self._changed.notify_all()

    def decide(self, result: Result) -> None:
        self.decided.append(result.decision)

    def line_stop(self, station: str, decision: Decision) -> None:
        assert station == "s"
        self.stops.append(decision)

    def reference_unused(self, station: str, why: str) -> None:
        assert station == "s"
        self.unused.append(why)

    def accept(self, station: str, trigger: PartTrigger) -> None:
        assert station == "s"
        self.accepted.append(trigger)

    def wait(self, n: int, timeout_s: float = 5.0) -> list[Result]:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.published) >= n, timeout_s), self.codes()
        return self.published

    def codes(self) -> list[str]:
        return [one.reasons[0].code if one.reasons else one.decision for one in self.published]


IDENTITY = Identity(
    "s",
    Origin(site="a", line="b", device="c", camera="cam"),
    Identifier(id="s"),
    Identifier(id="site.yaml"),
    "onnxruntime",
    Device(requested="CPU", running="CPU"),
    None,
    "boot",
)
RULES = [{"name": "has-cap", "count": {"labels": ["cap"], "at_least": 1}}]


class Line:
    """One station with its engine."""

    def __init__(self, network: Scripted, *, recorded: bool = False, start: bool = True, **keys: Any) -> None:
        text = json.dumps({"camera": "cam", "model": "m", "rules": RULES, **keys})
        self.box = Box()
        self.engine = Engine("m", cast(Network, network))
        self.settings = StationSettings.model_validate_json(text)
        self.station = Station(self.setup(), self.box, recorded=recorded, max_age_s=1.0)
        self.station.start()
        if start:
            self.engine.start()

    def setup(
        self,
        name: str | None = None,
        *,
        engine: Engine | None = None,
        failed: Unusable | None = None,
        **keys: Any,
    ) -> Setup:
        """The station's settings with other keys, as the recipe ``name``."""
        text = json.dumps(self.settings.model_dump(mode="json") | keys)
        identity = replace(IDENTITY, external_recipe=Identifier(id=name) if name else None)
        used = None if failed else engine or self.engine
        return Setup.new(StationSettings.model_validate_json(text), identity, used, failed)


def part(part_id: str, time_s: float | None = None) -> PartTrigger:
    at = time.monotonic() if time_s is None else time_s
    return PartTrigger(at, datetime.now(UTC), part_id=part_id, job_id=f"job-{part_id}")


def now() -> float:
    return time.monotonic()
