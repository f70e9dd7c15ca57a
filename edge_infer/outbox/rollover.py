"""The end of a shift: its counts are told and the next one's begin, in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from edge_infer import clock
from edge_infer.outbox.ledger import Changes, Ledger, Tally
from edge_infer.outbox.row import Row
from edge_infer.outbox.shifts import Shifts
from edge_infer.outbox.store import Store

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, eq=False)
class Follower:
    """Who wants to know of shifts."""

    shifts: Shifts
    stations: Collection[str]
    """They begin a shift without a result, and end one."""
    ended: Callable[[str, Tally, datetime], tuple[str, bytes]]
    """Topic and payload of the event that tells a station's finished shift and when it ended."""
    renewed: Callable[[str], None]
    """A station's counts changed without a result; on the writer's thread, must not wait."""


class Rollover:
    """Belongs to the writer's thread. Without a follower shifts never end."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._follower: Follower | None = None
        self._next = self._seen = _EPOCH

    def follow(self, follower: Follower) -> None:
        """From now on; shifts that ended while nobody looked end now."""
        self._follower = follower
        self._next = _EPOCH

    def due(self) -> bool:
        """A shift may have ended, or the clock was set back."""
        if self._follower is None:
            return False
        now, before = clock.now(), self._seen
        self._seen = now
        return now >= self._next or now < before or bool(self._ledger.untold)

    def roll(self, store: Store, changes: Changes) -> list[str]:
        """Ends what is to be ended, inside a transaction; the stations whose counts changed."""
        if self._follower is None:
            return []
        shifts, now = self._follower.shifts, clock.now()
        renewed = []
        for station, shift in self._ledger.untold:
            self._tell(store, station, shift, self._follower)
        # a station that the site does not name any more tells its last shift and is silent then
        for station in sorted({*self._follower.stations, *self._ledger.counts, *changes.counts}):
            counts = self._ledger.newest(station, changes)
            began = shifts.due(counts.shift.since, now)
            if began is None:
                continue
            if counts.shift.since is not None and (station in self._follower.stations or counts.shift.total):
                self._tell(store, station, counts.shift, self._follower)
            changes.counts[station] = replace(counts, shift=Tally(since=began))
            renewed.append(station)
        return renewed

    @staticmethod
    def _tell(store: Store, station: str, shift: Tally, follower: Follower) -> None:
        now = clock.now()
        # it ended at its own end, however long the device was off; or just now if the clock went back
        ended_at = min(follower.shifts.next(shift.since or now), now)
        topic, payload = follower.ended(station, shift, ended_at)
        store.insert(Row("event", topic, payload, now.timestamp()))

    def rolled(self, renewed: Collection[str]) -> None:
        """That transaction is committed."""
        if self._follower is None:
            return
        self._ledger.untold.clear()
        first = self._next == _EPOCH
        self._next = self._follower.shifts.next(clock.now())
        for station in self._follower.stations:
            if first or station in renewed:
                self._follower.renewed(station)
