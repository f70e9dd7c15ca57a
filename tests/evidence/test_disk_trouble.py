"""Real small file systems: full, read-only, frozen, without inodes, not ours."""

from __future__ import annotations

import errno
import os
import time
from datetime import timedelta
from pathlib import Path

import pytest

from edge_infer.evidence import writer
from tests.support.evidence import Store, lay, pictures, scene, until
from tests.support.filesystems import SmallDisk
from tests.support.results import result

MB = 1_000_000


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "RETRY_S", 0.1)
    monkeypatch.setattr(writer, "HANG_S", 0.3)


def test_e15_on_a_full_disk_pictures_are_dropped_results_go_on_and_one_alarm_says_so(
    small_disk: SmallDisk, caplog: pytest.LogCaptureFixture
) -> None:
    small = small_disk("10m")
    store = Store(small.path / "evidence", max_bytes=100 * MB, min_free_bytes=2 * MB)
    store.offer(3)
    until(lambda: store.evidence.stored == 3)
    small.fill()
    records = store.offer(30)
    assert len(records) == 30
    until(lambda: store.told("evidence_stopped"))
    # no record names a picture any more, and every one that did is told
    (later,) = store.offer()
    assert later.image is None
    lost = {data["resultId"] for data in store.told("evidence_lost")}
    assert lost == {one.result_id for one in records if one.image}
    time.sleep(0.5)  # it is tried again some times, and nothing has changed
    assert len(store.told("evidence_stopped")) == 1
    assert sum("no pictures are stored" in line for line in caplog.messages) == 1
    small.make_room()
    until(lambda: store.told("evidence_resumed"))
    (after,) = store.offer()
    assert after.image is not None
    until(lambda: store.evidence.stored >= 4)
    store.close()


def test_e15_the_floor_holds_while_pictures_come_and_somebody_else_fills_the_disk(
    small_disk: SmallDisk,
) -> None:
    small = small_disk("10m")
    floor = 3 * MB
    store = Store(small.path / "evidence", max_bytes=100 * MB, min_free_bytes=floor)
    for _ in range(40):
        store.offer()
        assert small.free >= floor
    until(lambda: store.evidence.stored == 40)
    kept = pictures(small.path / "evidence")
    assert len(kept) > 20
    small.fill(leave=4 * MB)
    store.offer(40)
    until(lambda: store.evidence.stored + store.evidence.dropped == 80)
    assert small.free >= floor
    assert not store.told("evidence_stopped")
    store.close()


def test_a_read_only_disk_is_survived_and_used_again_by_itself(small_disk: SmallDisk) -> None:
    small = small_disk("ext4")
    store = Store(small.path / "evidence")
    store.offer(2)
    until(lambda: store.evidence.stored == 2)
    small.read_only()
    store.offer(10)
    until(lambda: store.told("evidence_stopped"))
    assert "Read-only" in store.told("evidence_stopped")[0]["why"]
    assert store.offer()[0].image is None
    small.writable()
    until(lambda: store.told("evidence_resumed"))
    store.offer()
    until(lambda: store.evidence.stored == 3)
    store.close()


def test_a_folder_that_may_not_be_written_is_told_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "evidence").write_text("a file where a folder should be")
    store = Store(tmp_path / "evidence")
    until(lambda: store.told("evidence_stopped"))
    assert store.offer()[0].image is None
    (tmp_path / "evidence").unlink()
    until(lambda: store.told("evidence_resumed"))
    store.offer()
    until(lambda: store.evidence.stored == 1)
    store.close()


