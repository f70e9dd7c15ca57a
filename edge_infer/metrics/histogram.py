"""How often a duration was how long, in constant memory."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

BOUNDS_S = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
"""Upper bounds, each in its bucket; one more bucket holds all that is longer."""


class Histogram:
    """One thread at a time observes, which takes less than a microsecond; others may read meanwhile."""

    __slots__ = ("_counts", "_sum_s")

    def __init__(self) -> None:
        self._counts = [0] * (len(BOUNDS_S) + 1)
        self._sum_s = 0.0

    def observe(self, seconds: float) -> None:
        """Count one."""
        self._counts[bisect_left(BOUNDS_S, seconds)] += 1
        self._sum_s += seconds

    @property
    def sum_s(self) -> float:
        """Of all that were observed; a reader may see one more or less in it than in `cumulative`."""
        return self._sum_s

    def cumulative(self) -> Iterator[tuple[str, int]]:
        """As Prometheus wants it: (upper bound in seconds, how many were not longer), the last one +Inf."""
        total = 0
        # a copy: what is observed meanwhile must not make a later bucket smaller than an earlier one
        for bound, count in zip((*map(str, BOUNDS_S), "+Inf"), tuple(self._counts), strict=True):
            total += count
            yield bound, total
