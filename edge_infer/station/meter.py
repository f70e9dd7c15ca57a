"""What one station does, in numbers; counting costs an inspection a microsecond."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Collection

from edge_infer.messages.stats import DecisionCounts, Percentiles
from edge_infer.result import Decision, Result

SAMPLES = 4096
"""Of one window; beyond them the oldest are not in the percentiles."""


class Meter:
    """One thread at a time counts, another one reads."""

    def __init__(self) -> None:
        self._decisions: dict[Decision, int] = {"OK": 0, "NOK": 0, "UNDEFINED": 0}
        self._ages_ms: deque[float] = deque(maxlen=SAMPLES)
        self._processing_ms: deque[float] = deque(maxlen=SAMPLES)
        self._since_s = time.monotonic()
        self._before = 0

    def count(self, result: Result) -> None:
        """One inspection was answered."""
        self._decisions[result.decision] += 1
        if result.age_ms is not None:
            self._ages_ms.append(result.age_ms)
        if result.processing_times is not None:
            self._processing_ms.append(result.processing_times.processing_duration)

    @property
    def decisions(self) -> DecisionCounts:
        """Since the start."""
        seen = self._decisions
        return DecisionCounts(OK=seen["OK"], NOK=seen["NOK"], UNDEFINED=seen["UNDEFINED"])

    def window(self) -> tuple[float, Percentiles | None, Percentiles | None]:
        """Inspections a second, ages and processing times since the last call; a new window begins."""
        now_s, total = time.monotonic(), sum(self._decisions.values())
        ages_ms, self._ages_ms = self._ages_ms, deque(maxlen=SAMPLES)
        processing_ms, self._processing_ms = self._processing_ms, deque(maxlen=SAMPLES)
        rate = (total - self._before) / max(1e-3, now_s - self._since_s)
        self._since_s, self._before = now_s, total
        return rate, _percentiles(ages_ms), _percentiles(processing_ms)


def _percentiles(values: Collection[float]) -> Percentiles | None:
    if not values:
        return None
    in_order = sorted(values)
    last = len(in_order) - 1
    return Percentiles(p50=round(in_order[round(last * 0.5)], 3), p95=round(in_order[round(last * 0.95)], 3))
