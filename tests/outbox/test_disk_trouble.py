from __future__ import annotations

import errno
import os
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from edge_infer import clock
from edge_infer.errors import OutboxError
from edge_infer.outbox import storage
from tests.support.outboxes import Reader, numbers, opened, put_all
from tests.support.results import result


class Disk:
    """A small file system of its own."""

    def __init__(self, path: Path) -> None:
        path.mkdir()
        self.path = path
        self._mount("-t", "tmpfs", "-o", "size=2m", "tmpfs")

    def _mount(self, *options: str) -> None:
        subprocess.run(["mount", *options, str(self.path)], check=True, timeout=10)

    def fill(self) -> None:
        """Not a byte is left."""
        with (self.path / "filler").open("ab", buffering=0) as file:
            try:
                while True:
                    file.write(b"x" * 4096)
            except OSError as error:
                assert error.errno == errno.ENOSPC  # noqa: PT017 - the loop ends only this way

    def free(self) -> None:
        """There is room again."""
        (self.path / "filler").unlink()

    def read_only(self) -> None:
        """As after a file system error."""
        self._mount("-o", "remount,ro")

    def writable(self) -> None:
        """Mended."""
        self._mount("-o", "remount,rw")

    def close(self) -> None:
        """Unmount."""
        subprocess.run(["umount", "-l", str(self.path)], check=True, timeout=10)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    if os.geteuid() != 0:
        pytest.skip("mounting a small disk needs root")
    disk = Disk(tmp_path / "disk")
    yield disk
    disk.close()


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "RETRY_S", 0.2)


def test_a_full_disk_is_survived_in_memory_with_a_new_stream_and_an_alarm(disk: Disk) -> None:
    outbox = opened(disk.path / "outbox")
    reader = Reader(outbox)
    before = put_all(outbox, [result() for _ in range(3)])
    disk.fill()
    # as much as SQLite still finds room for
    while not outbox.stats.in_memory:
        before += put_all(outbox, [result() for _ in range(50)])
    assert "full" in reader.alarm("outbox_in_memory")["why"]
    during = put_all(outbox, [result(), result()])
    assert len({final.stream_id for final in before + during}) == 2
    assert during[1].seq == during[0].seq + 1
    disk.free()
    reader.alarm("outbox_on_disk")
    after = put_all(outbox, [result()])
    assert (after[0].stream_id, after[0].seq) == (during[1].stream_id, during[1].seq + 1)
    outbox.close(5)
    again = opened(disk.path / "outbox")
    finals = before + during + after
    rows = Reader(again).deliver(len(finals))
    assert [(row.stream_id, row.seq) for row in rows] == [(one.stream_id, one.seq) for one in finals]
    assert put_all(again, [result()])[0].seq == after[0].seq + 1
    again.close(5)


def test_results_are_delivered_while_the_disk_is_full_and_not_sent_again_when_it_is_not(disk: Disk) -> None:
    outbox = opened(disk.path / "outbox")
    reader = Reader(outbox)
    finals = put_all(outbox, [result() for _ in range(3)])
    disk.fill()
    while not outbox.stats.in_memory:
        finals += put_all(outbox, [result() for _ in range(50)])
    reader.deliver(len(finals))
    late = put_all(outbox, [result()])
    on_wire = reader.take(1)[0]
    disk.free()
    reader.alarm("outbox_on_disk")
    outbox.delivered(on_wire)
    outbox.close(5)
    assert on_wire.seq == late[0].seq
    again = opened(disk.path / "outbox")
    assert again.stats.depth == 0
    again.close(5)


def test_a_service_starts_on_a_read_only_disk_and_uses_it_once_it_is_mended(disk: Disk) -> None:
    first = opened(disk.path / "outbox")
    before = put_all(first, [result("cap", "NOK"), result("cap", "NOK")])
    first.close(5)
    disk.read_only()
    outbox = opened(disk.path / "outbox")
    reader = Reader(outbox)
    reader.alarm("outbox_in_memory")
    during = put_all(outbox, [result()])
    assert during[0].stream_id != before[0].stream_id
    assert during[0].seq == 1
    disk.writable()
    reader.alarm("outbox_on_disk")
    rows = reader.deliver(3)
    assert {(row.stream_id, row.seq) for row in rows} == {(one.stream_id, one.seq) for one in before + during}
    assert outbox.counts("cap").nok == 2
    assert outbox.counts("cap").ok == 1
    outbox.close(5)
    again = opened(disk.path / "outbox")
    assert again.stats.depth == 0
    assert put_all(again, [result()])[0].seq == 2
    again.close(5)


