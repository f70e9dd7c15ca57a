"""One message that waits for the broker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from edge_infer.messages.gap import GapReason
from edge_infer.result import Decision

Kind = Literal["result", "event", "gap"]
Place = Literal["disk", "ram"]

OVERHEAD = 120
"""Bytes that a row costs beside its topic and payload (measured on a full database)."""

_RANK: dict[str, int] = {"OK": 0, "UNDEFINED": 1, "": 2, "NOK": 3}


def rank(decision: Decision | Literal[""]) -> int:
    """Lower is given up first: OK, UNDEFINED, events, NOK."""
    return _RANK[decision]


class GapKey(NamedTuple):
    """What ranges of numbers belong to."""

    topic: str
    station: str
    stream_id: str
    reason: GapReason


@dataclass(frozen=True, slots=True)
class Range:
    """Results of one stream that were given up, first and last included."""

    first: int
    last: int


@dataclass(slots=True, eq=False)
class Row:
    """Belongs to one thread at a time: the writer's, then the pump's that took it."""

    kind: Kind
    topic: str
    payload: bytes
    created_s: float
    """Wall clock, Unix time."""
    station: str = ""
    stream_id: str = ""
    seq: int = 0
    """0 for events and gaps."""
    decision: Decision | Literal[""] = ""
    id: int = 0
    """In its place."""
    place: Place = "disk"
    delayed: bool = False
    """It was there before the connection was made that it is sent over."""
    reason: GapReason | Literal[""] = ""
    """Why the ranges were given up (gaps only)."""
    ranges: tuple[Range, ...] = ()
    """What was given up (gaps only)."""

    @property
    def size(self) -> int:
        """Bytes it counts against the bounds."""
        return len(self.payload) + len(self.topic) + OVERHEAD
