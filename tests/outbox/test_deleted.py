"""The database is deleted, renamed or replaced while the service has it open: nothing that was committed is
lost, and somebody is told.
"""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from edge_infer import clock
from edge_infer.outbox import storage
from tests.support.filesystems import tmpfs
from tests.support.outboxes import Reader, numbers, opened, put_all
from tests.support.results import result

ROOT = Path(__file__).parents[2]

Loss = Callable[[Path], None]


def _deleted(folder: Path) -> None:
    (folder / "outbox.db").unlink()


def _all_deleted(folder: Path) -> None:
    for one in folder.glob("outbox.db*"):
        one.unlink()


def _renamed(folder: Path) -> None:
    (folder / "outbox.db").rename(folder / "outbox.db.old")


def _folder_deleted(folder: Path) -> None:
    shutil.rmtree(folder)


def _folder_renamed(folder: Path) -> None:
    folder.rename(folder.with_name("elsewhere"))


def _replaced(folder: Path) -> None:
    (folder / "outbox.db").unlink()
    with closing(sqlite3.connect(folder / "outbox.db")) as other:
        other.execute("CREATE TABLE something (of_somebody)")


losses = pytest.mark.parametrize(
    "loss", [_deleted, _all_deleted, _renamed, _folder_deleted, _folder_renamed, _replaced]
)


@losses
def test_a_database_that_is_lost_while_it_is_used_is_put_back_within_a_second_or_two(
    loss: Loss, tmp_path: Path
) -> None:
    folder = tmp_path / "state"
    outbox = opened(folder)
    reader = Reader(outbox)
    finals = put_all(outbox, [result() for _ in range(600)])
    on_wire, refused = reader.take(1)[0], reader.take(1)[0]
    outbox.refused(refused, 0x87, "Not authorized")
    outbox.accept_trigger("cap", "job-1", "p", clock.now()).wait(5)
    loss(folder)
    # nothing happens at the stations meanwhile
    assert reader.alarm("outbox_restored", 5)["rows"] >= 599
    outbox.delivered(on_wire)
    finals += put_all(outbox, [result()])
    assert {one.stream_id for one in finals} == {finals[0].stream_id}
    assert not outbox.stats.in_memory
    # as after a kill: what is in the folder now is all there is
    shutil.copytree(folder, tmp_path / "killed")
    outbox.close(5)
    again = opened(tmp_path / "killed")
    assert again.open_triggers("cap")
    assert again.stats.dead == 1
    sent = numbers(Reader(again).deliver(again.stats.depth))
    assert set(sent) | {1, 2} == set(range(1, 602))
    assert len(sent) == len(set(sent))
    last = put_all(again, [result()])[0]
    assert (last.stream_id, last.seq) == (finals[0].stream_id, 602)
    again.close(5)
    orderly = opened(folder)
    assert set(numbers(Reader(orderly).deliver(orderly.stats.depth))) == set(range(3, 602))
    orderly.close(5)


def test_what_lay_in_the_place_of_the_database_is_kept(tmp_path: Path) -> None:
    outbox = opened(tmp_path)
    reader = Reader(outbox)
    put_all(outbox, [result()])
    _replaced(tmp_path)
    aside = Path(reader.alarm("outbox_restored")["setAside"])
    outbox.close(5)
    with closing(sqlite3.connect(aside)) as other:
        assert other.execute("SELECT name FROM sqlite_master").fetchall() == [("something",)]


def test_a_loss_in_the_last_moment_is_made_good_at_the_end(tmp_path: Path) -> None:
    outbox = opened(tmp_path)
    before = put_all(outbox, [result() for _ in range(3)])
    _deleted(tmp_path)
    outbox.close(5)
    again = opened(tmp_path)
    assert numbers(Reader(again).deliver(3)) == [1, 2, 3]
    assert put_all(again, [result()])[0].stream_id == before[0].stream_id
    again.close(5)


def test_what_cannot_be_put_back_is_told_and_put_back_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "RETRY_S", 0.2)
    with tmpfs(tmp_path / "disk", "32m") as disk:
        outbox = opened(disk.path / "outbox")
        reader = Reader(outbox)
        finals = put_all(outbox, [result() for _ in range(600)])
        disk.fill()
        _all_deleted(disk.path / "outbox")
        assert "deleted" in reader.alarm("outbox_in_memory")["why"]
        finals += put_all(outbox, [result()])
        assert finals[-1].stream_id != finals[0].stream_id
        assert not [one for one in (disk.path / "outbox").iterdir() if one.name != "lock"]
        first = reader.deliver(2)
        disk.make_room()
        reader.alarm("outbox_restored")
        reader.alarm("outbox_on_disk")
        finals += put_all(outbox, [result()])
        shutil.copytree(disk.path / "outbox", tmp_path / "killed")
        rows = first + reader.deliver(600)
        assert [(row.stream_id, row.seq) for row in rows] == [(one.stream_id, one.seq) for one in finals]
        outbox.close(5)
        again = opened(tmp_path / "killed")
        assert again.counts("cap").total == 602
        again.close(5)


def test_a_whole_copy_that_cannot_be_put_in_its_place_is_put_there_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "RETRY_S", 0.2)
    outbox = opened(tmp_path)
    reader = Reader(outbox)
    finals = put_all(outbox, [result() for _ in range(300)])
    first = reader.deliver(1)
    _all_deleted(tmp_path)
    with tmpfs(tmp_path / "outbox.db"):
        # nothing can be renamed that something is mounted on
        reader.alarm("outbox_in_memory")
        finals += put_all(outbox, [result()])
    reader.alarm("outbox_on_disk")
    rows = first + reader.deliver(300)
    # while the old rows could not be read the new one may have gone before them; each stream is in order
    assert [row.seq for row in rows if row.stream_id == finals[0].stream_id] == list(range(1, 301))
    assert [row.seq for row in rows if row.stream_id == finals[-1].stream_id] == [1]
    assert outbox.counts("cap").total == 301
    outbox.close(5)
    again = opened(tmp_path)
    assert (again.counts("cap").total, again.stats.depth) == (301, 0)
    again.close(5)


