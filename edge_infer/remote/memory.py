"""Requests that were carried out, so that a repetition is answered and not carried out again."""

from __future__ import annotations

import json
import logging
import sqlite3
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from edge_infer import clock
from edge_infer.outbox.folder import damaged
from edge_infer.remote.answer import Answer, RefusedError
from edge_infer.remote.freshness import LONGEST_S

log = logging.getLogger(__name__)

NAME = "commands.db"
KEPT_S = float(LONGEST_S)
"""As long as a request can hold, its repetition is known."""
LIMIT = 10_000
"""Requests that are remembered on disk; with so many within `KEPT_S` the next one is told `busy`."""
CLOSE_S = 0.1
PARTS_KEPT_S = 30.0
"""The repetition of a part: later it may be that part again."""
PARTS_LIMIT = 1000

Key = tuple[str, bytes]
T = TypeVar("T")

_TABLE = """
CREATE TABLE IF NOT EXISTS command (
    requester TEXT NOT NULL, correlation BLOB NOT NULL, fingerprint TEXT NOT NULL, boot_id TEXT NOT NULL,
    boot_s REAL NOT NULL, wall_s REAL NOT NULL, answer TEXT, PRIMARY KEY (requester, correlation))
"""


@dataclass(frozen=True, slots=True)
class Remembered:
    """A request that came before."""

    answer: Answer | None
    """None where it is not known how it ended."""


class Memory(Protocol):
    """Used by any thread."""

    def finish(self, key: Key, answer: Answer) -> None:
        """How it ended."""


class PartMemory:
    """For parts, in RAM: a part is stored by the outbox and has an answer of its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[Key, tuple[float, str, Answer | None]] = OrderedDict()

    def begin(self, key: Key, fingerprint: str) -> bool:
        """True where it is new or was told to ask later, and remembered from now on.

        Another part with the same correlation is new: it must be inspected.
        """
        now_s = time.monotonic()
        with self._lock:
            at_s, before, answer = self._known.get(key, (float("-inf"), "", None))
            later = answer is not None and answer.status == "busy"
            if before == fingerprint and now_s - at_s <= PARTS_KEPT_S and not later:
                return False
            self._known[key] = (now_s, fingerprint, None)
            self._known.move_to_end(key)
            if len(self._known) > PARTS_LIMIT:
                self._known.popitem(last=False)
        return True

    def answer(self, key: Key) -> Answer | None:
        """How it ended, None where that is not known (any more)."""
        with self._lock:
            return self._known[key][2] if key in self._known else None

    def finish(self, key: Key, answer: Answer) -> None:
        """How it ended."""
        with self._lock:
            if key in self._known:
                at_s, fingerprint, _ = self._known[key]
                self._known[key] = (at_s, fingerprint, answer)


class DiskMemory:
    """For what actuates: durable before it is carried out, so that no ``kill -9`` makes it happen twice.

    Ages are measured by the time since boot as long as the machine runs, so that a clock that is set does not
    make them forgotten.
    """

    def __init__(self, folder: Path, boot_id: str) -> None:
        self._path = folder / NAME
        self._boot_id = boot_id
        self._lock = threading.Lock()
        self._db: sqlite3.Connection | None = None

    def begin(self, key: Key, fingerprint: str) -> Remembered | None:
        """None: it is new, and durably remembered. RefusedError where it must not be carried out."""
        return self._try(lambda db: self._begin(db, key, fingerprint))

    def finish(self, key: Key, answer: Answer) -> None:
        """Where the disk does not take it any more, a repetition is told that the end is not known."""
        text = json.dumps(asdict(answer))
        try:
            self._try(
                lambda db: db.execute(
                    "UPDATE command SET answer = ? WHERE requester = ? AND correlation = ?", (text, *key)
                )
            )
        except RefusedError as error:
            log.error("the answer to a command is not remembered: %s", error)

    def close(self) -> None:
        """Safe to call twice. Where the disk hangs it stays open: the process ends anyway."""
        if self._lock.acquire(timeout=CLOSE_S):
            try:
                self._drop()
            finally:
                self._lock.release()

    def _begin(self, db: sqlite3.Connection, key: Key, fingerprint: str) -> Remembered | None:
        now = (self._boot_id, time.monotonic(), clock.now().timestamp())
        # the same machine start: by its own clock, else by the wall's
        old = "(CASE boot_id WHEN ? THEN ? - boot_s ELSE ? - wall_s END) > ?"
        db.execute(f"DELETE FROM command WHERE {old}", (*now, KEPT_S))  # noqa: S608 - no input in it
        found = db.execute(
            "SELECT fingerprint, answer FROM command WHERE requester = ? AND correlation = ?", key
        ).fetchone()
        if found is not None:
            if found[0] != fingerprint:
                text = "the correlation data belongs to another request of the last minutes; use new ones"
                raise RefusedError("correlation_reused", text)
            return Remembered(Answer(**json.loads(found[1])) if found[1] is not None else None)
        if db.execute("SELECT count(*) FROM command").fetchone()[0] >= LIMIT:
            raise RefusedError("too_many", f"{LIMIT} requests in the last minutes", status="busy")
        db.execute("INSERT INTO command VALUES (?, ?, ?, ?, ?, ?, NULL)", (*key, fingerprint, *now))
        return None

    def _try(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """In one transaction; RefusedError where the disk does not take it."""
        with self._lock:
            try:
                try:
                    return self._transaction(work)
                except sqlite3.DatabaseError as error:
                    if not damaged(error):
                        raise
                    self._put_aside(error)
                    return self._transaction(work)
            except (sqlite3.Error, OSError) as error:
                self._drop()
                text = f"it cannot be stored, so it is not carried out: {error}"
                raise RefusedError("not_stored", text, status="error") from error

    def _transaction(self, work: Callable[[sqlite3.Connection], T]) -> T:
        db = self._db = self._db or self._open()
        db.execute("BEGIN IMMEDIATE")
        try:
            done = work(db)
            db.execute("COMMIT")
        except BaseException:
            # on a broken disk even this may fail; the first error is the one to tell
            with suppress(sqlite3.Error):
                if db.in_transaction:
                    db.execute("ROLLBACK")
            raise
        return done

    def _open(self) -> sqlite3.Connection:
        db = sqlite3.connect(self._path, timeout=5, isolation_level=None, check_same_thread=False)
        try:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = FULL")
            db.execute("PRAGMA journal_size_limit = 1048576")
            db.execute(_TABLE)
        except BaseException:
            db.close()
            raise
        return db

    def _drop(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None

    def _put_aside(self, error: sqlite3.DatabaseError) -> None:
        self._drop()
        aside = self._path.with_name(f"{NAME}.corrupt")
        self._path.replace(aside)
        for suffix in ("-wal", "-shm"):
            self._path.with_name(NAME + suffix).unlink(missing_ok=True)
        log.error("the memory of commands is damaged (%s); set aside as %s", error, aside.name)
