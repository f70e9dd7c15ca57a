from __future__ import annotations

import os
import time
import tracemalloc
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from edge_infer.evidence.budget import Budget, NoRoomError
from edge_infer.evidence.folder import Day, Folder, day_of, name_of
from edge_infer.evidence.settings import EvidenceSettings
from tests.support.evidence import DAY, lay, pictures
from tests.support.filesystems import FileSystem, tmpfs
from tests.support.results import result

MB = 1_000_000


def counted(folder: Path, **settings: float) -> Budget:
    """A budget that knows what is there."""
    store = Folder(folder)
    store.prepare()
    defaults = {"min_free_bytes": 0}
    budget = Budget(store, EvidenceSettings.model_validate(defaults | settings), lambda: None)
    budget.start_count()
    while budget.count():
        pass
    return budget


def write(folder: Path, budget: Budget, size: int = 5000) -> None:
    one = result()
    budget.make_room([size])
    Folder(folder).write(day_of(one), name_of(one, "raw"), bytes(size))
    budget.stored(day_of(one), size)


def test_the_oldest_go_first_over_what_was_there_at_the_start(tmp_path: Path) -> None:
    old = [
        lay(tmp_path, DAY * age - timedelta(seconds=later), station=station)
        for age in (9, 5, 1)
        for later, station in enumerate(("seal", "cap"))
    ]
    budget = counted(tmp_path, max_bytes=6 * 8192)
    for gone in range(1, 4):
        write(tmp_path, budget)
        assert [path.exists() for path in old] == [False] * gone + [True] * (6 - gone)
        assert budget.total <= 6 * 8192
    assert len(pictures(tmp_path)) == 6
    # a day without pictures leaves no folder behind
    assert {path.parent.name for path in pictures(tmp_path)} == {
        path.name for path in tmp_path.glob("*/????-??-??")
    }


def test_within_one_day_the_oldest_go_first_too(tmp_path: Path) -> None:
    today = [lay(tmp_path, timedelta(milliseconds=100 * (10 - number))) for number in range(10)]
    budget = counted(tmp_path, max_bytes=10 * 8192)
    write(tmp_path, budget)
    write(tmp_path, budget)
    assert [path.exists() for path in today] == [False] * 2 + [True] * 8


def test_too_old_pictures_are_deleted_to_the_second(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    old = [lay(tmp_path, DAY * 40), lay(tmp_path, DAY * 30 + timedelta(seconds=60))]
    young = [lay(tmp_path, DAY * 30 - timedelta(seconds=60)), lay(tmp_path, timedelta())]
    budget = counted(tmp_path, max_age_days=30)
    while budget.delete_old(now.timestamp()):
        pass
    assert not any(path.exists() for path in old)
    assert all(path.exists() for path in young)


def test_what_is_no_picture_of_ours_is_neither_counted_nor_deleted(tmp_path: Path) -> None:
    mine = lay(tmp_path, DAY * 40)
    foreign = [
        mine.with_name("photo.jpg"),
        mine.with_name(mine.name.replace("-raw", "-copy")),
        mine.with_suffix(".png"),
        tmp_path / "note.txt",
        tmp_path / "cap" / "note.txt",
        tmp_path / "my pictures" / "a.jpg",
    ]
    for path in foreign:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"x" * 100_000)
    link = mine.with_name(name_of(result(), "raw"))
    link.symlink_to(foreign[0])
    budget = counted(tmp_path, max_bytes=8192, max_age_days=1)
    assert budget.total == 8192
    while budget.delete_old(datetime.now(UTC).timestamp()):
        pass
    write(tmp_path, budget)
    assert not mine.exists()
    assert all(path.exists() for path in foreign)
    assert link.is_symlink()


