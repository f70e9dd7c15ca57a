"""An evidence store with what it told."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from edge_infer.evidence.evidence import Evidence
from edge_infer.evidence.pictures import Areas, Encoded, Scene
from edge_infer.evidence.settings import EvidenceSettings
from edge_infer.findings import Detections, Findings
from edge_infer.frame import Frame
from edge_infer.result import Result, new_result_id
from tests.support.results import result

DAY = timedelta(days=1)


def scene(width: int = 640, height: int = 480, findings: Findings | None = None, *, seed: int = 1) -> Scene:
    """A picture full of detail, so that its JPEG is large."""
    coarse = np.random.default_rng(seed).integers(0, 255, (height // 8 + 1, width // 8 + 1, 3), np.uint8)
    pixels = np.ascontiguousarray(coarse.repeat(8, axis=0).repeat(8, axis=1)[:height, :width])
    pixels.flags.writeable = False
    frame = Frame("top", 1, pixels, 0.0, datetime.now(UTC))
    return Scene(frame, findings or Findings(Detections.none()), lambda _width, _height: Areas())


def until(wanted: Callable[[], Any], timeout_s: float = 10.0) -> None:
    """Asserts that it comes true in that time."""
    end = time.monotonic() + timeout_s
    while not wanted():
        assert time.monotonic() < end, f"not in {timeout_s} s"
        time.sleep(0.005)


class Store:
    """Evidence whose records, alarms and publications can be looked at."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        defaults = {"min_free_bytes": 0, "per_minute": 1000, "ok_every": 1}
        self.folder = folder
        self.records: list[Result] = []
        self.at_s: list[float] = []
        """When each record came out (monotonic)."""
        self.alarms: list[tuple[str, Mapping[str, Any], str | None]] = []
        self.published: list[tuple[Result, Encoded]] = []
        self._changed = threading.Condition()
        self.evidence = Evidence(
            EvidenceSettings.model_validate_json(json.dumps(defaults | settings)),
            folder,
            record=self._record,
            alarm=lambda kind, data, station: self.alarms.append((kind, data, station)),
            publish=lambda one, picture: self.published.append((one, picture)),
        )

    def _record(self, one: Result) -> None:
        with self._changed:
            self.records.append(one)
            self.at_s.append(time.monotonic())
            self._changed.notify_all()

    def wait(self, count: int, timeout_s: float = 10) -> list[Result]:
        """The records, once there are so many."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.records) >= count, timeout_s), len(self.records)
            return list(self.records)

    def offer(self, count: int = 1, **more: Any) -> list[Result]:
        """Results with a picture, one after the other; their records."""
        before = len(self.records)
        for number in range(count):
            self.evidence.offer(result(decision=more.get("decision", "NOK")), scene(seed=number))
            self.wait(before + number + 1)
        return self.records[before:]

    def told(self, kind: str) -> list[Mapping[str, Any]]:
        """The data of all alarms of that kind."""
        return [data for one, data, _ in self.alarms if one == kind]

    def close(self, timeout_s: float = 5.0) -> None:
        self.evidence.close(timeout_s)


def lay(folder: Path, age: timedelta, *, station: str = "cap", size: int = 5000, kind: str = "raw") -> Path:
    """A picture that an earlier run left, of that age."""
    taken = datetime.now(UTC) - age
    day = folder / station / f"{taken:%Y-%m-%d}"
    day.mkdir(parents=True, exist_ok=True)
    path = day / f"{new_result_id(taken)}-{kind}.jpg"
    path.write_bytes(b"x" * size)
    return path


def pictures(folder: Path) -> list[Path]:
    """All that are there, the oldest first."""
    return sorted(folder.glob("*/????-??-??/*.jpg"), key=lambda path: (path.parent.name, path.name))
