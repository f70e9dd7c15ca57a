from __future__ import annotations

import sqlite3
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from edge_infer import clock
from edge_infer.remote import memory
from edge_infer.remote.answer import Answer, RefusedError
from edge_infer.remote.memory import KEPT_S, NAME, DiskMemory, PartMemory, Remembered

KEY = ("vision/v1/rsp/mes", b"\x00\xff1")
DONE = Answer("ok", "done", "the counts start from zero", {"a": [1, None]})


def test_a_repetition_gets_the_answer_of_the_first_also_in_another_process(tmp_path: Path) -> None:
    first = DiskMemory(tmp_path, "b0")
    assert first.begin(KEY, "f") is None
    first.finish(KEY, DONE)
    assert first.begin(KEY, "f") == Remembered(DONE)
    # not closed, as after kill -9
    assert DiskMemory(tmp_path, "b0").begin(KEY, "f") == Remembered(DONE)
    assert DiskMemory(tmp_path, "b0").begin(("vision/v1/rsp/other", KEY[1]), "f") is None


def test_what_was_begun_when_the_process_was_killed_is_not_done_again(tmp_path: Path) -> None:
    assert DiskMemory(tmp_path, "b0").begin(KEY, "f") is None
    assert DiskMemory(tmp_path, "b0").begin(KEY, "f") == Remembered(None)


def test_another_request_with_the_same_correlation_is_refused_not_answered_wrongly(tmp_path: Path) -> None:
    disk = DiskMemory(tmp_path, "b0")
    disk.begin(KEY, "f")
    with pytest.raises(RefusedError) as caught:
        disk.begin(KEY, "g")
    assert caught.value.answer.code == "correlation_reused"


def test_it_is_forgotten_only_after_its_time_whatever_the_wall_clock_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = DiskMemory(tmp_path, "b0")
    disk.begin(KEY, "f")
    monkeypatch.setattr(clock, "now", lambda: datetime(2040, 1, 1, tzinfo=UTC))
    assert disk.begin(KEY, "f") == Remembered(None)
    then_s = time.monotonic() + KEPT_S + 1
    monkeypatch.setattr(time, "monotonic", lambda: then_s)
    assert disk.begin(KEY, "f") is None


def test_after_the_machine_was_started_again_the_wall_clock_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    DiskMemory(tmp_path, "b0").begin(KEY, "f")
    now = clock.now()
    monkeypatch.setattr(clock, "now", lambda: now + timedelta(seconds=KEPT_S - 10))
    assert DiskMemory(tmp_path, "b1").begin(KEY, "f") == Remembered(None)
    monkeypatch.setattr(clock, "now", lambda: now + timedelta(seconds=KEPT_S + 10))
    assert DiskMemory(tmp_path, "b1").begin(KEY, "f") is None


def test_it_is_bounded_and_rather_busy_than_forgetful(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "LIMIT", 3)
    disk = DiskMemory(tmp_path, "b0")
    for i in range(3):
        assert disk.begin(("r", bytes([i])), "f") is None
    with pytest.raises(RefusedError) as caught:
        disk.begin(("r", b"x"), "f")
    assert caught.value.answer.status == "busy"
    assert disk.begin(("r", b"\x00"), "f") == Remembered(None)


def test_a_damaged_file_is_set_aside(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / NAME).write_bytes(b"this is no database" * 1000)
    disk = DiskMemory(tmp_path, "b0")
    assert disk.begin(KEY, "f") is None
    assert disk.begin(KEY, "f") == Remembered(None)
    assert (tmp_path / f"{NAME}.corrupt").exists()
    assert "set aside" in caplog.text


def test_what_cannot_be_stored_is_not_carried_out_and_can_be_when_the_disk_is_back(tmp_path: Path) -> None:
    folder = tmp_path / "away"
    disk = DiskMemory(folder, "b0")
    with pytest.raises(RefusedError) as caught:
        disk.begin(KEY, "f")
    assert (caught.value.answer.status, caught.value.answer.code) == ("error", "not_stored")
    folder.mkdir()
    assert disk.begin(KEY, "f") is None


def test_each_request_is_on_disk_before_it_is_carried_out(tmp_path: Path) -> None:
    disk = DiskMemory(tmp_path, "b0")
    disk.begin(KEY, "f")
    assert disk._db is not None
    assert disk._db.execute("PRAGMA synchronous").fetchone() == (2,)
    assert not disk._db.in_transaction
    with sqlite3.connect(tmp_path / NAME) as other:
        assert other.execute("SELECT requester, correlation FROM command").fetchall() == [KEY]
    other.close()
    disk.close()
    disk.close()


def test_the_same_part_again_is_known_and_another_part_with_the_same_correlation_is_new(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parts = PartMemory()
    assert parts.begin(KEY, "A-1")
    assert not parts.begin(KEY, "A-1")
    assert parts.answer(KEY) is None
    parts.finish(KEY, DONE)
    assert parts.answer(KEY) == DONE
    assert parts.begin(KEY, "A-2")
    assert parts.begin(KEY, "A-1")
    then_s = time.monotonic() + memory.PARTS_KEPT_S + 1
    monkeypatch.setattr(time, "monotonic", lambda: then_s)
    # a part that is reworked comes again
    assert parts.begin(KEY, "A-1")


def test_parts_cost_a_bounded_memory() -> None:
    parts = PartMemory()
    for i in range(memory.PARTS_LIMIT * 2):
        parts.begin(("r", str(i).encode()), "f")
    assert len(parts._known) == memory.PARTS_LIMIT
