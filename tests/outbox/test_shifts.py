"""Counts per shift: by the clock on the wall, in the transaction of the results, each result in one shift."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from edge_infer import clock
from edge_infer.outbox import Outbox, Shifts, Tally, storage
from edge_infer.outbox.shifts import DEFAULT
from tests.support.filesystems import tmpfs
from tests.support.outboxes import Reader, opened, put_all
from tests.support.results import result

HOUR = timedelta(hours=1)


@pytest.fixture(autouse=True)
def _berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    # the rules themselves: not every machine has a time zone database
    monkeypatch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


class Wall:
    """A clock that the test sets."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, now: str) -> None:
        self.now = utc(now)
        monkeypatch.setattr(clock, "now", lambda: self.now)


class Follower:
    """Stands where the service stands."""

    def __init__(self, outbox: Outbox, *stations: str, times: tuple[str, ...] = DEFAULT) -> None:
        self.outbox = outbox
        self.renewed: list[str] = []
        self._changed = threading.Condition()
        outbox.follow_shifts(Shifts(times), stations, ended=self._ended, renewed=self._renewed)

    def _ended(self, station: str, shift: Tally, until: datetime) -> tuple[str, bytes]:
        since = shift.since.isoformat() if shift.since else None
        told = {"station": station, "total": shift.total, "since": since, "until": until.isoformat()}
        return "p/event", json.dumps(told).encode()

    def _renewed(self, station: str) -> None:
        with self._changed:
            self.renewed.append(station)
            self._changed.notify_all()

    def wait(self, renewals: int) -> None:
        """So many in all."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.renewed) >= renewals, 5), self.renewed


def ended(outbox: Outbox) -> list[dict[str, Any]]:
    """The events of shifts that ended, taken out of the queue."""
    reader = Reader(outbox)
    rows = reader.deliver(outbox.depth())
    return [json.loads(row.payload) for row in rows if row.kind == "event"]


# -- when


@pytest.mark.parametrize(
    ("now", "began", "following"),
    [
        ("2026-07-01T12:00", "2026-07-01T12:00", "2026-07-01T20:00"),  # 14:00 summer time
        ("2026-07-01T11:59", "2026-07-01T04:00", "2026-07-01T12:00"),
        ("2026-07-01T02:00", "2026-06-30T20:00", "2026-07-01T04:00"),  # the night shift of the day before
        ("2026-12-01T13:00", "2026-12-01T13:00", "2026-12-01T21:00"),  # 14:00 winter time
    ],
)
def test_shifts_begin_by_the_clock_on_the_wall(now: str, began: str, following: str) -> None:
    shifts = Shifts(DEFAULT)
    assert shifts.began(utc(now)) == utc(began)
    assert shifts.next(utc(now)) == utc(following)


@pytest.mark.parametrize(
    ("day", "hours"), [("2026-03-28T21:00", 7), ("2026-10-24T20:00", 9), ("2026-06-01T20:00", 8)]
)
def test_the_night_of_a_clock_change_is_an_hour_shorter_or_longer(day: str, hours: int) -> None:
    shifts = Shifts(DEFAULT)
    assert shifts.began(utc(day)) == utc(day)
    assert shifts.next(utc(day)) - utc(day) == hours * HOUR


@pytest.mark.parametrize("leap", ["2026-03-28T00:00", "2026-10-24T00:00"])
def test_a_shift_in_the_leaping_hour_begins_once_that_day(leap: str) -> None:
    shifts = Shifts(("02:30", "12:00"))
    minute = utc(leap)
    began: list[datetime] = []
    while minute < utc(leap) + 48 * HOUR:
        if not began or shifts.began(minute) != began[-1]:
            began.append(shifts.began(minute))
        minute += timedelta(minutes=10)
    assert began == sorted(set(began))
    assert len(began) == 5


# -- what is counted


def test_a_shift_ends_without_a_result_and_tells_its_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wall = Wall(monkeypatch, "2026-07-01T11:00")
    outbox = opened(tmp_path)
    follower = Follower(outbox, "cap", "idle")
    follower.wait(2)
    put_all(outbox, [result("cap", "OK"), result("cap", "NOK")])
    wall.now = utc("2026-07-01T12:00")
    follower.wait(4)
    assert outbox.counts("cap").shift == Tally(since=wall.now)
    assert (outbox.counts("cap").ok, outbox.counts("cap").nok) == (1, 1)
    told = ended(outbox)
    assert [(one["station"], one["total"]) for one in told] == [("cap", 2), ("idle", 0)]
    assert {(one["since"], one["until"]) for one in told} == {
        ("2026-07-01T04:00:00+00:00", "2026-07-01T12:00:00+00:00")
    }
    outbox.close(5)


def test_a_reset_leaves_the_shift_alone(tmp_path: Path) -> None:
    outbox = opened(tmp_path)
    Follower(outbox, "cap").wait(1)
    put_all(outbox, [result("cap", "OK"), result("cap", "UNDEFINED")])
    outbox.reset_counts("cap")
    counts = outbox.counts("cap")
    assert (counts.total, counts.shift.ok, counts.shift.undefined) == (0, 1, 1)
    outbox.close(5)
    again = opened(tmp_path)
    assert again.counts("cap") == counts
    again.close(5)


def test_a_shift_that_ended_while_the_device_was_off_is_told_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wall = Wall(monkeypatch, "2026-07-01T11:00")
    outbox = opened(tmp_path)
    Follower(outbox, "cap").wait(1)
    put_all(outbox, [result(), result()])
    outbox.close(5)
    wall.now = utc("2026-07-03T09:00")
    again = opened(tmp_path)
    Follower(again, "cap").wait(1)
    assert again.flush(5)
    (one,) = [one for one in ended(again) if "total" in one]
    assert (one["total"], one["until"]) == (2, "2026-07-01T12:00:00+00:00")
    assert again.counts("cap").shift == Tally(since=utc("2026-07-03T04:00"))
    again.close(5)


def test_a_restart_within_a_shift_goes_on_counting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wall = Wall(monkeypatch, "2026-07-01T11:00")
    for _ in range(3):
        outbox = opened(tmp_path)
        Follower(outbox, "cap").wait(1)
        put_all(outbox, [result()])
        outbox.close(5)
        wall.now += timedelta(minutes=5)
    again = opened(tmp_path)
    assert again.counts("cap").shift == Tally(ok=3, since=utc("2026-07-01T04:00"))
    assert not [one for one in ended(again) if "total" in one]
    again.close(5)


@pytest.mark.parametrize("back", [timedelta(minutes=2), timedelta(hours=5), timedelta(days=3)])
def test_a_clock_set_back_neither_loses_nor_doubles_a_result(
    back: timedelta, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wall = Wall(monkeypatch, "2026-07-01T11:59")
    outbox = opened(tmp_path)
    Follower(outbox, "cap").wait(1)
    put_all(outbox, [result()])
    wall.now = utc("2026-07-01T12:01")
    put_all(outbox, [result(), result()])
    wall.now -= back
    put_all(outbox, [result(), result(), result()])
    while wall.now < utc("2026-07-01T20:30"):
        wall.now += timedelta(hours=1)
        put_all(outbox, [result()])
        assert outbox.flush(5)
    told = [one for one in ended(outbox) if "total" in one]
    counts = outbox.counts("cap")
    assert sum(one["total"] for one in told) + counts.shift.total == counts.ok
    if back < timedelta(days=1):
        assert len(told) == 2
    outbox.close(5)


def test_a_clock_that_was_not_set_ends_no_shift(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wall = Wall(monkeypatch, "2026-07-01T11:59")
    outbox = opened(tmp_path)
    Follower(outbox, "cap").wait(1)
    put_all(outbox, [result()])
    outbox.close(5)
    wall.now = utc("1970-01-01T00:03")
    again = opened(tmp_path)
    Follower(again, "cap").wait(1)
    put_all(again, [result()])
    wall.now = utc("2026-07-01T12:02")
    put_all(again, [result()])
    (one,) = [one for one in ended(again) if "total" in one]
    assert (one["total"], again.counts("cap").shift.ok) == (2, 1)
    again.close(5)


def test_a_station_that_was_removed_tells_its_last_shift_and_is_silent_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wall = Wall(monkeypatch, "2026-07-01T11:00")
    outbox = opened(tmp_path)
    Follower(outbox, "old").wait(1)
    put_all(outbox, [result("old")])
    outbox.close(5)
    again = opened(tmp_path)
    follower = Follower(again, "new")
    follower.wait(1)
    for hours in (2, 10, 18):
        wall.now = utc("2026-07-01T11:00") + hours * HOUR
        follower.wait(len(follower.renewed) + 1)
    assert [(one["station"], one["total"]) for one in ended(again) if one.get("total")] == [("old", 1)]
    assert set(follower.renewed) == {"new"}
    again.close(5)


def test_a_kill_never_makes_counts_and_results_differ(tmp_path: Path) -> None:
    code = """
