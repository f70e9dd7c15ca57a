"""Which numbers of each stream came, were given up, or are missing: ranges, so that it stays small."""

from __future__ import annotations

import json
import logging
import sqlite3
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from edge_infer.errors import EdgeInferError

log = logging.getLogger(__name__)

HOLES = 1000
"""Ranges remembered a stream; the oldest is forgotten first. What comes from before it is never taken for a
repetition."""
STREAMS = 16
"""Streams remembered a station; a station has a new one only where its count could not be continued."""


class Ranges:
    """A set of whole numbers as ranges that do not touch."""

    def __init__(self, ranges: Iterable[tuple[int, int]] = ()) -> None:
        self._firsts: list[int] = []
        self._lasts: list[int] = []
        for first, last in ranges:
            self.add(first, last)

    def __contains__(self, number: int) -> bool:
        at = bisect_right(self._firsts, number) - 1
        return at >= 0 and number <= self._lasts[at]

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(zip(self._firsts, self._lasts, strict=True))

    def __len__(self) -> int:
        return len(self._firsts)

    def add(self, first: int, last: int) -> None:
        """All numbers from first to last, both included; in any order, as often as you like."""
        # the ranges that it touches become one with it
        begin = bisect_right(self._lasts, first - 2)
        end = bisect_right(self._firsts, last + 1)
        if begin < end:
            first = min(first, self._firsts[begin])
            last = max(last, self._lasts[end - 1])
        self._firsts[begin:end] = [first]
        self._lasts[begin:end] = [last]

    def forget_first(self) -> int:
        """The lowest range; its last number."""
        del self._firsts[0]
        return self._lasts.pop(0)

    def holes(self, first: int) -> Iterator[tuple[int, int]]:
        """What is not in it between ``first`` and its highest number."""
        for begin, end in self:
            if begin > first:
                yield first, begin - 1
            first = max(first, end + 1)


@dataclass(frozen=True, slots=True)
class Stream:
    """Names one count of one station of one device."""

    prefix: str
    device: str
    station: str
    stream_id: str


@dataclass(frozen=True, slots=True)
class Missing:
    """Numbers that are late, or lost: nobody said yet that they were given up."""

    prefix: str
    device: str
    station: str
    stream_id: str
    first: int
    last: int


@dataclass(slots=True)
class _Count:
    begin: int
    """Numbers below it were published before we listened and are not missed."""
    came: Ranges = field(default_factory=Ranges)
    given_up: Ranges = field(default_factory=Ranges)
    forgetful: bool = False
    """It was said that it has forgotten something."""

    def missing(self) -> Iterator[tuple[int, int]]:
        return Ranges([*self.came, *self.given_up]).holes(self.begin)

    def shrink(self) -> bool:
        """True the first time that something is forgotten."""
        before = self.forgetful
        for ranges in (self.came, self.given_up):
            while len(ranges) > HOLES:
                self.begin = max(self.begin, ranges.forget_first() + 1)
                self.forgetful = True
        return self.forgetful and not before


