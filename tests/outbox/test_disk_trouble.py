from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from edge_infer import clock
from edge_infer.errors import OutboxError
from edge_infer.outbox import storage
from tests.support.filesystems import FileSystem, ext4, tmpfs
from tests.support.outboxes import Reader, numbers, opened, put_all
from tests.support.results import result


@pytest.fixture(params=["tmpfs", "ext4"])
def disk(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[FileSystem]:
    folder = tmp_path / "disk"
    with tmpfs(folder, "32m") if request.param == "tmpfs" else ext4(folder) as disk:
        yield disk


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "RETRY_S", 0.2)


def test_a_full_disk_is_survived_in_memory_with_a_new_stream_and_an_alarm(disk: FileSystem) -> None:
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
    disk.make_room()
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


def test_a_disk_with_next_to_no_room_is_not_taken_for_one_that_was_mended(disk: FileSystem) -> None:
    outbox = opened(disk.path / "outbox")
    reader = Reader(outbox)
    reader.deliver(len(put_all(outbox, [result() for _ in range(20)])))
    disk.fill()
    given = 0
    until = time.monotonic() + 5
    while time.monotonic() < until:
        given += len(put_all(outbox, [result() for _ in range(20)]))
        reader.deliver(20)
        if given == 2000:
            # room for a while of results, but not for the log
            os.truncate(disk.path / "filler", (disk.path / "filler").stat().st_size - 1_000_000)
    assert [kind for kind, _ in reader.alarms] == ["outbox_in_memory"]
    disk.make_room()
    reader.alarm("outbox_on_disk")
    outbox.close(5)


def test_a_disk_with_next_to_no_room_is_used_when_the_service_ends(disk: FileSystem) -> None:
    outbox = opened(disk.path / "outbox")
    reader = Reader(outbox)
    before = put_all(outbox, [result() for _ in range(20)])
    disk.fill()
    while not outbox.stats.in_memory:
        before += put_all(outbox, [result() for _ in range(50)])
    os.truncate(disk.path / "filler", (disk.path / "filler").stat().st_size - 1_500_000)
    put_all(outbox, [result()])
    time.sleep(3 * storage.RETRY_S)
    assert [kind for kind, _ in reader.alarms] == ["outbox_in_memory"]
    outbox.close(5)
    again = opened(disk.path / "outbox")
    assert again.stats.depth == len(before) + 1
    again.close(5)


def test_results_are_delivered_while_the_disk_is_full_and_not_sent_again_when_it_is_not(
    disk: FileSystem,
) -> None:
    outbox = opened(disk.path / "outbox")
    reader = Reader(outbox)
    finals = put_all(outbox, [result() for _ in range(3)])
    disk.fill()
    while not outbox.stats.in_memory:
        finals += put_all(outbox, [result() for _ in range(50)])
    reader.deliver(len(finals))
    late = put_all(outbox, [result()])
    on_wire = reader.take(1)[0]
    disk.make_room()
    reader.alarm("outbox_on_disk")
    outbox.delivered(on_wire)
    outbox.close(5)
    assert on_wire.seq == late[0].seq
    again = opened(disk.path / "outbox")
    assert again.stats.depth == 0
    again.close(5)


def test_a_service_starts_on_a_read_only_disk_and_uses_it_once_it_is_mended(disk: FileSystem) -> None:
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


def test_a_service_starts_on_a_full_disk(disk: FileSystem) -> None:
    disk.fill()
    outbox = opened(disk.path / "outbox")
    reader = Reader(outbox)
    reader.alarm("outbox_in_memory")
    put_all(outbox, [result()])
    assert numbers(reader.deliver(1)) == [1]
    assert outbox.accept_trigger("cap", "job-1", "p", clock.now()).wait(5)
    assert outbox.open_triggers("cap")
    outbox.close(5)


def test_a_disk_without_inodes_is_survived_in_memory_and_used_once_there_are_some(tmp_path: Path) -> None:
    with tmpfs(tmp_path / "disk", "32m", "nr_inodes=12") as disk:
        (disk.path / "outbox").mkdir()
        disk.use_up_inodes()
        outbox = opened(disk.path / "outbox")
        reader = Reader(outbox)
        reader.alarm("outbox_in_memory")
        during = put_all(outbox, [result()])
        disk.free_inodes()
        reader.alarm("outbox_on_disk")
        after = put_all(outbox, [result()])
        assert (after[0].stream_id, after[0].seq) == (during[0].stream_id, 2)
        # once its files are there it needs no more of them
        disk.use_up_inodes()
        put_all(outbox, [result()])
        assert not outbox.stats.in_memory
        outbox.close(5)
        disk.free_inodes()
        again = opened(disk.path / "outbox")
        assert numbers(Reader(again).deliver(3)) == [1, 2, 3]
        again.close(5)


def test_what_waits_on_a_disk_that_is_full_at_the_start_is_delivered_once_there_is_room(
    disk: FileSystem,
) -> None:
    first = opened(disk.path / "outbox")
    before = put_all(first, [result() for _ in range(200)])
    first.close(5)
    disk.fill()
    outbox = opened(disk.path / "outbox")
    reader = Reader(outbox)
    during = put_all(outbox, [result()])
    assert during[0].stream_id != before[0].stream_id
    disk.make_room()
    rows = reader.deliver(201)
    assert {(row.stream_id, row.seq) for row in rows} == {(one.stream_id, one.seq) for one in before + during}
    outbox.close(5)


def test_a_file_system_that_goes_away_and_comes_back_is_used_again(tmp_path: Path) -> None:
    with ext4(tmp_path / "disk") as disk:
        outbox = opened(disk.path / "outbox")
        reader = Reader(outbox)
        before = put_all(outbox, [result()])
        disk.cut()
        during = put_all(outbox, [result()])
        reader.alarm("outbox_in_memory")
        outbox.close(5)
        disk.power_on()
        assert during[0].stream_id != before[0].stream_id
        again = opened(disk.path / "outbox")
        assert [row.seq for row in Reader(again).deliver(1)] == [1]
        again.close(5)


def test_a_state_folder_that_is_deleted_does_not_end_the_delivery(tmp_path: Path) -> None:
    with tmpfs(tmp_path / "disk") as disk:
        disk.fill()
        outbox = opened(disk.path / "outbox")
        reader = Reader(outbox)
        put_all(outbox, [result()])
    # unmounted: the folder is gone
    put_all(outbox, [result()])
    time.sleep(3 * storage.RETRY_S)
    assert outbox.failure is None
    assert numbers(reader.deliver(2)) == [1, 2]
    outbox.close(5)


def test_results_that_were_only_in_memory_at_the_end_are_said_to_be_lost(
    disk: FileSystem, caplog: pytest.LogCaptureFixture
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