import itertools, sys; sys.path.insert(0, sys.argv[2])
from datetime import UTC, datetime, timedelta
from pathlib import Path
from edge_infer import clock
from edge_infer.outbox import Outbox, OutboxSettings, Shifts
from tests.support.outboxes import put_all
from tests.support.results import result
# a shift ends every few transactions
minutes = itertools.count(int(sys.argv[3]))
clock.now = lambda: datetime(2026, 7, 1, tzinfo=UTC) + timedelta(minutes=9 * next(minutes))
outbox = Outbox.open(Path(sys.argv[1]), OutboxSettings())
def ended(station, shift, until):
    return "p/event", b'{"total": %d}' % shift.total
outbox.follow_shifts(Shifts(("06:00", "14:00", "22:00")), ["cap"], ended=ended, renewed=lambda station: None)
while True:
    put_all(outbox, [result() for _ in range(5)])
    print(next(minutes), flush=True)
"""
    root = str(Path(__file__).parents[2])
    minute = 0
    for kill_after in (7, 23, 60):
        with subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path), root, str(minute)], stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            for _ in range(kill_after):
                minute = int(process.stdout.readline())
            os.kill(process.pid, signal.SIGKILL)
    outbox = opened(tmp_path)
    counts = outbox.counts("cap")
    rows = Reader(outbox).deliver(outbox.depth(), timeout_s=10)
    results = [row for row in rows if row.kind == "result"]
    told = [json.loads(row.payload)["total"] for row in rows if row.kind == "event"]
    assert len(told) > 2
    assert counts.ok == len(results) == sum(told) + counts.shift.ok
    outbox.close(5)


def test_counts_of_an_older_database_begin_a_shift(tmp_path: Path) -> None:
    import sqlite3
    from contextlib import closing

    from edge_infer.outbox import tables

    with closing(sqlite3.connect(tmp_path / "outbox.db", isolation_level=None)) as db:
        db.executescript(f"{tables._CREATE} PRAGMA user_version = 1;")
        db.execute("INSERT INTO counts VALUES ('cap', 5, 2, 1, '2026-07-01T04:00:00+00:00')")
        db.execute("INSERT INTO stream VALUES ('cap', 'of before', 8)")
    outbox = opened(tmp_path)
    final = put_all(outbox, [result("cap", "NOK")])[0]
    assert (final.stream_id, final.seq) == ("of before", 9)
    counts = outbox.counts("cap")
    assert (counts.ok, counts.nok, counts.undefined, counts.shift.nok) == (5, 3, 1, 1)
    outbox.close(5)


def test_a_shift_that_ended_while_the_disk_could_not_be_read_is_told_when_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "RETRY_S", 0.2)
    wall = Wall(monkeypatch, "2026-07-01T11:00")
    with tmpfs(tmp_path / "disk", "32m") as disk:
        outbox = opened(disk.path / "outbox")
        Follower(outbox, "cap").wait(1)
        put_all(outbox, [result(), result()])
        outbox.close(5)
        disk.read_only()
        wall.now = utc("2026-07-01T13:00")
        again = opened(disk.path / "outbox")
        follower = Follower(again, "cap")
        follower.wait(1)
        put_all(again, [result(), result(), result()])
        reader = Reader(again)
        disk.writable()
        reader.alarm("outbox_on_disk")
        put_all(again, [result()])
        assert again.counts("cap").ok == 6
        assert again.counts("cap").shift == Tally(ok=4, since=utc("2026-07-01T12:00"))
        told = [one for one in ended(again) if "total" in one]
        assert [(one["total"], one["until"]) for one in told] == [(2, "2026-07-01T12:00:00+00:00")]
        again.close(5)
        disk.read_only()
        # and in the same shift both are one
        third = opened(disk.path / "outbox")
        Follower(third, "cap").wait(1)
        put_all(third, [result()])
        reader = Reader(third)
        disk.writable()
        reader.alarm("outbox_on_disk")
        assert third.counts("cap").shift == Tally(ok=5, since=utc("2026-07-01T12:00"))
        third.close(5)
