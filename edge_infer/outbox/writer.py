"""The one thread that changes the outbox: numbers, commits, deletes, gives up."""

from __future__ import annotations

import logging
import sqlite3
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from edge_infer import clock
from edge_infer.messages.gap import GapReason
from edge_infer.outbox import gaps
from edge_infer.outbox.handover import (
    Awaited,
    Flush,
    FollowShifts,
    Handover,
    Item,
    NewEvent,
    NewResult,
    NewTrigger,
    ResetCounts,
)
from edge_infer.outbox.ledger import Changes, Ledger
from edge_infer.outbox.ready import Ready
from edge_infer.outbox.rollover import Rollover
from edge_infer.outbox.row import GapKey, Row
from edge_infer.outbox.settings import OutboxSettings
from edge_infer.outbox.storage import Alarm, Storage
from edge_infer.outbox.store import Store
from edge_infer.outbox.work import PATIENCE_S as WISH_S
from edge_infer.outbox.work import Work
from edge_infer.progress import Loop
from edge_infer.result import Result

log = logging.getLogger(__name__)

RAM_BYTES = 32_000_000
"""What is kept in memory while the disk cannot be written."""
OUTCOME_S = 0.1
"""How long a delivered row may wait for its deletion."""
TICK_S = 1.0
HANG_S = 30.0
"""A disk that takes nothing for so long is told."""
PATIENCE_S = 270.0
"""Disks come back from their errors within minutes; what is in hand would be lost by a restart."""
DAY_S = 86400.0
AGE_S = 60.0
"""How often the age of rows is looked at."""
DEAD_ROWS, DEAD_PART = 10_000, 10
"""Refused rows kept, and which part of `max_bytes` they may have beside it; older ones are given up."""
ROOM = 0.9
"""A full outbox has room again below this part of its bounds."""


@dataclass(slots=True)
class _Transaction:
    """What one transaction does besides rows; thrown away when it fails."""

    changes: Changes = field(default_factory=Changes)
    finals: list[tuple[Result, Callable[[Result], None] | None]] = field(default_factory=list)
    given_up: Counter[str] = field(default_factory=Counter)
    withdrawn: list[Row] = field(default_factory=list)
    """Rows that lay ready for the pump and are given up."""
    renewed: list[str] = field(default_factory=list)
    """Stations whose counts changed without a result."""
    work: Work | None = None
    """The wish as it stands then."""


