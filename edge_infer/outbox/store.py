"""The tables: on disk (WAL), or in memory with the same rules while the disk cannot be written."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Collection, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from edge_infer import clock
from edge_infer.outbox import wal
from edge_infer.outbox.ledger import Changes, Counts, Ledger, OpenTrigger, Stream, Tally
from edge_infer.outbox.openfile import OpenFile
from edge_infer.outbox.records import as_row, columns, instant
from edge_infer.outbox.row import GapKey, Place, Range, Row, rank
from edge_infer.outbox.tables import VERSION, prepare
from edge_infer.outbox.wish import Wish

log = logging.getLogger(__name__)

_ROWS = "SELECT id, kind, topic, x'', station, stream_id, seq, decision, created_s FROM outbox"
_REFUSED = "SELECT id, kind, topic, x'', station, stream_id, seq, decision, created_s FROM dead"
_SOME = " WHERE id > ?1 AND id <= ?2 AND (?3 IS NULL OR station = ?3) ORDER BY id LIMIT ?4"
# clocks that were not set yet say 1970; the age of such a row is not known
_PLAUSIBLE_S = datetime(2020, 1, 1, tzinfo=UTC).timestamp()


class NewerStoreError(Exception):
    """The database was written by a newer edge-infer."""


class Store:
    """Used by one thread at a time; every change is inside `transaction`. Raises sqlite3.Error."""

    def __init__(self, connection: sqlite3.Connection, place: Place) -> None:
        self.place = place
        self.rows = 0
        """Waiting, gaps not counted."""
        self.bytes = 0
        """Their size."""
        self.refused = 0
        """Rows that the broker refused."""
        self.renewed: str | None = None
        """Why the streams could not be continued."""
        self._opening: tuple[str, bool] | None = None
        """To be noted with the next transaction."""
        self._db = connection
        self.file: OpenFile | None = None
        """None in memory."""
        self._recount()

    @classmethod
    def on_disk(cls, path: Path, *, fsync: bool) -> Store:
        """Opened or created. NewerStoreError where this program cannot know its tables."""
        existed = path.exists()
        db = sqlite3.connect(path, timeout=30, isolation_level=None, check_same_thread=False)
        try:
            version = db.execute("PRAGMA user_version").fetchone()[0]
            if version > VERSION:
                raise NewerStoreError(f"{path} has format {version}, this program knows {VERSION}")
            db.execute("PRAGMA journal_mode = WAL")
            db.execute(f"PRAGMA synchronous = {'FULL' if fsync else 'NORMAL'}")
            db.execute("PRAGMA journal_size_limit = 16777216")
            log = path.with_name(path.name + "-wal")
            logged = log.exists() and log.stat().st_size > 0
            # SQLite has read the log by now: so many frames of it
            frames = wal.frames(db)
            prepare(db, version)
            store = cls(db, "disk")
            store.file = OpenFile(path)
            damaged = frames is not None and wal.damaged(log, frames)
            emptied = existed and version == 0
            store._take_over(fsync=fsync, logged=logged, log_damaged=damaged or emptied)
            return store
        except BaseException:
            db.close()
            raise

    @classmethod
    def in_memory(cls) -> Store:
        """Empty; gone with the process."""
        db = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        prepare(db, 0)
        return cls(db, "ram")

    def _take_over(self, *, fsync: bool, logged: bool, log_damaged: bool) -> None:
        """Numbers that were given and published may be forgotten: they must not be given again."""
        before = self._db.execute("SELECT boot, fsync FROM opened").fetchone()
        boot = clock.boot_id()
        if log_damaged:
            self.renewed = "the database's log is damaged: what was committed last is lost"
        elif before and not logged:
            self.renewed = "the database's log is missing: what was committed last may be lost"
        elif before and before[0] != boot and not before[1]:
            self.renewed = "the power went out, and with commit: normal what was committed last may be lost"
        self._opening = (boot, fsync)
        # a full disk can still be read, and what is delivered makes room on it
        with suppress(sqlite3.OperationalError), self.transaction():
            pass

    def sizes(self) -> tuple[int, int]:
        """Bytes of the database, and how many of them are unused."""
        size, pages, unused = (
            self._db.execute(f"PRAGMA {one}").fetchone()[0]
            for one in ("page_size", "page_count", "freelist_count")
        )
        return size * pages, size * unused

    def copy_to(self, path: Path) -> None:
        """Into a new file, as if it were closed in an orderly way; not flushed to the disk yet."""
        with closing(sqlite3.connect(path, isolation_level=None)) as copy:
            copy.execute("PRAGMA journal_mode = OFF")
            copy.execute("PRAGMA synchronous = OFF")
            self._db.backup(copy)
            copy.execute("DELETE FROM opened")
            if self._opening is not None and self.renewed:
                copy.execute("DELETE FROM stream")

    def close(self) -> None:
        """Safe to call twice."""
        with suppress(sqlite3.Error):
            if self.place == "disk":
                self._db.execute("DELETE FROM opened")
        self._db.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            if self._opening is not None:
                if self.renewed:
                    self._db.execute("DELETE FROM stream")
                self._db.execute("INSERT OR REPLACE INTO opened VALUES (1, ?, ?)", self._opening)
            yield
            self._db.execute("COMMIT")
            self._opening = None
        except BaseException:
            # on a broken disk even this may fail; the first error is the one to tell
            with suppress(sqlite3.Error):
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                self._recount()
            raise

    def _recount(self) -> None:
        self.rows, self.bytes = self._db.execute(
            "SELECT count(*), coalesce(sum(size), 0) FROM outbox INDEXED BY outbox_rank"
        ).fetchone()
        self.refused = int(self._db.execute("SELECT count(*) FROM dead").fetchone()[0])

    # -- rows

    def insert(self, row: Row) -> int:
        """The row's new id."""
        cursor = self._db.execute(
            "INSERT INTO outbox VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                row.kind,
                row.topic,
                row.payload,
                row.station,
                row.stream_id,
                row.seq,
                row.decision,
                row.created_s,
                rank(row.decision),
                row.size,
            ),
        )
        self.rows += 1
        self.bytes += row.size
        return int(cursor.lastrowid or 0)

    def delete(self, ids: Iterable[int]) -> None:
        """Ids that are not there any more do not matter."""
        for id_ in ids:
            for (size,) in self._db.execute("DELETE FROM outbox WHERE id = ? RETURNING size", (id_,)):
                self.rows -= 1
                self.bytes -= size

    def read(self, after: int, max_rows: int, max_bytes: int) -> list[Row]:
        """Rows with a higher id, oldest first; at least one where there is one."""
        found: list[Row] = []
        for record in self._db.execute(
            "SELECT * FROM outbox WHERE id > ? ORDER BY id LIMIT ?", (after, max_rows)
        ):
            found.append(as_row(record, self.place))
            max_bytes -= len(record[3])
            if max_bytes <= 0:
                break
        return found

    def oldest_s(self) -> float | None:
        """When the oldest row was made, Unix time."""
        record = self._db.execute("SELECT created_s FROM outbox ORDER BY id LIMIT 1").fetchone()
        return float(record[0]) if record else None

    def last_id(self) -> int:
        """The highest id given so far."""
        record = self._db.execute("SELECT seq FROM sqlite_sequence WHERE name = 'outbox'").fetchone()
        return int(record[0]) if record else 0

    def victims(self, max_rows: int, max_bytes: int, sent: Collection[int]) -> list[Row]:
        """What to give up to get within the bounds: OK first, NOK last, oldest first; no payloads.

        Rows that are ``sent`` stay.
        """
        rows_over, bytes_over = self.rows - max_rows, self.bytes - max_bytes
        found: list[Row] = []
        if rows_over <= 0 and bytes_over <= 0:
            return found
        for *record, size in self._db.execute(
            "SELECT id, kind, topic, x'', station, stream_id, seq, decision, created_s, size"
            " FROM outbox INDEXED BY outbox_rank ORDER BY rank, id"
        ):
            if record[0] in sent:
                continue
            found.append(as_row(record, self.place))
            rows_over -= 1
            bytes_over -= size
            if rows_over <= 0 and bytes_over <= 0:
                break
        return found

    def expired(self, before_s: float, sent: Collection[int], limit: int) -> list[Row]:
        """The oldest rows made before that time; no payloads."""
        found: list[Row] = []
        for record in self._db.execute(_ROWS + " ORDER BY id"):
            row = as_row(record, self.place)
            if row.created_s < _PLAUSIBLE_S or row.id in sent:
                continue
            if row.created_s >= before_s or len(found) == limit:
                break
            found.append(row)
        return found

    def between(self, after: int, last: int, station: str | None, limit: int) -> list[Row]:
        """Rows with ids above ``after`` and up to ``last``, oldest first; no payloads."""
        records = self._db.execute(_ROWS + _SOME, (after, last, station, limit))
        return [as_row(record, self.place) for record in records]

    # -- refused rows

    def bury(self, id_: int, code: int, refusal: str, now_s: float) -> None:
        """The broker refused it: no longer sent, kept for a person to look at."""
        buried = self._db.execute(
            "INSERT INTO dead SELECT"
            " id, kind, topic, payload, station, stream_id, seq, decision, created_s, ?, ?, ?"
            " FROM outbox WHERE id = ?",
            (code, refusal, now_s, id_),
        )
        self.refused += buried.rowcount
        self.delete([id_])

    def revive(self, after: int, last: int, station: str | None, limit: int) -> tuple[int, int]:
        """Refused rows with ids above ``after`` and up to ``last`` wait again, behind the others: how many,
        and the highest id of them.
        """
        records = self._db.execute(
            "SELECT * FROM dead"
            " WHERE id > ?1 AND id <= ?2 AND (?3 IS NULL OR station = ?3) ORDER BY id LIMIT ?4",
            (after, last, station, limit),
        ).fetchall()
        for record in records:
            self.insert(as_row(record, self.place))
            self.refused -= self._db.execute("DELETE FROM dead WHERE id = ?", (record[0],)).rowcount
        return len(records), records[-1][0] if records else last

    def dead_beyond(self, max_rows: int, max_bytes: int) -> list[Row]:
        """The oldest refused rows, without the newest that are within both bounds; no payloads."""
        found: list[Row] = []
        for *record, size in self._db.execute(
            "SELECT id, kind, topic, x'', station, stream_id, seq, decision, created_s, length(payload)"
            " FROM dead ORDER BY id DESC"
        ):
            max_rows, max_bytes = max_rows - 1, max_bytes - size
            if max_rows < 0 or max_bytes < 0:
                found.append(as_row(record, self.place))
        return found

    def dead_between(self, after: int, last: int, station: str | None, limit: int) -> list[Row]:
        """Refused rows with ids above ``after`` and up to ``last``, oldest first; no payloads."""
        records = self._db.execute(_REFUSED + _SOME, (after, last, station, limit))
        return [as_row(record, self.place) for record in records]

    def forget_dead(self, rows: Iterable[Row]) -> None:
        """For good."""
        for row in rows:
            self.refused -= self._db.execute("DELETE FROM dead WHERE id = ?", (row.id,)).rowcount

    def copy_dead(self, source: Store) -> None:
        """Refused rows of another store, with new ids."""
        for record in source._db.execute("SELECT * FROM dead ORDER BY id").fetchall():
            # by way of the outbox, whose ids no other refused row has
            id_ = self.insert(as_row(record, self.place))
            self.bury(id_, *record[9:])

    # -- gaps

    def add_gap(self, key: GapKey, first: int, last: int) -> None:
        """Joined with the ranges beside it."""
        left = self._db.execute(
            "SELECT first, last FROM gap WHERE topic = ? AND station = ? AND stream_id = ? AND reason = ?"
            " AND first <= ? ORDER BY first DESC LIMIT 1",
            (*key, first),
        ).fetchone()
        if left and left[1] >= first - 1:
            first, last = left[0], max(last, left[1])
        right = self._db.execute(
            "DELETE FROM gap WHERE topic = ? AND station = ? AND stream_id = ? AND reason = ?"
            " AND first = ? RETURNING last",
            (*key, last + 1),
        ).fetchall()
        if right:
            last = right[0][0]
        self._db.execute("INSERT OR REPLACE INTO gap VALUES (?, ?, ?, ?, ?, ?)", (*key, first, last))

    def gaps(self, limit: int) -> dict[GapKey, list[Range]]:
        """Up to ``limit`` ranges (-1: all)."""
        found: dict[GapKey, list[Range]] = {}
        for *key, first, last in self._db.execute("SELECT * FROM gap LIMIT ?", (limit,)):
            found.setdefault(GapKey(*key), []).append(Range(first, last))
        return found

    def forget_gaps(self, row: Row) -> None:
        """They were told; one that has grown since stays."""
        key = (row.topic, row.station, row.stream_id, row.reason)
        self._db.executemany(
            "DELETE FROM gap WHERE topic = ? AND station = ? AND stream_id = ? AND reason = ?"
            " AND first = ? AND last = ?",
            [(*key, one.first, one.last) for one in row.ranges],
        )

    # -- wishes of another process

    def data_version(self) -> int:
        """Another number once another process has changed something."""
        return int(self._db.execute("PRAGMA data_version").fetchone()[0])

    def wishes(self, now_s: float) -> list[tuple[int, Wish]]:
        """Those that wait, with their ids, oldest first; nobody waits for the others any more."""
        self._db.execute("DELETE FROM wish WHERE until_s < ?", (now_s,))
        found = self._db.execute(
            "SELECT id, verb, last, station, refused, waiting FROM wish WHERE NOT answered ORDER BY id"
        )
        return [
            (id_, Wish(verb, last, station, bool(refused), bool(waiting)))
            for id_, verb, last, station, refused, waiting in found
        ]

    def note_wish(self, id_: int, *, done: int, on_wire: int, answered: bool, until_s: float) -> None:
        """How far it is carried out; kept until then for whoever asked."""
        self._db.execute(
            "UPDATE wish SET done = ?, on_wire = ?, answered = ?, until_s = ? WHERE id = ?",
            (done, on_wire, answered, until_s, id_),
        )

    # -- the ledger

    def save(self, changes: Changes) -> None:
        """In the same transaction as the rows that belong to them."""
        self._db.executemany(
            "INSERT OR REPLACE INTO stream VALUES (?, ?, ?)",
            [(station, one.stream_id, one.seq) for station, one in changes.streams.items()],
        )
        self._db.executemany(
            "INSERT OR REPLACE INTO counts VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [(station, *columns(one), *columns(one.shift)) for station, one in changes.counts.items()],
        )
        self._db.executemany(
            "INSERT OR REPLACE INTO open_trigger VALUES (?, ?, ?, ?)",
            [(one.station, one.job_id, one.part_id, one.received_at.isoformat()) for one in changes.opened],
        )
        self._db.executemany("DELETE FROM open_trigger WHERE station = ? AND job_id = ?", changes.closed)

    def save_all(self, ledger: Ledger) -> None:
        """Replaces what is stored of every station."""
        for statement in ("DELETE FROM stream", "DELETE FROM counts", "DELETE FROM open_trigger"):
            self._db.execute(statement)
        self.save(Changes(ledger.streams, ledger.counts, list(ledger.open.values())))

    def load(self) -> Changes:
        """What the ledger knew when the last transaction was committed."""
        changes = Changes()
        for station, stream_id, seq in self._db.execute("SELECT * FROM stream"):
            # those that cannot be continued may still be there, on a full disk
            if self._opening is None or not self.renewed:
                changes.streams[station] = Stream(stream_id, seq)
        for station, ok, nok, undefined, since, *shift in self._db.execute("SELECT * FROM counts"):
            in_shift = Tally(shift[0], shift[1], shift[2], instant(shift[3]))
            changes.counts[station] = Counts(ok, nok, undefined, instant(since), in_shift)
        for station, job_id, part_id, received_at in self._db.execute("SELECT * FROM open_trigger"):
            changes.opened.append(OpenTrigger(station, job_id, part_id, datetime.fromisoformat(received_at)))
        return changes