def test_a_start_without_the_database_that_was_there_is_told(tmp_path: Path) -> None:
    first = opened(tmp_path)
    assert not Reader(first).alarms
    put_all(first, [result()])
    first.close(5)
    _all_deleted(tmp_path)
    second = opened(tmp_path)
    assert "missing" in Reader(second).alarm("streams_renewed")["why"]
    second.close(5)
    third = opened(tmp_path)
    assert put_all(third, [result()])[0].seq == 1
    assert not Reader(third).alarms
    third.close(5)


def test_a_first_start_on_a_full_disk_misses_no_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "RETRY_S", 0.2)
    with tmpfs(tmp_path / "disk", "32m") as disk:
        disk.fill()
        opened(disk.path / "outbox").close(5)
        outbox = opened(disk.path / "outbox")
        reader = Reader(outbox)
        disk.make_room()
        reader.alarm("outbox_on_disk")
        assert [kind for kind, _ in reader.alarms] == ["outbox_in_memory", "outbox_on_disk"]
        outbox.close(5)


def test_a_whole_copy_is_not_mixed_with_the_log_of_another_database(tmp_path: Path) -> None:
    first = opened(tmp_path / "state")
    stream_id = put_all(first, [result() for _ in range(300)])[-1].stream_id
    first.close(5)
    other = opened(tmp_path / "other")
    put_all(other, [result() for _ in range(50)])
    # as after a kill in the middle of putting it in place
    (tmp_path / "state/outbox.db").rename(tmp_path / "state/outbox.db.copy")
    shutil.copy(tmp_path / "other/outbox.db-wal", tmp_path / "state")
    other.close(5)
    again = opened(tmp_path / "state")
    reader = Reader(again)
    final = put_all(again, [result()])[0]
    assert (final.stream_id, final.seq) == (stream_id, 301)
    assert numbers(reader.deliver(301)) == list(range(1, 302))
    assert [kind for kind, _ in reader.alarms] == ["outbox_restored"]
    again.close(5)


KILLED = """
import os, signal, sys, threading; sys.path.insert(0, sys.argv[2])
from pathlib import Path
from edge_infer.outbox import Outbox, OutboxSettings
from tests.outbox import test_deleted
from tests.support.outboxes import Reader, put_all
from tests.support.results import result

def one(folder, at):
    outbox = Outbox.open(folder, OutboxSettings())
    reader = Reader(outbox)
    final = put_all(outbox, [result() for _ in range(600)])[-1]
    said = folder.with_suffix(".said").open("w")
    print(final.stream_id, file=said, flush=True)
    steps = 0
    def watch(event, args):
        nonlocal steps
        # each of them is a step before which a kill may come
        if threading.current_thread().name == "outbox-writer" and event in (
            "open", "os.rename", "os.remove", "os.mkdir", "sqlite3.connect", "fsync"
        ):
            steps += 1
            if steps == at:
                print(event, *args[:2], file=said, flush=True)
                os.kill(os.getpid(), signal.SIGKILL)
    fsync = os.fsync
    os.fsync = lambda fd: (sys.audit("fsync"), fsync(fd))
    sys.addaudithook(watch)
    getattr(test_deleted, sys.argv[3])(folder)
    reader.alarm("outbox_restored")
    print("survived", file=said, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

# processes that need not import all that again
children = []
for at in range(1, 21):
    pid = os.fork()
    if not pid:
        one(Path(sys.argv[1]) / str(at), at)
    children.append(pid)
    if not at % 10:
        assert {os.waitpid(pid, 0)[1] for pid in children} == {signal.SIGKILL}
        children.clear()
"""


@pytest.mark.parametrize("loss", ["_deleted", "_renamed", "_replaced"])
def test_a_kill_at_any_step_of_putting_it_back_forgets_no_number_and_loses_nothing_that_can_be_kept(
    loss: str, tmp_path: Path
) -> None:
    subprocess.run([sys.executable, "-c", KILLED, tmp_path, ROOT, loss], check=True, timeout=60)
    fates = []
    for at in range(1, 21):
        folder = tmp_path / f"{at}"
        stream_id, said = folder.with_suffix(".said").read_text().splitlines()
        again = opened(folder)
        reader = Reader(again)
        final = put_all(again, [result()])[0]
        if final.stream_id == stream_id:
            assert final.seq == 601
            assert numbers(reader.deliver(601)) == list(range(1, 602))
            assert not list(folder.glob("outbox.db.copy*"))
        else:
            # the kernel threw the deleted file away before all of it was written again
            assert final.seq == 1
            assert {kind for kind, _ in reader.alarms} == {"streams_renewed"}
        fates.append((final.stream_id == stream_id, said))
        again.close(5)
    kept = [said for was_kept, said in fates if was_kept]
    # everything is kept from that step on at which the copy is whole
    assert [was_kept for was_kept, _ in fates] == sorted(was_kept for was_kept, _ in fates)
    assert kept[-1] == "survived"
    *_, last = (said for was_kept, said in fates if not was_kept)
    assert last.startswith("os.rename")
    assert last.endswith("outbox.db.copy")