def test_a_service_starts_on_a_full_disk(disk: Disk) -> None:
    disk.fill()
    outbox = opened(disk.path / "outbox")
    reader = Reader(outbox)
    reader.alarm("outbox_in_memory")
    put_all(outbox, [result()])
    assert numbers(reader.deliver(1)) == [1]
    assert outbox.accept_trigger("cap", "job-1", "p", clock.now()).wait(5)
    assert outbox.open_triggers("cap")
    outbox.close(5)


def test_results_that_were_only_in_memory_at_the_end_are_said_to_be_lost(
    disk: Disk, caplog: pytest.LogCaptureFixture
) -> None:
    disk.fill()
    outbox = opened(disk.path / "outbox")
    put_all(outbox, [result(), result()])
    outbox.close(5)
    assert "2 messages were only in memory and are lost" in caplog.text


def test_a_damaged_database_is_set_aside_and_a_new_stream_begins(tmp_path: Path) -> None:
    first = opened(tmp_path)
    before = put_all(first, [result()])
    first.close(5)
    database = tmp_path / "outbox.db"
    database.write_bytes(b"this is no database" * 1000)
    outbox = opened(tmp_path)
    reader = Reader(outbox)
    aside = Path(reader.alarm("outbox_damaged")["setAside"])
    assert aside.name.startswith("outbox.db.corrupt-")
    assert aside.read_bytes().startswith(b"this is no database")
    after = put_all(outbox, [result()])
    assert (after[0].seq, after[0].stream_id != before[0].stream_id) == (1, True)
    outbox.close(5)


def test_a_database_that_is_damaged_while_it_is_used_is_set_aside(tmp_path: Path) -> None:
    outbox = opened(tmp_path, commit="normal")
    for _ in range(4):
        put_all(outbox, [result() for _ in range(500)])
    outbox.close(5)
    outbox = opened(tmp_path, commit="normal")
    reader = Reader(outbox)
    database = tmp_path / "outbox.db"
    size = database.stat().st_size
    with database.open("r+b") as file:
        file.seek(size // 2)
        file.write(os.urandom(size - size // 2))
    rows = []
    until = time.monotonic() + 10
    while not any(kind == "outbox_damaged" for kind, _ in reader.alarms):
        assert time.monotonic() < until
        row = outbox.take()
        if row is not None:
            outbox.delivered(row)
            rows.append(row)
    final = put_all(outbox, [result()])[0]
    assert final.stream_id != rows[0].stream_id
    assert final.seq == 1
    assert len(list(tmp_path.glob("outbox.db.corrupt-*Z"))) == 1
    rest = reader.take(outbox.stats.depth)
    assert rest[-1].stream_id == final.stream_id
    outbox.close(5)
    again = opened(tmp_path)
    assert put_all(again, [result()])[0].seq == 2
    again.close(5)


def test_only_the_newest_damaged_databases_are_kept(tmp_path: Path) -> None:
    for _ in range(4):
        (tmp_path / "outbox.db").write_bytes(b"this is no database" * 1000)
        opened(tmp_path).close(5)
    assert len(list(tmp_path.glob("outbox.db.corrupt-*Z"))) == 2


def test_a_database_of_a_newer_version_is_refused_and_left_alone(tmp_path: Path) -> None:
    opened(tmp_path).close(5)
    with closing(sqlite3.connect(tmp_path / "outbox.db")) as newer:
        newer.execute("PRAGMA user_version = 99")
    with pytest.raises(OutboxError, match="format 99"):
        opened(tmp_path)
    assert not list(tmp_path.glob("*.corrupt-*"))


def test_a_folder_that_cannot_be_made_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutboxError, match="state_dir"):
        opened(tmp_path / "file" / "outbox")
