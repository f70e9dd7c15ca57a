"""What the outbox knows of each station: its number, its counters and its open triggers."""

from __future__ import annotations

import threading
import uuid
from dataclasses import dataclass, field
from datetime import datetime

from edge_infer.messages.counts import CountsMessage, ShiftCounts
from edge_infer.result import Decision


@dataclass(frozen=True, slots=True)
class Tally:
    """One station's decisions since some instant."""

    ok: int = 0
    nok: int = 0
    undefined: int = 0
    since: datetime | None = None
    """UTC; None before the first result."""

    @property
    def total(self) -> int:
        """All of them."""
        return self.ok + self.nok + self.undefined

    def plus(self, decision: Decision, at: datetime) -> Tally:
        """One more."""
        return Tally(
            self.ok + (decision == "OK"),
            self.nok + (decision == "NOK"),
            self.undefined + (decision == "UNDEFINED"),
            self.since or at,
        )

    def with_(self, later: Tally) -> Tally:
        """Both together."""
        return Tally(
            self.ok + later.ok,
            self.nok + later.nok,
            self.undefined + later.undefined,
            self.since or later.since,
        )


@dataclass(frozen=True, slots=True)
class Counts(Tally):
    """One station's decisions since they were reset, and since its shift began."""

    shift: Tally = Tally()
    """Not changed by a reset."""

    def one_more(self, decision: Decision, at: datetime) -> Counts:
        """In both."""
        one = self.plus(decision, at)
        return Counts(one.ok, one.nok, one.undefined, one.since, self.shift.plus(decision, at))

    def joined(self, later: Counts) -> Counts:
        """Both together; of two shifts the later one."""
        both = self.with_(later)
        same = self.shift.since in (None, later.shift.since)
        shift = self.shift.with_(later.shift) if same else later.shift
        return Counts(both.ok, both.nok, both.undefined, both.since, shift)

    def message(self) -> CountsMessage:
        """As it is published."""
        shift = self.shift
        return CountsMessage(
            OK=self.ok,
            NOK=self.nok,
            UNDEFINED=self.undefined,
            since=self.since,
            shift=ShiftCounts(OK=shift.ok, NOK=shift.nok, UNDEFINED=shift.undefined, since=shift.since),
        )

    def reset(self, at: datetime) -> Counts:
        """Zero since then; the shift goes on."""
        return Counts(since=at, shift=self.shift)


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
        self.untold: list[tuple[str, Tally]] = []
        """Shifts that ended while the disk could not be read."""

    def number(self, station: str, changes: Changes) -> Stream:
        """The next number of a station, noted in ``changes``."""
        now = changes.streams.get(station) or self.streams.get(station) or Stream.new()
        changes.streams[station] = numbered = Stream(now.stream_id, now.seq + 1)
        return numbered

    def count(self, station: str, decision: Decision, at: datetime, changes: Changes) -> None:
        """One more decision of a station, noted in ``changes``."""
        changes.counts[station] = self.newest(station, changes).one_more(decision, at)

    def newest(self, station: str, changes: Changes) -> Counts:
        """A station's counts with those of ``changes``."""
        return changes.counts.get(station) or self.counts.get(station) or Counts()

    def apply(self, changes: Changes) -> None:
        """The transaction is committed."""
        with self._lock:
            self.streams.update(changes.streams)
            self.counts.update(changes.counts)
            self.open.update({(one.station, one.job_id): one for one in changes.opened})
            for key in changes.closed:
                self.open.pop(key, None)

    @property
    def stations(self) -> set[str]:
        """All that are counted."""
        with self._lock:
            return {*self.counts, *self.streams}

    def counts_of(self, station: str) -> Counts:
        """Zeros for a station without results."""
        with self._lock:
            return self.counts.get(station, Counts())

    def open_triggers(self, station: str) -> list[OpenTrigger]:
        """Oldest first."""
        with self._lock:
            mine = [trigger for trigger in self.open.values() if trigger.station == station]
        return sorted(mine, key=lambda trigger: trigger.received_at)
