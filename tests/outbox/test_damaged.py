"""A database that is damaged in any way: results go on, and no number is given twice."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import struct
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from edge_infer import clock
from edge_infer.outbox import wal
from tests.support.outboxes import Reader, numbers, opened, put_all
from tests.support.results import result

ROOT = Path(__file__).parents[2]
WRITER = """
import sys, threading; sys.path.insert(0, sys.argv[2])
from pathlib import Path
from edge_infer.outbox import Outbox, OutboxSettings
from tests.support.outboxes import put_all
from tests.support.results import result
outbox = Outbox.open(Path(sys.argv[1]), OutboxSettings(commit=sys.argv[3]))
for _ in range(60):
    final = put_all(outbox, [result() for _ in range(50)])[-1]
print(final.stream_id, final.seq, flush=True)
threading.Event().wait()
"""


def killed(folder: Path, commit: str = "fsync") -> tuple[str, int]:
    """A service that committed 3,000 results, more than its log holds, and was killed: its stream and its
    last number.
    """
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(folder), str(ROOT), commit], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        stream_id, seq = process.stdout.readline().split()
        process.send_signal(signal.SIGKILL)
    return stream_id, int(seq)


@pytest.fixture(scope="module")
def killed_once(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, int]:
    folder = tmp_path_factory.mktemp("killed")
    return (folder, *killed(folder))


@pytest.fixture
def left(killed_once: tuple[Path, str, int], tmp_path: Path) -> tuple[str, int]:
    """What a service left in ``tmp_path`` that was killed: its stream and its last number."""
    folder, stream_id, seq = killed_once
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    return stream_id, seq


def _truncated(database: Path) -> None:
    os.truncate(database, database.stat().st_size // 3)


def _emptied(database: Path) -> None:
    os.truncate(database, 0)


def _replaced(database: Path) -> None:
    database.unlink()
    database.mkdir()
    (database / "something").write_text("of somebody")


def _no_header(database: Path) -> None:
    _overwrite(database, 0, 100)


def _ledger_page(database: Path) -> None:
    with closing(sqlite3.connect(database)) as db:
        page = db.execute("SELECT rootpage FROM sqlite_master WHERE name = 'stream'").fetchone()[0]
        size = db.execute("PRAGMA page_size").fetchone()[0]
    _overwrite(database, (page - 1) * size, size)


def _schema_page(database: Path) -> None:
    _overwrite(database, 100, 3000)


def _overwrite(path: Path, at: int, size: int) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(b"\xa5" * size)


@pytest.mark.parametrize("damage", [_truncated, _emptied, _replaced, _no_header, _ledger_page, _schema_page])
def test_a_damaged_database_is_set_aside_told_and_replaced(
    damage: Callable[[Path], None], tmp_path: Path
) -> None:
    first = opened(tmp_path)
    before = put_all(first, [result() for _ in range(400)])
    first.close(5)
    damage(tmp_path / "outbox.db")
    outbox = opened(tmp_path)
    aside = Path(Reader(outbox).alarm("outbox_damaged")["setAside"])
    assert aside.exists()
    after = put_all(outbox, [result()])[0]
    assert (after.seq, after.stream_id != before[0].stream_id) == (1, True)
    assert not outbox.stats.in_memory
    outbox.close(5)
    # and the new one is sound
    again = opened(tmp_path)
    assert numbers(Reader(again).deliver(1)) == [1]
    assert put_all(again, [result()])[0].stream_id == after.stream_id
    again.close(5)


def test_a_killed_service_goes_on_in_its_stream(tmp_path: Path, left: tuple[str, int]) -> None:
    stream_id, seq = left
    outbox = opened(tmp_path)
    final = put_all(outbox, [result()])[0]
    assert (final.stream_id, final.seq) == (stream_id, seq + 1)
    outbox.close(5)


def _in_the_middle(log: Path) -> None:
    # of what belongs to this round: the rest is left over from the one before
    data = log.read_bytes()
    frame = 24 + struct.unpack(">I", data[8:12])[0]
    places = range(32, len(data), frame)
    current = [at for at in places if data[at + 8 : at + 16] == data[16:24]]
    _overwrite(log, current[len(current) // 2] + 100, 64)


def _at_its_head(log: Path) -> None:
    _overwrite(log, 0, 32)


def _deleted(log: Path) -> None:
    log.unlink()


@pytest.mark.parametrize("damage", [_in_the_middle, _at_its_head, _deleted])
def test_a_log_that_lost_what_was_committed_ends_the_stream(
    damage: Callable[[Path], None], tmp_path: Path, left: tuple[str, int]
) -> None:
    stream_id, _ = left
    damage(tmp_path / "outbox.db-wal")
    outbox = opened(tmp_path)
    reader = Reader(outbox)
    # either SQLite finds nothing at all, or an older state whose numbers are already known outside
    final = put_all(outbox, [result()])[0]
    assert (final.seq, final.stream_id != stream_id) == (1, True)
    if not any(kind == "outbox_damaged" for kind, _ in reader.alarms):
        assert "log" in reader.alarm("streams_renewed")["why"]
    outbox.close(5)
    again = opened(tmp_path)
    assert put_all(again, [result()])[0].stream_id == final.stream_id
    again.close(5)


def test_a_frame_that_a_kill_left_unfinished_is_no_damage(tmp_path: Path, left: tuple[str, int]) -> None:
    stream_id, seq = left
    log = tmp_path / "outbox.db-wal"
    data = log.read_bytes()
    frame = 24 + struct.unpack(">I", data[8:12])[0]
    last = len(data) - frame
    # the next frame of a transaction: right, but without the mark of a commit
    log.write_bytes(data + struct.pack(">2I", 2, 0) + data[16:24] + b"\0" * (frame - 16))
    assert not wal.damaged(log, (last - 32) // frame + 1)
    outbox = opened(tmp_path)
    assert put_all(outbox, [result()])[0].stream_id == stream_id
    outbox.close(5)
    assert seq == 3000


def test_relaxed_commits_start_new_streams_after_a_power_cut_and_not_after_a_kill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream_id, seq = killed(tmp_path, "normal")
    outbox = opened(tmp_path, commit="normal")
    final = put_all(outbox, [result()])[0]
    assert (final.stream_id, final.seq) == (stream_id, seq + 1)
    outbox.close(5)
    # switched off in an orderly way
    monkeypatch.setattr(clock, "boot_id", lambda: "the next")
    outbox = opened(tmp_path, commit="normal")
    assert put_all(outbox, [result()])[0].stream_id == stream_id
    outbox.close(5)
    killed(tmp_path, "normal")
    monkeypatch.setattr(clock, "boot_id", lambda: "the one after it")
    outbox = opened(tmp_path, commit="normal")
    reader = Reader(outbox)
    assert put_all(outbox, [result()])[0].stream_id != stream_id
    assert "power" in reader.alarm("streams_renewed")["why"]
    outbox.close(5)
