"""Which candidate is the fastest of those that may be chosen."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from edge_infer.tune.agreement import Agreement
from edge_infer.tune.candidates import Candidate, Variant
from edge_infer.tune.speed import Speed

Aim = Literal["throughput", "latency"]
QUIET = 0.1
"""Cores that others may use before the clock says more about them than about the candidates."""
CLOSE = 0.03
"""Within so much of the fastest the exact one wins: it is noise that parts them."""


@dataclass(slots=True)
class Judged:
    """A variant and how it agrees with FP32."""

    variant: Variant
    agreement: Agreement | None = None
    """None where it could not be run."""
    rejected: str | None = None
    """Why it may not be chosen, as a sentence."""


@dataclass(slots=True)
class Tried:
    """A candidate and how fast it is."""

    candidate: Candidate
    judged: Judged
    requests: int = 0
    """It had when it was measured."""
    windows: list[Speed] = field(default_factory=list)
    speed: Speed | None = None
    """The median of ``windows``."""
    failed: str | None = None
    """Why it has none."""

    @property
    def rejected(self) -> str | None:
        """Why it may not be chosen, as a sentence; None: it may."""
        return self.judged.rejected or self.failed


def choose(tried: Sequence[Tried], aim: Aim) -> Tried | None:
    """The fastest that may be chosen; None where none may."""
    fit = [one for one in tried if one.rejected is None and one.speed is not None]
    if not fit:
        return None
    by = _by_cpu_time if goes_by_cpu_time(tried) else _by_the_clock
    speeds = {id(one): by(one, aim) for one in fit}
    best = max(speeds.values())
    close = [one for one in fit if speeds[id(one)] >= (1 - CLOSE) * best]
    exact = [one for one in close if one.judged.variant.exact]
    return max(exact or close, key=lambda one: speeds[id(one)])


def goes_by_cpu_time(tried: Sequence[Tried]) -> bool:
    """Whether the machine was too busy for the clock, and the CPU's time says it instead."""
    others = [window.others for one in tried for window in one.windows]
    only_cpu = all(one.candidate.threads is not None for one in tried)
    return bool(others) and statistics.median(others) > QUIET and only_cpu


def _by_the_clock(one: Tried, aim: Aim) -> float:
    if one.speed is None:
        return 0.0
    return one.speed.fps if aim == "throughput" else 1000 / one.speed.p50_ms


def _by_cpu_time(one: Tried, aim: Aim) -> float:
    """Frames a second if its threads had a core each; for latency divided by how many are under way."""
    if one.speed is None:
        return 0.0
    fps = (one.candidate.threads or 1) * 1000 / one.speed.cpu_ms
    return fps if aim == "throughput" else fps / max(1, one.requests)
