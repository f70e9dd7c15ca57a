"""What one station does, in numbers; counting costs an inspection some microseconds."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Collection, Mapping
from typing import get_args

from edge_infer.messages.stats import DecisionCounts, Percentiles
from edge_infer.metrics.histogram import Histogram
from edge_infer.network import Inference
from edge_infer.result import Decision, ReasonCode, Result

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
        self._reasons: dict[ReasonCode, int] = dict.fromkeys(get_args(ReasonCode), 0)
        self._preprocess, self._infer, self._postprocess = Histogram(), Histogram(), Histogram()
        self.stages: Mapping[str, Histogram] = {
            "preprocess": self._preprocess,
            "infer": self._infer,
            "postprocess": self._postprocess,
        }
        """How long each step took for a frame."""
        self.capture_to_decision = Histogram()
        self.triggers = 0
        """Parts that asked."""
        self._decided_s = self._since_s
        self._taken_s: float | None = None
        """When (monotonic) the newest frame that was inspected was taken."""

    def ask(self) -> None:
        """A part asked for an inspection."""
        self.triggers += 1

    def count(self, result: Result, inference: Inference | None = None) -> None:
        """One inspection was answered; ``inference``: what the network gave for it."""
        self._decisions[result.decision] += 1
        now_s = self._decided_s = time.monotonic()
        for reason in result.reasons:
            self._reasons[reason.code] += 1
        if result.age_ms is not None:
            self._ages_ms.append(result.age_ms)
            self._taken_s = now_s - result.age_ms / 1000
            self.capture_to_decision.observe(result.age_ms / 1000)
        if inference is not None:
            self._preprocess.observe(inference.preprocess_ms / 1000)
            self._infer.observe(inference.infer_ms / 1000)
            self._postprocess.observe(inference.postprocess_ms / 1000)
        if result.processing_times is not None:
            self._processing_ms.append(result.processing_times.processing_duration)

    @property
    def decisions(self) -> DecisionCounts:
        """Since the start."""
        seen = self._decisions
        return DecisionCounts(OK=seen["OK"], NOK=seen["NOK"], UNDEFINED=seen["UNDEFINED"])

    @property
    def reasons(self) -> Mapping[ReasonCode, int]:
        """Since the start, every code there is; a result may have several."""
        return self._reasons

    def decision_age_s(self, now_s: float) -> float:
        """Since the newest decision, before the first since the start, at monotonic ``now_s``."""
        return max(0.0, now_s - self._decided_s)

    def frame_age_s(self, now_s: float) -> float | None:
        """Since the newest inspected frame was taken, at monotonic ``now_s``; None before the first."""
        return None if self._taken_s is None else max(0.0, now_s - self._taken_s)

    @property
    def total(self) -> int:
        """Answers of any kind, since the start."""
        return sum(self._decisions.values())

    def window(self) -> tuple[float, Percentiles | None, Percentiles | None]:
        """Inspections a second, ages and processing times since the last call; a new window begins."""
        now_s, total = time.monotonic(), self.total
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