class Numbers:
    """Of every stream that was seen. With a file it is the same after a restart.

    The file survives `kill -9` of the subscriber with every number; a power cut of its machine may take the
    last ones along: they are then handed out again, or are missing although they came.
    """

    def __init__(self, file: Path | None = None) -> None:
        """EdgeInferError where the file cannot be used or another subscriber uses it."""
        self._counts: dict[Stream, _Count] = {}
        """Of each station the newest stream last."""
        self._devices: dict[str, str] = {}
        """By prefix; the messages `gap` and `event` name no device."""
        self._store = _Store(file) if file is not None else None
        for stream, count in self._store.load() if self._store else ():
            self._counts[stream] = count
            self._devices[stream.prefix] = stream.device

    def came_before(self, stream: Stream, seq: int) -> bool:
        """It is a repetition."""
        return stream in self._counts and seq in self._counts[stream].came

    def came(self, stream: Stream, seq: int) -> None:
        """The result was handled. EdgeInferError where the file cannot be written."""
        self._devices[stream.prefix] = stream.device
        count = self._count(stream, seq)
        count.came.add(seq, seq)
        self._changed(stream, count)

    def given_up(self, prefix: str, station: str, stream_id: str, ranges: Iterable[tuple[int, int]]) -> None:
        """The device says that these do not come."""
        ranges = [(first, last) for first, last in ranges if first <= last]
        if not ranges:
            return
        device = self._devices.get(prefix, prefix.rpartition("/")[2])
        stream = Stream(prefix, device, station, stream_id)
        count = self._count(stream, min(first for first, _ in ranges))
        for first, last in ranges:
            count.given_up.add(first, last)
        self._changed(stream, count)

    def missing(self) -> list[Missing]:
        """Right now."""
        return [
            Missing(stream.prefix, stream.device, stream.station, stream.stream_id, first, last)
            for stream, count in self._counts.items()
            for first, last in count.missing()
        ]

    def close(self) -> None:
        """The file may be used by the next one."""
        if self._store is not None:
            self._store.close()

    def _count(self, stream: Stream, seq: int) -> _Count:
        if stream in self._counts:
            return self._counts[stream]
        mates = [one for one in self._counts if (one.prefix, one.device, one.station) == _place(stream)]
        # of a station that we follow we miss the new count from its beginning
        self._counts[stream] = _Count(1 if mates else seq)
        for old in mates[: max(0, len(mates) + 1 - STREAMS)]:
            log.warning("%s/%s has had %d streams; the oldest is forgotten", old.prefix, old.station, STREAMS)
            del self._counts[old]
            if self._store is not None:
                self._store.delete(old)
        return self._counts[stream]

    def _changed(self, stream: Stream, count: _Count) -> None:
        if count.shrink():
            log.warning("%s/%s has too many holes; the oldest are forgotten", stream.prefix, stream.station)
        if self._store is not None:
            self._store.save(stream, count)


def _place(stream: Stream) -> tuple[str, str, str]:
    return stream.prefix, stream.device, stream.station


class _Store:
    """One row a stream."""

    def __init__(self, file: Path) -> None:
        self._file = file
        try:
            self._database = sqlite3.connect(file, timeout=0, isolation_level=None, check_same_thread=False)
        except sqlite3.Error as error:
            raise EdgeInferError(
                f"cannot open the position {file}: {error}",
                hint="does its folder exist, and may you write there?",
            ) from error
        try:
            self._database.execute("PRAGMA locking_mode = EXCLUSIVE")
            self._database.execute("PRAGMA journal_mode = WAL")
            # what was written survives the process; only a power cut takes the last moments along
            self._database.execute("PRAGMA synchronous = NORMAL")
            self._database.execute("BEGIN EXCLUSIVE")
            self._database.execute(
                "CREATE TABLE IF NOT EXISTS streams "
                "(prefix, device, station, stream_id, begin, came, given_up, "
                "PRIMARY KEY (prefix, device, station, stream_id))"
            )
            self._database.execute("COMMIT")
        except sqlite3.Error as error:
            self._database.close()
            busy = getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_BUSY
            hint = "another subscriber uses it" if busy else "delete it: results may then come twice"
            raise EdgeInferError(f"cannot use the position in {file}: {error}", hint=hint) from error

    def load(self) -> Iterator[tuple[Stream, _Count]]:
        try:
            rows = self._database.execute("SELECT * FROM streams ORDER BY rowid").fetchall()
            for prefix, device, station, stream_id, begin, came, given_up in rows:
                count = _Count(begin, Ranges(json.loads(came)), Ranges(json.loads(given_up)))
                yield Stream(prefix, device, station, stream_id), count
        except (sqlite3.Error, ValueError, TypeError) as error:
            raise EdgeInferError(
                f"cannot read the position in {self._file}: {error}",
                hint="delete it: results may then come twice",
            ) from error

    def save(self, stream: Stream, count: _Count) -> None:
        self._write(
            "INSERT INTO streams VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET "
            "begin = excluded.begin, came = excluded.came, given_up = excluded.given_up",
            (*_key(stream), count.begin, json.dumps(list(count.came)), json.dumps(list(count.given_up))),
        )

    def delete(self, stream: Stream) -> None:
        where = "prefix = ? AND device = ? AND station = ? AND stream_id = ?"
        self._write(f"DELETE FROM streams WHERE {where}", _key(stream))  # noqa: S608 - no value in the text

    def _write(self, statement: str, values: tuple[object, ...]) -> None:
        try:
            self._database.execute(statement, values)
        except sqlite3.Error as error:
            raise EdgeInferError(
                f"cannot write the position to {self._file}: {error}", hint="is its disk full?"
            ) from error

    def close(self) -> None:
        self._database.close()


def _key(stream: Stream) -> tuple[str, str, str, str]:
    return stream.prefix, stream.device, stream.station, stream.stream_id
