"""An outbox and somebody who empties it."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from edge_infer.outbox import Outbox, OutboxSettings, Row
from edge_infer.result import Result


class Reader:
    """Stands where the pump stands."""

    def __init__(self, outbox: Outbox) -> None:
        self.alarms: list[tuple[str, Mapping[str, Any]]] = []
        self.outbox = outbox
        self._woken = threading.Event()
        outbox.listen(self._woken.set, lambda kind, data: self.alarms.append((kind, data)))

    def take(self, count: int, timeout_s: float = 5.0) -> list[Row]:
        """So many messages, without an answer to them yet."""
        rows: list[Row] = []
        until = time.monotonic() + timeout_s
        while len(rows) < count:
            self._woken.clear()
            row = self.outbox.take()
            if row is not None:
                rows.append(row)
                continue
            left = until - time.monotonic()
            assert left > 0, f"{len(rows)} of {count} messages after {timeout_s} s"
            self._woken.wait(min(left, 0.2))
        return rows

    def deliver(self, count: int, timeout_s: float = 5.0) -> list[Row]:
        """So many messages, each acknowledged."""
        rows = []
        for _ in range(count):
            row = self.take(1, timeout_s)[0]
            self.outbox.delivered(row)
            rows.append(row)
        return rows

    def alarm(self, kind: str, timeout_s: float = 5.0) -> Mapping[str, Any]:
        """The data of the first alarm of that kind."""
        until = time.monotonic() + timeout_s
        while True:
            for one, data in self.alarms:
                if one == kind:
                    return data
            assert time.monotonic() < until, f"no {kind}, only {self.alarms}"
            time.sleep(0.01)


def put_all(outbox: Outbox, results: Iterable[Result], topic: str = "p/{station}/result") -> list[Result]:
    """The numbered results, once all are committed."""
    finals: list[Result] = []
    results = list(results)
    done = threading.Event()

    def committed(final: Result) -> None:
        finals.append(final)
        if len(finals) == len(results):
            done.set()

    for one in results:
        outbox.put(topic.format(station=one.station), one, committed)
    assert done.wait(10), f"{len(finals)} of {len(results)} committed"
    return finals


def numbers(rows: Iterable[Row]) -> list[int]:
    """The numbers of results as they are published."""
    return [json.loads(row.payload)["seq"] for row in rows if row.kind == "result"]


def opened(folder: Path, **settings: Any) -> Outbox:
    """With settings as in the YAML."""
    return Outbox.open(folder, OutboxSettings.model_validate(settings))
