from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from edge_infer.evidence.folder import Day, Folder, day_of, name_of, taken_s
from tests.support.evidence import lay, pictures
from tests.support.filesystems import ext4
from tests.support.results import result


def test_a_picture_is_where_its_uri_says_and_only_its_group_may_read_it(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "evidence")
    folder.prepare()
    one = result("cap", created=datetime(2026, 11, 30, 23, 59, tzinfo=UTC))
    umask = os.umask(0)
    try:
        folder.write(day_of(one), name_of(one, "raw"), b"picture")
    finally:
        os.umask(umask)
    path = tmp_path / f"evidence/cap/2026-11-30/{one.result_id}-raw.jpg"
    assert folder.uri(day_of(one), name_of(one, "raw")) == path.as_uri()
    assert path.read_bytes() == b"picture"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert not stat.S_IMODE(path.parent.stat().st_mode) & 0o007
    assert not list((tmp_path / "evidence/.partial").iterdir())


def test_nothing_is_ever_written_over(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.prepare()
    old = lay(tmp_path, timedelta())
    day = Day(old.parent.name, "cap")
    with pytest.raises(FileExistsError):
        folder.write(day, old.name, b"new")
    assert old.read_bytes() == b"x" * 5000
    assert not list((tmp_path / ".partial").iterdir())


def test_a_name_tells_when_it_was_taken() -> None:
    taken = datetime(2026, 2, 3, 4, 5, 6, 789000, tzinfo=UTC)
    assert taken_s(name_of(result(created=taken), "drawn")) == taken.timestamp()


def test_links_are_not_followed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    real = lay(elsewhere, timedelta())
    store = tmp_path / "evidence"
    store.mkdir()
    (store / "cap").symlink_to(elsewhere / "cap")
    there = store / "seal" / real.parent.name
    there.mkdir(parents=True)
    (there / real.name).symlink_to(real)
    folder = Folder(store)
    folder.prepare()
    assert folder.days() == [Day(real.parent.name, "seal")]
    assert not list(folder.names(Day(real.parent.name, "seal")))
    assert not list(folder.names(Day(real.parent.name, "cap")))
    with pytest.raises(OSError, match="Not a directory"):
        folder.write(Day(real.parent.name, "cap"), name_of(result(), "raw"), b"x")
    assert len(pictures(elsewhere)) == 1


def test_the_folder_itself_may_be_a_link_to_another_disk(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "evidence").symlink_to(tmp_path / "disk")
    folder = Folder(tmp_path / "evidence")
    folder.prepare()
    folder.write(Day("2026-11-30", "cap"), name_of(result(), "raw"), b"x")
    assert len(pictures(tmp_path / "disk")) == 1


def test_what_a_crash_left_half_written_is_deleted_and_nothing_else(tmp_path: Path) -> None:
    partial = tmp_path / ".partial"
    partial.mkdir()
    half = partial / name_of(result(), "raw")
    half.write_bytes(b"half")
    (partial / "trial").write_bytes(b"half")
    (partial / "note.txt").write_text("whose?")
    whole = lay(tmp_path, timedelta())
    Folder(tmp_path).prepare()
    assert [path.name for path in partial.iterdir()] == ["note.txt"]
    assert whole.exists()


def test_a_power_cut_leaves_whole_pictures_only(tmp_path: Path) -> None:
    disk = ext4(tmp_path / "disk", "32M")
    try:
        folder = Folder(disk.path / "evidence")
        folder.prepare()
        written = [result() for _ in range(5)]
        for one in written:
            folder.write(day_of(one), name_of(one, "raw"), os.urandom(200_000))
            folder.settle(day_of(one))
        # on its way: written, not on disk
        (disk.path / "evidence/.partial" / name_of(result(), "raw")).write_bytes(os.urandom(300_000))
        disk.cut()
        disk.power_on()
        found = pictures(disk.path / "evidence")
        assert [path.name for path in found] == sorted(name_of(one, "raw") for one in written)
        assert {path.stat().st_size for path in found} == {200_000}
        folder.prepare()
        assert not list((disk.path / "evidence/.partial").iterdir())
    finally:
        disk.close()


def test_a_kill_in_the_middle_of_a_write_leaves_nothing_under_the_final_name(tmp_path: Path) -> None:
    # at the third picture, when its bytes are written and not yet on disk
    code = """
import os, signal, sys
from datetime import UTC, datetime
from pathlib import Path
from edge_infer.evidence.folder import Day, Folder
from edge_infer.result import new_result_id
real, left = os.fdatasync, [2]
def sync(file):
    if not left[0]:
        os.kill(os.getpid(), signal.SIGKILL)
    left[0] -= 1
    real(file)
os.fdatasync = sync
folder = Folder(Path(sys.argv[1]))
folder.prepare()
for _ in range(9):
    folder.write(Day("2026-11-30", "cap"), f"{new_result_id()}-raw.jpg", bytes(300_000))
"""
    killed = subprocess.run([sys.executable, "-c", code, str(tmp_path)], timeout=30, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert [path.stat().st_size for path in pictures(tmp_path)] == [300_000] * 2
    assert len(list((tmp_path / ".partial").iterdir())) == 1
    Folder(tmp_path).prepare()
    assert not list((tmp_path / ".partial").iterdir())
