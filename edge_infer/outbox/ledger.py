"""What the outbox knows of each station: its number, its counters and its open triggers."""

from __future__ import annotations

import threading
import uuid
from dataclasses import dataclass, field
from datetime import datetime

from edge_infer.result import Decision


@dataclass(frozen=True, slots=True)
class Counts:
    """One station's decisions since they were reset."""

    ok: int = 0
    nok: int = 0
    undefined: int = 0
    since: datetime | None = None
    """UTC; None before the first result."""

    def plus(self, decision: Decision, at: datetime) -> Counts:
        """One more."""
        return Counts(
            self.ok + (decision == "OK"),
            self.nok + (decision == "NOK"),
            self.undefined + (decision == "UNDEFINED"),
            self.since or at,
        )

    def joined(self, later: Counts) -> Counts:
        """Both together."""
        return Counts(
            self.ok + later.ok,
            self.nok + later.nok,
            self.undefined + later.undefined,
            self.since or later.since,
        )


@dataclass(frozen=True, slots=True)
class OpenTrigger:
    """A trigger that was stored and has no result yet."""

    station: str
    job_id: str
    part_id: str | None
    received_at: datetime


@dataclass(frozen=True, slots=True)
class Stream:
    """Names a station's count of results, and the last number given."""

    stream_id: str
    seq: int = 0

    @classmethod
    def new(cls) -> Stream:
        """Starts before 1."""
        return cls(str(uuid.uuid4()))


@dataclass(slots=True)
class Changes:
    """What one transaction changes; thrown away when it fails."""

    streams: dict[str, Stream] = field(default_factory=dict)
    counts: dict[str, Counts] = field(default_factory=dict)
    opened: list[OpenTrigger] = field(default_factory=list)
    closed: list[tuple[str, str]] = field(default_factory=list)
    """(station, job id)"""


class Ledger:
    """The truth in memory; the writer changes it after each commit, anyone may ask."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.streams: dict[str, Stream] = {}
        self.counts: dict[str, Counts] = {}
        self.open: dict[tuple[str, str], OpenTrigger] = {}

    def number(self, station: str, changes: Changes) -> Stream:
        """The next number of a station, noted in ``changes``."""
        now = changes.streams.get(station) or self.streams.get(station) or Stream.new()
        changes.streams[station] = numbered = Stream(now.stream_id, now.seq + 1)
        return numbered

    def count(self, station: str, decision: Decision, at: datetime, changes: Changes) -> None:
        """One more decision of a station, noted in ``changes``."""
        now = changes.counts.get(station) or self.counts.get(station) or Counts()
        changes.counts[station] = now.plus(decision, at)

    def apply(self, changes: Changes) -> None:
        """The transaction is committed."""
        with self._lock:
            self.streams.update(changes.streams)
            self.counts.update(changes.counts)
            self.open.update({(one.station, one.job_id): one for one in changes.opened})
            for key in changes.closed:
                self.open.pop(key, None)

    def counts_of(self, station: str) -> Counts:
        """Zeros for a station without results."""
        with self._lock:
            return self.counts.get(station, Counts())

    def open_triggers(self, station: str) -> list[OpenTrigger]:
        """Oldest first."""
        with self._lock:
            mine = [trigger for trigger in self.open.values() if trigger.station == station]
        return sorted(mine, key=lambda trigger: trigger.received_at)
