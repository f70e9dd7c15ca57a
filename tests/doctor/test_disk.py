"""Real file systems that are full, out of files, read-only."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from edge_infer.doctor import disk
from edge_infer.doctor.finding import Finding
from tests.support.filesystems import SmallDisk
from tests.support.patients import root, subject, told
from tests.support.runs import site


def look(folder: Path, state: Path, **more: Any) -> dict[str, Finding]:
    folder.mkdir(exist_ok=True)
    config = site(folder / "site", None, state_dir=str(state), **more)
    patient = subject(root(folder / "root"), config, CACHE_DIRECTORY=str(state))
    # what is mounted is really mounted
    (folder / "root/proc/self").mkdir()
    (folder / "root/proc/self/mountinfo").symlink_to("/proc/self/mountinfo")
    return told(disk.check, patient)


def test_one_in_memory_is_warned_of(tmp_path: Path, small_disk: SmallDisk) -> None:
    found = look(tmp_path, small_disk("64m").path, outbox={"max_bytes": "10MB"})["disk.state"]
    assert found.status == "warn"
    assert "is memory (tmpfs)" in found.found


def test_a_full_one_fails_with_the_command_that_finds_what_fills_it(
    tmp_path: Path, small_disk: SmallDisk
) -> None:
    full = small_disk("ext4")
    full.fill(leave=1_000_000)
    found = look(tmp_path, full.path)["disk.state"]
    assert found.status == "fail"
    assert "1 MB free" in found.found or "0 MB free" in found.found
    assert f"du -xh --max-depth=2 {full.path}" in found.mend


def test_room_is_measured_beside_the_budget_that_is_not_used_yet(
    tmp_path: Path, small_disk: SmallDisk
) -> None:
    small = small_disk("ext4")
    enough = look(tmp_path / "a", small.path, outbox={"max_bytes": "10MB"})
    assert enough["disk.state"].status == "ok"
    assert "ext4" in enough["disk.state"].found
    short = look(tmp_path / "b", small.path, outbox={"max_bytes": "50MB"})
    assert short["disk.state"].status == "warn"
    assert "outbox.max_bytes" in short["disk.state"].found


def test_one_without_files_left_fails(tmp_path: Path, small_disk: SmallDisk) -> None:
    few = small_disk("64m,nr_inodes=20")
    few.use_up_inodes()
    found = [
        one
        for one in disk.check(
            subject(root(tmp_path / "root"), site(tmp_path / "site", None, state_dir=str(few.path))), 0
        )
        if one.check == "disk.state" and one.status == "fail"
    ]
    few.free_inodes()
    assert ["0 more files" in one.found for one in found] == [True]
    assert found[0].mend.startswith("df -i")


def test_one_that_became_read_only_fails(tmp_path: Path, small_disk: SmallDisk) -> None:
    damaged = small_disk("ext4")
    damaged.read_only()
    found = look(tmp_path, damaged.path, outbox={"max_bytes": "1MB"})["disk.state"]
    assert found.status == "fail"
    assert "read-only (ext4" in found.found
    assert "remount,rw" in found.mend


def test_pictures_need_what_they_must_leave_free(tmp_path: Path, small_disk: SmallDisk) -> None:
    found = look(tmp_path, small_disk("ext4").path, evidence={"min_free_bytes": "1GB"})["disk.evidence"]
    assert found.status == "fail"
    assert "evidence.min_free_bytes wants 1000 MB" in found.found


def test_a_state_folder_on_a_network_fails(tmp_path: Path) -> None:
    state = tmp_path / "share"
    state.mkdir()
    line = f"36 35 0:50 / {state} rw,relatime shared:1 - nfs4 10.0.0.4:/export rw,vers=4.2"
    folder = root(tmp_path / "root", **{"proc/self/mountinfo": line})
    found = told(disk.check, subject(folder, site(tmp_path / "site", None, state_dir=str(state))))[
        "disk.state"
    ]
    assert found.status == "fail"
    assert "nfs4" in found.found


def test_nothing_is_made_or_changed_where_it_looks(tmp_path: Path) -> None:
    config = site(tmp_path / "site", None, state_dir=str(tmp_path / "not-yet"))
    before = subprocess.run(["find", str(tmp_path)], capture_output=True, text=True, check=True).stdout
    folder = root(tmp_path / "root")
    found = told(disk.check, subject(folder, config, CACHE_DIRECTORY=str(tmp_path / "nor-this")))
    after = subprocess.run(
        ["find", str(tmp_path), "-not", "-path", f"{folder}*"], capture_output=True, text=True, check=True
    ).stdout
    assert after == before
    assert "is made at the start" in found["disk.state"].found