class Writer:
    """`run` is the thread's life; the rest is called by it only."""

    def __init__(
        self,
        settings: OutboxSettings,
        *,
        storage: Storage,
        handover: Handover,
        ready: Ready,
        ledger: Ledger,
        alarm: Alarm,
    ) -> None:
        self.committed = 0
        """Results, since the start."""
        self.given_up: Counter[str] = Counter()
        """By decision, since the start."""
        self.depth = self.bytes = self.dead = 0
        self.oldest_s: float | None = None
        """When the oldest row was made, Unix time."""
        self.failure: BaseException | None = None
        """Why the thread ended before it was told to."""
        self.loop = Loop("outbox (the state disk)", limit_s=HANG_S, patience_s=PATIENCE_S)
        self._settings = settings
        self._storage = storage
        self._handover = handover
        self._ready = ready
        self._ledger = ledger
        self._alarm = alarm
        self._rollover = Rollover(ledger)
        self._rolling = False
        self._work: Work | None = None
        self._full = False
        self._next_age = 0.0
        self._ageing = clock.Ageing((settings.max_age_days or 0) * DAY_S)
        self._first_outcome: float | None = None
        storage.fill()
        self._measure()

    def configure(self, settings: OutboxSettings) -> None:
        """Any thread: other limits from the next commit on."""
        self._settings = settings

    def run(self) -> None:
        """Until the handover is closed and empty."""
        try:
            last = False
            while not last:
                self.loop.passed(TICK_S)
                batch, last = self._handover.take(self._patience_s())
                self.loop.passed()
                self._step(batch, last=last)
        except BaseException as error:
            # the service must see it and be started again; what was committed is safe
            self.failure = error
            log.critical("the outbox's writer failed: %s", error, exc_info=error)
        finally:
            self.loop.rest()
            self._ready.close()
            left = len(self._storage.ram.read(0, -1, RAM_BYTES)) if self._storage.ram else 0
            if left:
                log.error("%d messages were only in memory and are lost", left)
            self._storage.close()

    def _patience_s(self) -> float:
        if self._work is not None:
            return 0.0
        return OUTCOME_S if self._ready.has_outcomes() else TICK_S

    def _step(self, batch: list[Item], *, last: bool) -> None:
        if last:
            self._ready.close()
        self._storage.look_after()
        self._rolling = self._rollover.due()
        due = self._rolling or self._outcomes_due() or time.monotonic() >= self._next_age
        if batch or last or due or self._storage.wished or self._work is not None:
            self._write(batch)
        if self._storage.retry_due() or (last and self._storage.ram is not None):
            # at the end any room is good enough
            self._storage.retry(sparing=not last)
        if not last:
            self._storage.fill()
        self._measure()

    def _outcomes_due(self) -> bool:
        if not self._ready.has_outcomes():
            self._first_outcome = None
            return False
        now = time.monotonic()
        if self._first_outcome is None:
            self._first_outcome = now
        return now - self._first_outcome >= OUTCOME_S

    def _write(self, batch: list[Item]) -> None:
        self._first_outcome = None
        self._storage.collect()
        done = None
        while done is None:
            store = self._storage.current
            try:
                done = self._transact(store, batch)
            except sqlite3.Error as error:
                self._storage.failed(error)
        self._work = done.work if done.work is not None and not done.work.finished else None
        self._ledger.apply(done.changes)
        self._storage.settled(store)
        self.committed += len(done.finals)
        self._note_given_up(store, done.given_up)
        self._measure()
        self._handover.finished()
        for item in batch:
            if isinstance(item, ResetCounts) and item.renewed is not None:
                _call(item.renewed, f"the reset of {item.station}'s counts")
            if isinstance(item, Awaited):
                item.done.set()
        for final, committed in done.finals:
            if committed is not None:
                _call(partial(committed, final), f"result {final.seq} of {final.station}")
        if self._rolling:
            self._rolling = False
            try:
                self._rollover.rolled(done.renewed)
            except Exception:
                # the listener's trouble must not stop the results of all stations
                log.exception("the new shift's counts cannot be told")

    def _transact(self, store: Store, batch: list[Item]) -> _Transaction:
        transaction = _Transaction()
        try:
            with store.transaction():
                self._storage.settle(store)
                self._carry_out(store, transaction)
                if self._rolling:
                    transaction.renewed += self._rollover.roll(store, transaction.changes)
                for item in batch:
                    self._take_in(item, store, transaction)
                self._make_room(store, transaction)
                store.save(transaction.changes)
        except BaseException:
            self._ready.put_back(transaction.withdrawn)
            raise
        return transaction

    def _carry_out(self, store: Store, transaction: _Transaction) -> None:
        """Another process's oldest wish, a part of it a transaction."""
        if store.place != "disk":
            return
        now_s = clock.now().timestamp()
        work = self._work
        if work is None:
            wishes = self._storage.wishes(store) if self._storage.wished else []
            if not wishes:
                return
            (id_, wish), *_ = wishes
            log.warning("the command line asks for %s", wish)
            work = Work(wish, id_)
        transaction.work = work = work.step(store, lambda rows: self._take_back(store, rows, transaction))
        store.note_wish(
            work.id,
            done=work.done,
            on_wire=work.on_wire,
            answered=work.finished,
            until_s=now_s + WISH_S,
        )

    def _take_back(self, store: Store, rows: list[Row], transaction: _Transaction) -> list[Row]:
        """Those that the pump does not hold."""
        transaction.withdrawn += self._ready.withdraw(store.place, {row.id for row in rows})
        # the pump may have taken some since they were chosen
        sent = self._ready.sent(store.place)
        return [row for row in rows if row.id not in sent]

    def _take_in(self, item: Item, store: Store, transaction: _Transaction) -> None:
        now = clock.now()
        changes = transaction.changes
        if isinstance(item, NewEvent):
            store.insert(Row("event", item.topic, item.payload, now.timestamp()))
        elif isinstance(item, NewTrigger):
            changes.opened.append(item.trigger)
        elif isinstance(item, ResetCounts):
            changes.counts[item.station] = self._ledger.newest(item.station, changes).reset(now)
        elif isinstance(item, FollowShifts):
            self._rollover.follow(item.follower)
            self._rolling = True
            transaction.renewed += self._rollover.roll(store, changes)
        elif isinstance(item, Flush):
            return
        elif item.result is None:
            self._number_lost(item, store, transaction)
        else:
            stream = self._ledger.number(item.station, changes)
            final = item.result.model_copy(update={"seq": stream.seq, "stream_id": stream.stream_id})
            self._ledger.count(item.station, item.decision, now, changes)
            if final.job_id != final.result_id:
                changes.closed.append((item.station, final.job_id))
            try:
                payload = final.as_json().encode()
            except ValueError:
                # text that is no Unicode; the number is given, so it must be told
                log.exception("result %d of %s cannot be published", stream.seq, item.station)
                key = GapKey(gaps.gap_topic(item.topic), item.station, stream.stream_id, "unpublishable")
                store.add_gap(key, stream.seq, stream.seq)
                return
            store.insert(
                Row(
                    "result",
                    item.topic,
                    payload,
                    now.timestamp(),
                    item.station,
                    stream.stream_id,
                    stream.seq,
                    item.decision,
                )
            )
            transaction.finals.append((final, item.committed))

    def _number_lost(self, item: NewResult, store: Store, transaction: _Transaction) -> None:
        """Results that were given up in the handover have numbers too: a hole that can be seen."""
        first = last = 0
        for decision in item.lost.elements():
            last = self._ledger.number(item.station, transaction.changes).seq
            first = first or last
            self._ledger.count(item.station, decision, clock.now(), transaction.changes)
        stream_id = transaction.changes.streams[item.station].stream_id
        store.add_gap(GapKey(gaps.gap_topic(item.topic), item.station, stream_id, "overload"), first, last)
        transaction.given_up.update(item.lost)
        transaction.changes.closed.extend((item.station, job) for job in item.lost_jobs)

    def _make_room(self, store: Store, transaction: _Transaction) -> None:
        max_bytes = self._settings.max_bytes
        if store.place == "ram":
            max_bytes = min(max_bytes, RAM_BYTES)
        if store.rows > self._settings.max_rows or store.bytes > max_bytes:
            # what was delivered and is about to be deleted must not push others out
            done_rows, done_bytes = self._ready.done_with(store.place)
            sent = self._ready.sent(store.place)
            victims = store.victims(self._settings.max_rows + done_rows, max_bytes + done_bytes, sent)
            self._give_up(store, victims, "full", transaction)
        if time.monotonic() < self._next_age:
            return
        self._next_age = time.monotonic() + AGE_S
        if self._settings.max_age_days is not None:
            before_s = self._ageing.now_s() - self._settings.max_age_days * DAY_S
            old = store.expired(before_s, self._ready.sent(store.place), 1000)
            self._give_up(store, old, "too_old", transaction)
        if store.refused:
            oldest = store.dead_beyond(DEAD_ROWS, max_bytes // DEAD_PART)
            gaps.tell(store, oldest, "refused")
            store.forget_dead(oldest)

    def _give_up(
        self, store: Store, victims: list[Row], reason: GapReason, transaction: _Transaction
    ) -> None:
        if not victims:
            return
        victims = self._take_back(store, victims, transaction)
        store.delete(row.id for row in victims)
        gaps.tell(store, victims, reason)
        transaction.given_up.update(row.decision or "event" for row in victims)

    def _note_given_up(self, store: Store, given_up: Counter[str]) -> None:
        self.given_up += given_up
        if given_up and not self._full:
            self._full = True
            log.error("the outbox gives up results, OK first: %s", dict(given_up))
            self._alarm("outbox_full", {"givenUp": dict(given_up)})
        elif (
            self._full
            and not given_up
            and store.rows < ROOM * self._settings.max_rows
            and store.bytes < ROOM * self._settings.max_bytes
        ):
            self._full = False
            log.warning("the outbox has room again; given up since the start: %s", dict(self.given_up))

    def _measure(self) -> None:
        self.depth, self.bytes = self._storage.depth()
        self.dead = sum(store.refused for store in self._storage.stores)
        try:
            oldest = [store.oldest_s() for store in self._storage.stores]
        except sqlite3.Error:
            # the next transaction meets the same bad disk and says so
            return
        self.oldest_s = min((one for one in oldest if one is not None), default=None)


def _call(callback: Callable[[], None], what: str) -> None:
    try:
        callback()
    except Exception:
        # the caller's trouble must not stop the results of other stations
        log.exception("%s is committed, but its callback failed", what)
