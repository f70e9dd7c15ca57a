"""How often one requester may ask: token buckets, a bounded number of them."""

from __future__ import annotations

from collections import OrderedDict

KNOWN = 256
"""Requesters that are remembered; beyond them the longest silent one starts anew."""
TOGETHER = 5
"""All requesters of a verb together may ask so many times as often as one: names are easily made up."""


class _Bucket:
    def __init__(self, now_s: float) -> None:
        self.tokens = float("inf")
        self._at_s = now_s

    def fill(self, per_minute: int, now_s: float) -> None:
        self.tokens = min(per_minute, self.tokens + (now_s - self._at_s) * per_minute / 60)
        self._at_s = now_s


class Rates:
    """Used by one thread."""

    def __init__(self) -> None:
        self._own: OrderedDict[tuple[str, str], _Bucket] = OrderedDict()
        self._together: dict[str, _Bucket] = {}

    def allows(self, verb: str, requester: str, per_minute: int, now_s: float) -> bool:
        """Whether it may ask now; if so, it has. A quiet minute allows ``per_minute`` at once."""
        own = self._own.setdefault((verb, requester), _Bucket(now_s))
        self._own.move_to_end((verb, requester))
        if len(self._own) > KNOWN:
            self._own.popitem(last=False)
        together = self._together.setdefault(verb, _Bucket(now_s))
        own.fill(per_minute, now_s)
        together.fill(per_minute * TOGETHER, now_s)
        if own.tokens < 1 or together.tokens < 1:
            return False
        own.tokens -= 1
        together.tokens -= 1
        return True
