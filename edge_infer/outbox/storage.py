"""Where the rows are: on disk, or in memory while the disk cannot be written; and the way back."""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Callable, Mapping
from typing import Any

from edge_infer import clock
from edge_infer.errors import OutboxError
from edge_infer.outbox import gaps
from edge_infer.outbox.folder import NAME, DiskUnusableError, Folder, damaged
from edge_infer.outbox.ledger import Changes, Counts, Ledger
from edge_infer.outbox.ready import Outcome, Ready
from edge_infer.outbox.room import lacking
from edge_infer.outbox.row import Place, Row
from edge_infer.outbox.store import Store
from edge_infer.outbox.wish import Wish

log = logging.getLogger(__name__)

RETRY_S = 5.0
"""How often a bad disk is tried again."""
GAP_S = 1.0
"""How often ranges that were given up may be told."""

Refused = tuple[int, str]
"""The broker's code and reason."""
Alarm = Callable[[str, Mapping[str, Any]], None]


class Storage:
    """Belongs to the writer's thread."""

    def __init__(self, folder: Folder, ready: Ready, ledger: Ledger, alarm: Alarm) -> None:
        """Opens the folder; OutboxError where a person must mend it."""
        self.disk: Store | None = None
        """None until it could be opened."""
        self.ram: Store | None = None
        """Not None while new rows are kept in memory."""
        self.refused = 0
        """Rows that the broker refused, since the start."""
        self._folder = folder
        self._ready = ready
        self._ledger = ledger
        self._alarm = alarm
        self._cursor: dict[Place, int] = {"disk": 0, "ram": 0}
        """Rows up to this id were made ready."""
        self._unsettled: dict[Place, dict[int, Refused | None]] = {"disk": {}, "ram": {}}
        """Done with, not deleted yet: by id, None where it was delivered."""
        self._told: list[Row] = []
        """Gaps that were told and are not deleted yet."""
        self._next_retry = self._next_gap = 0.0
        self._known = False
        """The ledger has what the disk knew."""
        self._version: int | None = None
        """The disk's data version whose wishes are known."""
        try:
            self.disk, stored = self._open()
        except DiskUnusableError as error:
            self._enter_ram(str(error))
        else:
            ledger.apply(stored)
            self._known = True

    @property
    def current(self) -> Store:
        """Where new rows go."""
        store = self.ram or self.disk
        if store is None:
            raise RuntimeError("there is neither disk nor memory to write to")
        return store

    @property
    def wished(self) -> bool:
        """Another process may have asked for something since the last transaction that looked."""
        if self.disk is None or self.ram is not None:
            return False
        try:
            return self._version != self.disk.data_version()
        except sqlite3.Error:
            # the transaction that follows meets the same bad disk and says so
            return True

    def wishes(self, disk: Store) -> list[tuple[int, Wish]]:
        """Inside a transaction: what other processes ask for."""
        found = disk.wishes(clock.now().timestamp())
        if len(found) <= 1:
            self._version = disk.data_version()
        return found

    @property
    def stores(self) -> list[Store]:
        """Those that hold rows, oldest rows first."""
        return [store for store in (self.disk, self.ram) if store is not None]

    def close(self) -> None:
        """Rows in memory are lost now: `retry` first."""
        for store in self.stores:
            store.close()
        self._folder.close()

    def depth(self) -> tuple[int, int]:
        """Rows that wait or are on the wire, and their bytes."""
        rows = sum(store.rows for store in self.stores) - sum(map(len, self._unsettled.values()))
        return max(0, rows), sum(store.bytes for store in self.stores)

    # -- deliveries

    def collect(self) -> None:
        """Note what the broker answered since the last call; `settle` deletes it."""
        for outcome in self._ready.outcomes():
            self._note(outcome)

    def settle(self, store: Store) -> None:
        """Inside a transaction of that store: delete what was delivered, bury what was refused."""
        now_s = clock.now().timestamp()
        for id_, refused in self._unsettled[store.place].items():
            if refused is not None:
                store.bury(id_, *refused, now_s)
            else:
                store.delete([id_])
        for row in self._told:
            if row.place == store.place:
                store.forget_gaps(row)

    def settled(self, store: Store) -> None:
        """That transaction is committed."""
        self._unsettled[store.place].clear()
        self._told = [row for row in self._told if row.place != store.place]
        self._ready.committed(store.place, store.last_id())

    def _note(self, outcome: Outcome) -> None:
        row = outcome.row
        if row.kind == "gap":
            self._told.append(row)
            return
        if outcome.refused:
            self.refused += 1
            if row.kind == "result":
                why = {
                    "topic": row.topic,
                    "streamId": row.stream_id,
                    "seq": row.seq,
                    "code": outcome.code,
                    "reason": outcome.refusal,
                }
                self._alarm("result_refused", why)
        self._unsettled[row.place][row.id] = (outcome.code, outcome.refusal) if outcome.refused else None

    # -- the pump's supply

    def fill(self) -> None:
        """Make the next rows ready, those on disk first."""
        for store in self.stores:
            try:
                if not self._fill_from(store):
                    return
            except sqlite3.Error as error:
                # in memory mode the disk is known to be bad; its rows wait for the way back
                if self.ram is None:
                    self.failed(error)
                    return
        self._offer_gaps()

    def _fill_from(self, store: Store) -> bool:
        """False where more rows wait than fit."""
        while True:
            rows, size = self._ready.room()
            if not rows or not size:
                self._ready.add((), more=True)
                return False
            # one more than fits tells whether any wait behind
            found = store.read(self._cursor[store.place], rows, size)
            if not found:
                self._ready.add((), more=False)
                return True
            self._cursor[store.place] = found[-1].id
            known = self._ready.known(store.place, found[0].id)
            done = self._unsettled[store.place]
            new = [row for row in found if row.id not in known and row.id not in done]
            self._ready.add(new, more=len(found) == rows)

    def _offer_gaps(self) -> None:
        now = time.monotonic()
        if not self._ready.online or now < self._next_gap or self._ready.offers_gap():
            return
        self._next_gap = now + GAP_S
        for store in self.stores:
            if not any(row.place == store.place for row in self._told):
                self._ready.add(gaps.messages(store, clock.now()), more=False)

    # -- a bad disk

    def look_after(self) -> None:
        """Put the database back where somebody deleted, renamed or replaced it."""
        if self.ram is not None or self.disk is None or not _astray(self.disk):
            return
        try:
            self.disk = self._put_back(self.disk)
        except (DiskUnusableError, OutboxError, sqlite3.Error) as error:
            self._enter_ram(f"the database was deleted or renamed and cannot be written again: {error}")

    def _put_back(self, astray: Store) -> Store:
        """All of it in a new file; what `_open` raises, and sqlite3.Error where it cannot be read."""
        log.error("somebody deleted, renamed or replaced %s: it is written again", self._folder.path / NAME)
        self._folder.rescue(astray)
        astray.close()
        self.disk = None
        disk, _ = self._open()
        self._version = None
        return disk

    def failed(self, error: sqlite3.Error) -> None:
        """The disk did not take a transaction: go on in memory, with new streams."""
        if self.ram is not None or self.disk is None:
            # memory cannot fail that way: a bug
            raise error
        self._enter_ram(str(error))
        if damaged(error):
            self._lose_disk(self.current, error)
            self.retry(sparing=False)

    def retry_due(self) -> bool:
        """The bad disk shall be tried again."""
        return self.ram is not None and time.monotonic() >= self._next_retry

    def retry(self, *, sparing: bool = True) -> None:
        """Move what is in memory to the disk, if it can be written again; ``sparing``: and has room for a
        while, else it would be full again a moment later.
        """
        if self.ram is None:
            return
        self._next_retry = time.monotonic() + RETRY_S
        try:
            if self.disk is not None and _astray(self.disk):
                self.disk = self._put_back(self.disk)
            if self.disk is None:
                self.disk, stored = self._open()
                if not self._known:
                    self._join(stored)
                self._known = True
                self._cursor["disk"] = 0
            disk = self.disk
            # what was delivered makes room on a full disk
            with disk.transaction():
                self.settle(disk)
            self.settled(disk)
            if sparing:
                self._check_room(self.ram, disk)
            self._move(self.ram, disk)
        except (DiskUnusableError, OutboxError) as error:
            log.debug("the outbox stays in memory: %s", error)
            return
        except sqlite3.Error as error:
            log.debug("the outbox stays in memory: %s", error)
            if damaged(error):
                self._lose_disk(self.ram, error)
            return
        self._version = None
        log.warning("the outbox is on disk again")
        self._alarm("outbox_on_disk", {"rows": disk.rows})

    def _check_room(self, ram: Store, disk: Store) -> None:
        try:
            lack = lacking(self._folder.path / NAME, ram.sizes()[0], disk.sizes()[1])
        except OSError as error:
            raise DiskUnusableError(str(error)) from error
        if lack > 0:
            raise DiskUnusableError(f"the disk needs {lack:,} bytes more")

    def _enter_ram(self, why: str) -> None:
        log.error("the outbox cannot be written (%s): results are kept in memory, streams are new", why)
        self.ram = Store.in_memory()
        self._cursor["ram"] = 0
        self._next_retry = time.monotonic() + RETRY_S
        # a crash would lose the count: it must not be continued from what the disk knows
        self._ledger.streams.clear()
        self._ready.committed("ram", 0, late=True)
        self._alarm("outbox_in_memory", {"why": why})

    def _lose_disk(self, ram: Store, error: sqlite3.Error) -> None:
        """The database is damaged: keep the rows of it that are in memory, set it aside."""
        rows, outcomes = self._ready.snapshot()
        for outcome in outcomes:
            if outcome.row.place == "ram":
                self._note(outcome)
        self._unsettled["disk"].clear()
        self._told = [row for row in self._told if row.place == "ram"]
        with ram.transaction():
            for row in rows:
                if row.place == "disk" and row.kind != "gap":
                    row.place, row.id = "ram", ram.insert(row)
        if self.disk is not None:
            self.disk.close()
            self.disk = None
        try:
            self._folder.put_aside(str(error))
        except DiskUnusableError as trouble:
            log.error("%s", trouble)
        else:
            self._say_set_aside()

    def _move(self, ram: Store, disk: Store) -> None:
        rows, outcomes = self._ready.snapshot()
        for outcome in outcomes:
            self._note(outcome)
        done = self._unsettled["ram"]
        moved: dict[int, int] = {}
        now_s = clock.now().timestamp()
        with disk.transaction():
            for row in ram.read(0, ram.rows, ram.bytes):
                refused = done.get(row.id)
                if row.id in done and refused is None:
                    continue
                moved[row.id] = disk.insert(row)
                if refused is not None:
                    disk.bury(moved[row.id], *refused, now_s)
            for key, ranges in ram.gaps(-1).items():
                for one in ranges:
                    disk.add_gap(key, one.first, one.last)
            disk.copy_dead(ram)
            disk.save_all(self._ledger)
        for row in rows:
            if row.place == "ram" and row.id in moved:
                row.place, row.id = "disk", moved[row.id]
        self._unsettled["ram"].clear()
        self._told = [row for row in self._told if row.place == "disk"]
        self._ready.committed("disk", disk.last_id(), late=True)
        self.ram = None
        ram.close()

    def _join(self, stored: Changes) -> None:
        """The disk could not be read at the start: add what it knew to what came since."""
        ours = Changes(counts=dict(self._ledger.counts))
        for station, counts in ours.counts.items():
            before = stored.counts.get(station, Counts())
            if before.shift.since not in (None, counts.shift.since):
                self._ledger.untold.append((station, before.shift))
            stored.counts[station] = before.joined(counts)
        # a number given in memory may be lost with it: no stream of the disk goes on there
        stored.streams.clear()
        self._ledger.apply(stored)

    def _open(self) -> tuple[Store, Changes]:
        """The disk's store and what it knows; a damaged one is set aside."""
        disk = self._folder.open()
        if self._folder.set_aside is not None:
            self._say_set_aside()
        try:
            stored = disk.load()
        except sqlite3.Error as error:
            disk.close()
            if not damaged(error):
                raise DiskUnusableError(str(error)) from error
            self._folder.put_aside(str(error))
            self._say_set_aside()
            disk = self._folder.open()
            stored = Changes()
        if self._folder.restored:
            aside = self._folder.replaced and str(self._folder.replaced)
            log.warning("the outbox's database is in its place again: %d messages wait", disk.rows)
            self._alarm("outbox_restored", {"rows": disk.rows, "setAside": aside})
        if disk.renewed is not None:
            log.error("the streams of all stations are new: %s", disk.renewed)
            self._alarm("streams_renewed", {"why": disk.renewed})
        self._ready.committed("disk", disk.last_id(), late=True)
        return disk, stored

    def _say_set_aside(self) -> None:
        self._alarm("outbox_damaged", {"setAside": str(self._folder.set_aside)})


def _astray(disk: Store) -> bool:
    return disk.file is not None and disk.file.astray()
