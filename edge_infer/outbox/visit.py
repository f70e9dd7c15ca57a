"""The outbox as another process sees it: looks and changes nothing, whatever the service does meanwhile."""

from __future__ import annotations

import fcntl
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from edge_infer.errors import OutboxError
from edge_infer.outbox.folder import LOCK, NAME, damaged
from edge_infer.outbox.records import as_row
from edge_infer.outbox.row import GapKey, Range, Row
from edge_infer.outbox.tables import VERSION

CHUNK = 200
"""Messages read at once."""
_WAIT_S = 5.0


@dataclass(frozen=True, slots=True)
class Refusal:
    """What the broker said of a message."""

    code: int
    """MQTT 5 reason code."""
    reason: str
    at_s: float
    """Unix time."""


@dataclass(frozen=True, slots=True)
class StationView:
    """One station's part of the queue."""

    station: str
    """Empty for what belongs to none (events)."""
    stream_id: str
    seq: int
    """The last number given; 0 where none was."""
    waiting: dict[str, int]
    """By decision; events by "event"."""
    refused: int


@dataclass(frozen=True, slots=True)
class Overview:
    """The queue in numbers, at one instant."""

    waiting: int
    bytes: int
    oldest_s: float | None
    """When the oldest message that waits was made, Unix time."""
    refused: int
    stations: list[StationView]
    gaps: dict[GapKey, list[Range]]
    """Given up and not told yet."""


class Visit:
    """Made by `visiting`. OutboxError where the database is damaged."""

    def __init__(self, db: sqlite3.Connection, database: Path) -> None:
        self._db = db
        self._database = database

    def overview(self) -> Overview:
        """All in one snapshot."""
        with self._explained():
            self._db.execute("BEGIN")
            try:
                return self._overview()
            finally:
                self._db.execute("ROLLBACK")

    def _overview(self) -> Overview:
        waiting: dict[str, dict[str, int]] = {}
        for station, decision, count in self._db.execute(
            "SELECT station, decision, count(*) FROM outbox GROUP BY station, decision"
        ):
            waiting.setdefault(station, {})[decision or "event"] = count
        refused = dict(self._db.execute("SELECT station, count(*) FROM dead GROUP BY station").fetchall())
        streams = {station: (id_, seq) for station, id_, seq in self._db.execute("SELECT * FROM stream")}
        gaps: dict[GapKey, list[Range]] = {}
        for *key, first, last in self._db.execute("SELECT * FROM gap"):
            gaps.setdefault(GapKey(*key), []).append(Range(first, last))
        rows, size, oldest_s = self._db.execute(
            "SELECT count(*), coalesce(sum(size), 0), min(created_s) FROM outbox"
        ).fetchone()
        return Overview(
            waiting=rows,
            bytes=size,
            oldest_s=oldest_s,
            refused=sum(refused.values()),
            stations=[
                StationView(name, *streams.get(name, ("", 0)), waiting.get(name, {}), refused.get(name, 0))
                for name in sorted({*waiting, *refused, *streams})
            ],
            gaps=gaps,
        )

    def messages(self, *, waiting: bool, refused: bool, station: str | None) -> Iterator[Message]:
        """In the order in which they would be sent, those that wait first; what is gone when its turn comes
        is not among them.
        """
        # some at a time: a reader that stands still (| less) must not keep the log from being written back
        if waiting:
            for record in self._some_at_a_time(
                "SELECT * FROM outbox WHERE id > ?1 AND (?2 IS NULL OR station = ?2) ORDER BY id LIMIT ?3",
                station,
            ):
                yield Message(as_row(record, "disk"))
        if refused:
            for record in self._some_at_a_time(
                "SELECT * FROM dead WHERE id > ?1 AND (?2 IS NULL OR station = ?2) ORDER BY id LIMIT ?3",
                station,
            ):
                yield Message(as_row(record, "disk"), Refusal(*record[9:12]))

    def _some_at_a_time(self, query: str, station: str | None) -> Iterator[Sequence[Any]]:
        after, limit = 0, CHUNK
        while True:
            try:
                records = self._db.execute(query, (after, station, limit)).fetchall()
            except sqlite3.Error as error:
                if limit == 1:
                    raise cannot_use(self._database, error) from error
                # what lies before the damage can be read
                limit = 1
                continue
            yield from records
            if len(records) < limit:
                return
            after = records[-1][0]

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise cannot_use(self._database, error) from error


