"""Has a wish carried out: by the running service, which alone changes its rows, else by this process."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from edge_infer import clock
from edge_infer.errors import OutboxError
from edge_infer.outbox.folder import DiskUnusableError, Folder, InUseError
from edge_infer.outbox.store import NewerStoreError, Store
from edge_infer.outbox.tables import VERSION
from edge_infer.outbox.visit import cannot_use
from edge_infer.outbox.wish import Verb, Wish
from edge_infer.outbox.work import Work

_POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class Answer:
    """What was done."""

    done: int
    """Messages."""
    on_wire: int
    """Messages that the broker may have already: they stay."""
    by_service: bool


def carry_out(
    database: Path, verb: Verb, *, station: str | None, refused: bool, waiting: bool, timeout_s: float
) -> Answer:
    """Returns when it is durable. OutboxError where it cannot be done, or the service does nothing about it
    for ``timeout_s``; then it is not done later either.
    """
    folder = Folder(database.parent, fsync=True)
    try:
        folder.hold()
    except InUseError:
        return _ask(database, Wish(verb, 0, station, refused, waiting), timeout_s)
    except DiskUnusableError as error:
        raise OutboxError(
            f"the outbox cannot be changed: {error}", hint="make the disk writable first"
        ) from error
    try:
        return _do(database, Wish(verb, 0, station, refused, waiting))
    finally:
        folder.close()


def _do(database: Path, wish: Wish) -> Answer:
    try:
        store = Store.on_disk(database, fsync=True)
    except NewerStoreError as error:
        raise OutboxError(str(error), hint="use the newer edge-infer") from error
    except sqlite3.Error as error:
        raise cannot_use(database, error) from error
    try:
        work = Work(Wish(wish.verb, store.last_id(), wish.station, wish.refused, wish.waiting))
        while not work.finished:
            with store.transaction():
                work = work.step(store, lambda rows: rows)
    except sqlite3.Error as error:
        raise cannot_use(database, error) from error
    finally:
        store.close()
    return Answer(work.done, 0, by_service=False)


def _ask(database: Path, wish: Wish, timeout_s: float) -> Answer:
    try:
        with closing(sqlite3.connect(database, timeout=timeout_s, isolation_level=None)) as db:
            version = db.execute("PRAGMA user_version").fetchone()[0]
            if version != VERSION:
                raise OutboxError(
                    f"the running service has an outbox of format {version}, this program knows {VERSION}",
                    hint="restart the service",
                )
            id_ = db.execute(
                "INSERT INTO wish (verb, last, station, refused, waiting, until_s) VALUES"
                " (?, coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'outbox'), 0), ?, ?, ?, ?)",
                (wish.verb, wish.station, wish.refused, wish.waiting, clock.now().timestamp() + timeout_s),
            ).lastrowid
            try:
                return _await(db, int(id_ or 0), timeout_s)
            finally:
                # answered, or nobody waits for it any more
                with suppress(sqlite3.Error):
                    db.execute("DELETE FROM wish WHERE id = ?", (id_,))
    except sqlite3.Error as error:
        raise cannot_use(database, error) from error


def _await(db: sqlite3.Connection, id_: int, timeout_s: float) -> Answer:
    seen, until = -1, time.monotonic() + timeout_s
    while time.monotonic() < until:
        found = db.execute("SELECT done + on_wire, done, on_wire, answered FROM wish WHERE id = ?", (id_,))
        record = found.fetchone()
        if record is None:
            break
        progress, done, on_wire, answered = record
        if answered:
            return Answer(done, on_wire, by_service=True)
        if progress != seen:
            seen, until = progress, time.monotonic() + timeout_s
        # another process answers, in the database: nothing can be waited on
        time.sleep(_POLL_S)
    done_before = f"; {seen} message(s) were done before" if seen > 0 else ""
    raise OutboxError(
        f"the running service did not answer within {timeout_s:g} s{done_before}",
        hint="it hangs, stops, or its disk cannot be written; see its log and try again",
    )
