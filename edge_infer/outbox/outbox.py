"""What stations, service and pump call."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from edge_infer import clock
from edge_infer.errors import OutboxError
from edge_infer.messages.stats import OutboxNumbers
from edge_infer.outbox.folder import Folder
from edge_infer.outbox.handover import (
    LIMIT,
    Flush,
    FollowShifts,
    Handover,
    NewEvent,
    NewResult,
    NewTrigger,
    ResetCounts,
)
from edge_infer.outbox.ledger import Counts, Ledger, OpenTrigger, Tally
from edge_infer.outbox.ready import Outcome, Ready
from edge_infer.outbox.rollover import Follower
from edge_infer.outbox.row import Row
from edge_infer.outbox.settings import OutboxSettings
from edge_infer.outbox.shifts import Shifts
from edge_infer.outbox.storage import Storage
from edge_infer.outbox.writer import Writer
from edge_infer.progress import Loop
from edge_infer.result import Result

log = logging.getLogger(__name__)

ALARMS = 20
"""Alarms kept until somebody listens."""


@dataclass(frozen=True, slots=True)
class OutboxStats:
    """The outbox in numbers; counters are since the start of the process."""

    depth: int
    """Messages that wait or are on the wire."""
    bytes: int
    in_hand: int
    """Handed over, not committed yet."""
    oldest_s: float | None
    """Age of the oldest message; None where nothing waits."""
    committed: int
    refused: int
    dead: int
    """Refused messages that are kept for `edge-infer outbox retry`."""
    given_up: Mapping[str, int]
    """By decision; each result of them is told on `{station}/gap`."""
    events_lost: int
    in_memory: bool
    """The disk cannot be written: what is here does not survive the process."""

    def message(self) -> OutboxNumbers:
        """As it is published."""
        return OutboxNumbers(
            depth=self.depth,
            bytes=self.bytes,
            oldest_s=self.oldest_s,
            committed=self.committed,
            refused=self.refused,
            dead=self.dead,
            given_up=dict(self.given_up),
            events_lost=self.events_lost,
            in_memory=self.in_memory,
        )


class Outbox:
    """Thread-safe. Made by `open`; `close` commits what is in hand."""

    def __init__(self, folder: Folder, settings: OutboxSettings, *, limit: int = LIMIT) -> None:
        self._alarms: deque[tuple[str, Mapping[str, Any]]] = deque(maxlen=ALARMS)
        self._listener: Callable[[str, Mapping[str, Any]], None] | None = None
        self._listening = threading.Lock()
        """Not held while an alarm is told."""
        self._ledger = Ledger()
        self._handover = Handover(limit)
        self._ready = Ready(self._handover.nudge)
        self._storage = Storage(folder, self._ready, self._ledger, self._alarm)
        self._writer = Writer(
            settings,
            storage=self._storage,
            handover=self._handover,
            ready=self._ready,
            ledger=self._ledger,
            alarm=self._alarm,
        )
        self._thread = threading.Thread(target=self._writer.run, name="outbox-writer", daemon=True)
        self._thread.start()

    @classmethod
    def open(cls, folder: Path, settings: OutboxSettings) -> Outbox:
        """Create the folder or continue what is in it.

        A full or read-only disk is no error: results are kept in memory until it can be written. A damaged
        database is set aside. OutboxError where another process uses the folder or it may not be written.
        """
        return cls(Folder(folder, fsync=settings.commit == "fsync"), settings)

    def configure(self, settings: OutboxSettings) -> None:
        """Other limits from the next commit on; how it commits stays."""
        self._writer.configure(settings)

    # -- the stations' side

    def put(self, topic: str, result: Result, committed: Callable[[Result], None] | None = None) -> None:
        """Hand a result over at once; its number is given in the transaction that commits it.

        ``committed`` gets the numbered result, on the writer's thread after the commit; it must not wait.
        """
        item = NewResult(topic, result.station, result.decision, result, committed)
        if not self._handover.put(item):
            log.error("a result of %s came after the outbox was closed and is lost", result.station)

    def put_event(self, topic: str, payload: bytes) -> None:
        """Hand over a message that has no number."""
        if not self._handover.put(NewEvent(topic, payload)):
            log.error("an event on %s came after the outbox was closed and is lost", topic)

    def accept_trigger(
        self, station: str, job_id: str, part_id: str | None, received_at: datetime
    ) -> threading.Event:
        """Hand over a trigger at once; the event is set when it is on disk. The result with its job id
        answers it. While results are kept in memory, so is it. OutboxError where it cannot be taken.
        """
        done = threading.Event()
        if not self._handover.put(NewTrigger(OpenTrigger(station, job_id, part_id, received_at), done)):
            raise OutboxError(
                f"the trigger of {station} is not stored: too many wait, or the service stops",
                hint="the disk hangs or the service stops; see the log",
            )
        return done

    def open_triggers(self, station: str) -> list[OpenTrigger]:
        """Triggers that were stored and have no result, oldest first."""
        return self._ledger.open_triggers(station)

    @property
    def stations(self) -> set[str]:
        """All that ever had a result here."""
        return self._ledger.stations

    def counts(self, station: str) -> Counts:
        """Decisions of a station since they were reset, committed ones only."""
        return self._ledger.counts_of(station)

    def reset_counts(
        self, station: str, renewed: Callable[[], None] | None = None, timeout_s: float = 5.0
    ) -> None:
        """Start from zero; durable when it returns. OutboxError where the disk does not answer in time.

        ``renewed`` on the writer's thread after the commit, as results' ``committed``: who tells the counts
        in both never tells older ones last. It must not wait.
        """
        done = threading.Event()
        self._handover.put(ResetCounts(station, renewed, done))
        self._wait(done, timeout_s, f"the reset of {station}'s counts")

    def follow_shifts(
        self,
        shifts: Shifts,
        stations: Collection[str],
        *,
        ended: Callable[[str, Tally, datetime], tuple[str, bytes]],
        renewed: Callable[[str], None],
    ) -> None:
        """From now on shifts end, those too that ended while the service was off.

        ``ended(station, its counts, when)`` makes the topic and the payload of the event that tells it,
        stored with the new shift's zeros in one transaction. ``renewed(station)`` when `counts` changed
        without a result, and once for each of ``stations``; on the writer's thread, it must not wait.
        """
        follower = Follower(shifts, frozenset(stations), ended, renewed)
        self._handover.put(FollowShifts(follower, threading.Event()))

    def _wait(self, done: threading.Event, timeout_s: float, what: str) -> None:
        if not done.wait(timeout_s):
            raise OutboxError(
                f"{what} is not stored after {timeout_s:g} s",
                hint="the disk hangs or the service stops; see the log",
            )

    # -- the pump's side

    def listen(self, wake: Callable[[], None], alarm: Callable[[str, Mapping[str, Any]], None]) -> None:
        """``wake`` when there may be something to take; ``alarm(kind, data)`` for an event.

        Alarms from before the call are told at once.
        """
        while True:
            with self._listening:
                if not self._alarms:
                    self._listener = alarm
                    break
                waiting = self._alarms.popleft()
            alarm(*waiting)
        self._ready.wake = wake

    def connected(self) -> None:
        """A connection was made: what waits now is delayed."""
        self._ready.connected()

    def disconnected(self, *, broken: bool) -> None:
        """What was taken and is not done with waits again.

        ``broken``: nobody knows why, so the broker may have died: what it acknowledged a moment ago is
        sent again.
        """
        self._ready.disconnected(broken=broken)

    def take(self) -> Row | None:
        """The oldest message; it is kept until `delivered` or `refused`. None where nothing is ready."""
        return self._ready.take()

    def delivered(self, row: Row) -> None:
        """The broker took it: delete it."""
        self._ready.finish(Outcome(row))

    def refused(self, row: Row, code: int, refusal: str) -> None:
        """The broker will not take it: keep it aside. ``code`` is 0x80 or above."""
        self._ready.finish(Outcome(row, code, refusal))

    # -- the service's side

    @property
    def failure(self) -> BaseException | None:
        """Why nothing is committed any more (a bug, no memory); the service must be started again."""
        return self._writer.failure

    @property
    def loop(self) -> Loop:
        """The writer's check-point."""
        return self._writer.loop

    @property
    def idle(self) -> bool:
        """Nothing in hand, nothing waits."""
        # in this order: what leaves the hand is counted before it does
        return not len(self._handover) and not self.depth()

    @property
    def stats(self) -> OutboxStats:
        """Right now."""
        writer = self._writer
        in_hand = len(self._handover)
        oldest_s = writer.oldest_s
        return OutboxStats(
            depth=self.depth(),
            bytes=writer.bytes,
            in_hand=in_hand,
            oldest_s=max(0.0, clock.now().timestamp() - oldest_s) if oldest_s is not None else None,
            committed=writer.committed,
            refused=self._storage.refused,
            dead=writer.dead,
            given_up=dict(writer.given_up),
            events_lost=self._handover.events_lost,
            in_memory=self._storage.ram is not None,
        )

    def depth(self) -> int:
        """Messages that wait or are on the wire."""
        return max(0, self._writer.depth - self._ready.done_rows())

    def flush(self, timeout_s: float) -> bool:
        """Wait until what is in hand is committed; False where the disk does not take it in time."""
        done = threading.Event()
        return self._handover.put(Flush(done)) and done.wait(timeout_s)

    def close(self, timeout_s: float) -> None:
        """Commit what is in hand and stop; returns after ``timeout_s`` whatever the disk does."""
        self._handover.close()
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            log.error("the disk did not take the last %d results in %g s", len(self._handover), timeout_s)

    def _alarm(self, kind: str, data: Mapping[str, Any]) -> None:
        with self._listening:
            listener = self._listener
            if listener is None:
                self._alarms.append((kind, data))
        if listener is not None:
            listener(kind, data)