def test_a_disk_that_hangs_delays_no_record_and_is_told(small_disk: SmallDisk, hold_s: float) -> None:
    frozen = small_disk("ext4")
    store = Store(frozen.path / "evidence")
    store.offer(2)
    until(lambda: store.evidence.stored + store.evidence.dropped == 2)
    frozen.freeze()
    handed_s, recorded_s = [], []
    until_s = time.monotonic() + 1.0
    sent = 0
    seen = scene()
    while time.monotonic() < until_s:
        before_s = time.monotonic()
        store.evidence.offer(result(decision="NOK"), seen)
        handed_s.append(time.monotonic() - before_s)
        sent += 1
        store.wait(2 + sent)
        recorded_s.append(time.monotonic() - before_s)
    # the disk answers after a second; this machine is busy with other things too
    assert sorted(handed_s)[sent // 2] < 0.005
    assert max(handed_s) < 0.7
    assert max(recorded_s) < hold_s + 0.7
    until(lambda: store.told("evidence_stopped"))
    assert "does not take them" in store.told("evidence_stopped")[0]["why"]
    named = [one for one in store.records if one.image]
    assert 0 < len(named) < 2 + sent
    frozen.thaw()
    # what was named before anybody could know is stored after all
    until(lambda: store.evidence.stored == len(named))
    until(lambda: store.told("evidence_resumed"))
    assert not store.told("evidence_lost")
    store.close()


def test_a_stop_with_a_disk_that_hangs_is_in_time_and_says_what_is_lost(small_disk: SmallDisk) -> None:
    frozen = small_disk("ext4")
    store = Store(frozen.path / "evidence")
    store.offer()
    until(lambda: store.evidence.stored == 1)
    frozen.freeze()
    named = [one for one in store.offer(5) if one.image]
    assert named
    before_s = time.monotonic()
    store.close(0.4)
    assert time.monotonic() - before_s < 2
    assert {data["resultId"] for data in store.told("evidence_lost")} == {one.result_id for one in named}
    frozen.thaw()


def test_more_pictures_than_fit_the_disk_for_long_and_nothing_but_the_oldest_is_gone(
    small_disk: SmallDisk,
) -> None:
    small = small_disk("10m")
    old = [lay(small.path / "evidence", timedelta(days=1), size=1 * MB) for _ in range(3)]
    store = Store(small.path / "evidence", max_bytes=2 * MB)
    store.offer(20)
    until(lambda: store.evidence.stored == 20)
    assert not any(path.exists() for path in old)
    total = sum(path.stat().st_size for path in pictures(small.path / "evidence"))
    assert 1 * MB < total <= 2 * MB
    newest = store.records[-1].image
    assert newest is not None
    assert any(path.as_uri() == newest.uri for path in pictures(small.path / "evidence"))
    store.close()


def test_a_disk_that_fails_in_the_middle_costs_that_picture_and_its_result_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = os.fdatasync, 0

    def broken(file: int) -> None:
        nonlocal calls
        calls += 1
        if calls == 4:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real(file)

    monkeypatch.setattr(os, "fdatasync", broken)
    store = Store(tmp_path / "evidence")
    first, second = store.offer(2)
    until(lambda: store.told("evidence_resumed"))
    (third,) = store.offer()
    until(lambda: store.evidence.stored == 2)
    (lost,) = store.told("evidence_lost")
    assert lost == {"resultId": second.result_id, "pictures": ["drawn"], "why": "Input/output error"}
    assert [path.name for path in pictures(tmp_path / "evidence")] == sorted(
        [f"{one.result_id}-{kind}.jpg" for one in (first, third) for kind in ("raw", "drawn")]
        + [f"{second.result_id}-raw.jpg"]
    )
    store.close()


def test_the_first_picture_after_a_start_finds_room_by_the_oldest_of_earlier_runs(
    small_disk: SmallDisk,
) -> None:
    small = small_disk("10m")
    old = [lay(small.path / "evidence", timedelta(days=2 + age), size=1 * MB) for age in range(4)]
    small.fill(leave=1 * MB)
    store = Store(small.path / "evidence", max_bytes=100 * MB, min_free_bytes=1 * MB)
    store.offer()
    until(lambda: store.evidence.stored == 1)
    assert not store.told("evidence_stopped")
    assert [path.exists() for path in old] == [True, True, True, False]
    store.close()
