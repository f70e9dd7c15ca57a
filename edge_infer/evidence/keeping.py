"""Which results get a picture."""

from __future__ import annotations

from collections import deque

from edge_infer.evidence.settings import EvidenceSettings
from edge_infer.result import Result

MINUTE_S = 60.0
KINDS = 64
"""Kinds of trouble remembered at once; far more than one station has."""

_Trouble = tuple[str, ...]


class Keeping:
    """One station's pictures: NOK and UNDEFINED up to so many a minute, OK every so many."""

    def __init__(self, settings: EvidenceSettings) -> None:
        self._ok_every = settings.ok_every
        self._per_minute = settings.per_minute
        self._ok = 0
        self._kept: deque[float] = deque()
        """When (monotonic), within the last minute."""
        self._seen: dict[_Trouble, float] = {}
        """When each kind of trouble was last there, the longest ago first."""

    def wants(self, result: Result, now_s: float) -> bool:
        """Call it once for each result that has a frame, in order."""
        if result.decision == "OK":
            self._ok += 1
            return self._ok % self._ok_every == 0
        trouble = _kind(result)
        # not "unlike the one before": a line where every second part is bad would keep them all
        last_s = self._seen.pop(trouble, float("-inf"))
        self._seen[trouble] = now_s
        if len(self._seen) > KINDS:
            del self._seen[next(iter(self._seen))]
        while self._kept and now_s - self._kept[0] >= MINUTE_S:
            self._kept.popleft()
        if len(self._kept) >= self._per_minute and now_s - last_s < MINUTE_S:
            return False
        self._kept.append(now_s)
        return True


def _kind(result: Result) -> _Trouble:
    broken = (rule.name for rule in result.rules if rule.decision != "OK")
    return (result.decision, *(reason.code for reason in result.reasons), *broken)