def test_the_free_space_floor_is_never_crossed_and_old_pictures_make_way_for_it(tmp_path: Path) -> None:
    disk = tmpfs(tmp_path / "disk", "10m")
    try:
        floor = 4 * MB
        budget = counted(disk.path, max_bytes=50 * MB, min_free_bytes=floor)
        for _ in range(60):
            write(disk.path, budget, 200_000)
            assert disk.free >= floor
        kept = len(pictures(disk.path))
        assert kept > 20
        # somebody else takes a part: our oldest make way
        (disk.path / "filler").write_bytes(bytes(2 * MB))
        write(disk.path, budget, 200_000)
        assert disk.free >= floor
        assert 0 < len(pictures(disk.path)) < kept
    finally:
        disk.close()


def test_where_deleting_all_would_not_do_nothing_is_deleted(tmp_path: Path) -> None:
    disk = tmpfs(tmp_path / "disk", "10m")
    try:
        budget = counted(disk.path, max_bytes=50 * MB, min_free_bytes=6 * MB)
        for _ in range(5):
            write(disk.path, budget, 200_000)
        disk.fill(leave=100_000)
        with pytest.raises(NoRoomError, match="min_free_bytes"):
            budget.make_room([200_000])
        assert len(pictures(disk.path)) == 5
    finally:
        disk.close()


def test_a_disk_that_runs_out_of_files_is_full_too(tmp_path: Path) -> None:
    disk = tmpfs(tmp_path / "disk", "10m", "nr_inodes=520")
    try:
        budget = counted(disk.path)
        for _ in range(30):
            write(disk.path, budget, 100)
        # the oldest made way
        assert 5 < len(pictures(disk.path)) < 20
        with pytest.raises(NoRoomError, match="files free"):
            budget.make_room([100] * 30)
        assert _free_files(disk) >= 500
    finally:
        disk.close()


def _free_files(disk: FileSystem) -> int:
    return os.statvfs(disk.path).f_favail


def test_a_picture_larger_than_all_is_refused_and_nothing_deleted_for_it(tmp_path: Path) -> None:
    old = lay(tmp_path, DAY)
    budget = counted(tmp_path, max_bytes=50_000)
    with pytest.raises(NoRoomError, match="max_bytes"):
        budget.make_room([60_000])
    assert old.exists()


def test_pictures_that_somebody_removed_are_not_counted_for_ever(tmp_path: Path) -> None:
    old = [lay(tmp_path, DAY * age) for age in (3, 2, 1)]
    budget = counted(tmp_path, max_bytes=3 * 8192)
    old[1].unlink()
    old[1].parent.rmdir()
    budget.start_count()
    while budget.count():
        pass
    assert budget.total == 2 * 8192
    write(tmp_path, budget)
    assert old[0].exists()


def test_a_picture_written_while_others_are_counted_is_counted_once(tmp_path: Path) -> None:
    for age in (2, 1, 0):
        lay(tmp_path, DAY * age)
    store = Folder(tmp_path)
    store.prepare()
    budget = Budget(store, EvidenceSettings(min_free_bytes=0), lambda: None)
    budget.start_count()
    budget.count()
    write(tmp_path, budget)
    while budget.count():
        pass
    assert budget.total == 4 * 8192


def test_many_pictures_need_little_memory_and_are_counted_with_pauses(tmp_path: Path) -> None:
    day = tmp_path / "cap/2026-11-01"
    day.mkdir(parents=True)
    for number in range(10_000):
        (day / f"01a2a3a4-{number >> 12:04x}-7{number & 0xFFF:03x}-8000-000000000000-raw.jpg").touch()
    pauses = 0

    def pause() -> None:
        nonlocal pauses
        pauses += 1

    budget = Budget(Folder(tmp_path), EvidenceSettings(min_free_bytes=0, max_age_days=1), pause)
    tracemalloc.start()
    budget.start_count()
    while budget.count():
        pass
    assert pauses >= 50
    deleted = 0
    while deleted < 3000 and budget.delete_old(time.time() + 86_400 * 3650):
        deleted += 1
    assert tracemalloc.get_traced_memory()[1] < 2 * MB
    tracemalloc.stop()
    # the oldest ones
    left = sorted(path.name for path in day.iterdir())
    assert len(left) == 7_000
    assert left[0].startswith("01a2a3a4-0000-7bb8")
    assert Day("2026-11-01", "cap") in Folder(tmp_path).days()