@dataclass(frozen=True, slots=True)
class Message:
    """A row, and the broker's word where it was refused."""

    row: Row
    refusal: Refusal | None = None


def database_in(folder: Path) -> Path:
    """OutboxError where the service was never there, or this user may not look."""
    database = folder / NAME
    try:
        database.stat()
    except PermissionError as error:
        raise _not_allowed(database) from error
    except OSError as error:
        raise OutboxError(
            f"there is no outbox in {folder}",
            hint="the service has not run with this configuration here, or has another state_dir; "
            "under systemd that is STATE_DIRECTORY=/var/lib/edge-infer",
        ) from error
    return database


def in_use(folder: Path) -> bool | None:
    """A service runs on it; None where this user cannot tell."""
    try:
        lock = os.open(folder / LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except OSError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


@contextmanager
def visiting(database: Path) -> Iterator[Visit]:
    """Look into a database that is there, on a read-only disk too. OutboxError where that is not possible."""
    if not database.exists():
        raise OutboxError(f"there is no {database}", hint="ls names those that were set aside")
    if not os.access(database, os.R_OK):
        raise _not_allowed(database)
    with tempfile.TemporaryDirectory(prefix="edge-infer-") as copies:
        try:
            db = _opened(database, Path(copies))
        except sqlite3.Error as error:
            raise cannot_use(database, error) from error
        try:
            yield Visit(db, database)
        finally:
            db.close()


def cannot_use(database: Path, error: sqlite3.Error) -> OutboxError:
    """Why, in words."""
    if damaged(error) and database.name != NAME:
        return OutboxError(
            f"{database} is damaged: {error}",
            hint="there is no more to read for a program that knows the tables; the messages are text in the "
            f"file, with those that were delivered: strings -n 100 {database.name}",
        )
    if damaged(error):
        return OutboxError(
            f"the outbox {database} is damaged: {error}",
            hint="the service sets it aside when it starts and goes on with new streams; "
            "copy it now if somebody shall look at it",
        )
    return OutboxError(
        f"the outbox {database} cannot be used: {error}",
        hint="look at the disk (df -h, mount) and at the service's log",
    )


def _opened(database: Path, copies: Path) -> sqlite3.Connection:
    try:
        db = _connect(database, "mode=ro")
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY):
            raise
        # a read-only disk and nobody there who has the index of the log: with a log only a copy can be read
        log = database.with_name(f"{database.name}-wal")
        if not log.exists() or not log.stat().st_size:
            db = _connect(database, "immutable=1")
        else:
            for part in (database, log):
                shutil.copyfile(part, copies / part.name)
            db = _connect(copies / database.name, "mode=rw")
    version = db.execute("PRAGMA user_version").fetchone()[0]
    if not 1 <= version <= VERSION:
        db.close()
        if version == 0:
            raise OutboxError(f"{database} is no outbox", hint="is it the right file?")
        raise OutboxError(
            f"{database} has format {version}, this program knows {VERSION}",
            hint="use the edge-infer that the service runs",
        )
    return db


def _connect(database: Path, how: str) -> sqlite3.Connection:
    db = sqlite3.connect(
        f"file:{quote(str(database))}?{how}", uri=True, timeout=_WAIT_S, isolation_level=None
    )
    try:
        db.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.Error:
        db.close()
        raise
    return db


def _not_allowed(database: Path) -> OutboxError:
    return OutboxError(
        f"the outbox {database} may not be read by this user",
        hint="run the command as the service's user (sudo -u edge-infer) or as root",
    )
