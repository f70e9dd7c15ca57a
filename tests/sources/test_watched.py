"""A watched folder: each picture once it is complete, none twice, none lost."""

from __future__ import annotations

import os
import shutil
import threading
import time
from pathlib import Path

import cv2
import numpy as np
import pytest

from edge_infer.errors import SourceError, SourceStalledError
from edge_infer.sources import _watched
from tests.support.watched_folder import (
    encoded,
    end_of_threads,
    level,
    name,
    nothing,
    read,
    settle,
    wait_for,
    watched,
)


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_watched, "CLOSED_S", 1.0)


# -- complete


def test_what_is_there_is_judged_in_natural_order_then_what_comes(tmp_path: Path) -> None:
    for number in (10, 2, 1):
        (tmp_path / f"part-{number}.png").write_bytes(encoded(number))
    (tmp_path / "notes.txt").write_text("no picture")
    (tmp_path / ".hidden.png").write_bytes(encoded(1))
    with watched(tmp_path) as source:
        assert [name(read(source)) for _ in range(3)] == ["part-1.png", "part-2.png", "part-10.png"]
        nothing(source, 0.3)
        (tmp_path / "a.png").write_bytes(encoded(40))
        frame = read(source)
    assert (name(frame), level(frame)) == ("a.png", 40)
    assert [one.part_id for one in frame.triggers] == ["a.png"]
    assert frame.triggers[0].time_s == frame.time_s


def test_a_new_picture_is_noticed_at_once(tmp_path: Path) -> None:
    with watched(tmp_path) as source:
        nothing(source, 0.1)
        for number in range(5):
            (tmp_path / f"{number}.tif").write_bytes(encoded(number, ".tif"))
            written_s = time.monotonic()
            assert name(read(source)) == f"{number}.tif"
            assert time.monotonic() - written_s < 0.4


@pytest.mark.parametrize("suffix", [".jpg", ".png", ".bmp", ".webp", ".tif", ".ppm"])
@pytest.mark.parametrize("pause", [0.1, 0.3])
def test_a_slow_writers_picture_is_never_judged_half(tmp_path: Path, suffix: str, pause: float) -> None:
    data = encoded(90, suffix)
    with watched(tmp_path, settle_s=0.8) as source, (tmp_path / f"slow{suffix}").open("wb") as file:
        for at in range(0, len(data), len(data) // 3):
            file.write(data[at : at + len(data) // 3])
            file.flush()
            if at + len(data) // 3 < len(data):
                nothing(source, pause)
        file.close()
        frame = read(source)
        assert frame.damaged is None
        assert frame.pixels.shape == (120, 160, 3)
        nothing(source, 0.1)


def test_a_writer_that_closes_and_goes_on_is_waited_for(tmp_path: Path) -> None:
    """rsync and FTP take up a transfer again."""
    data, path = encoded(90, ".jpg"), tmp_path / "a.jpg"
    with watched(tmp_path, settle_s=1.0) as source:
        path.touch()
        nothing(source, 0.2)
        path.write_bytes(data[:5000])
        nothing(source, 0.4)
        with path.open("ab") as file:
            file.write(data[5000:])
        assert read(source).damaged is None


def test_a_copy_that_reserves_its_room_first_is_waited_for(tmp_path: Path) -> None:
    data, path = encoded(90, ".jpg"), tmp_path / "a.jpg"
    with watched(tmp_path, settle_s=2.0) as source, path.open("wb") as file:
        file.truncate(len(data))
        nothing(source, 0.3)
        file.write(data)
        file.flush()
        assert read(source).damaged is None


def test_half_a_picture_that_nobody_goes_on_writing_is_answered_as_damaged(tmp_path: Path) -> None:
    (tmp_path / "half.jpg").write_bytes(encoded(90, ".jpg")[:5000])
    (tmp_path / "empty.png").touch()
    with watched(tmp_path) as source:
        started_s = time.monotonic()
        frames = sorted((read(source) for _ in range(2)), key=name)
        assert time.monotonic() - started_s > 0.3
    assert [name(one) for one in frames] == ["empty.png", "half.jpg"]
    assert all(one.damaged and not one.pixels.any() for one in frames)


def test_a_half_picture_does_not_hold_up_the_others(tmp_path: Path) -> None:
    (tmp_path / "1.jpg").write_bytes(encoded(90, ".jpg")[:5000])
    (tmp_path / "2.jpg").write_bytes(encoded(90, ".jpg"))
    with watched(tmp_path, settle_s=10.0) as source:
        assert name(read(source)) == "2.jpg"


def test_a_picture_that_is_renamed_in_is_whole_at_once(tmp_path: Path) -> None:
    with watched(tmp_path, settle_s=60.0) as source:
        (tmp_path / ".a.tif.part").write_bytes(encoded(50, ".tif"))
        nothing(source, 0.2)
        (tmp_path / ".a.tif.part").rename(tmp_path / "a.tif")
        assert name(read(source, 1.0)) == "a.tif"


def test_without_news_from_the_kernel_pictures_are_found_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As on network folders."""

    def refuse(_: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(_watched, "Closings", refuse)
    with watched(tmp_path) as source:
        nothing(source, 0.1)
        (tmp_path / "a.tif").write_bytes(encoded(50, ".tif"))
        assert name(read(source)) == "a.tif"
        data = encoded(60)
        with (tmp_path / "b.png").open("wb") as file:
            for at in range(0, len(data), len(data) // 4):
                file.write(data[at : at + len(data) // 4])
                file.flush()
                time.sleep(0.35)
        assert read(source).damaged is None
    assert "no inotify" in caplog.text


# -- once


def test_after_a_restart_only_what_has_no_stored_result_is_judged_again(tmp_path: Path) -> None:
    for number in range(5):
        (tmp_path / f"{number}.png").write_bytes(encoded(number))
    with watched(tmp_path) as source:
        frames = [read(source) for _ in range(4)]
        for frame in frames[:3]:
            settle(frame)
            settle(frame)
    end_of_threads()
    with watched(tmp_path) as source:
        assert [name(read(source)) for _ in range(2)] == ["3.png", "4.png"]
        nothing(source, 0.2)


def test_a_result_that_is_stored_after_the_close_still_counts(tmp_path: Path) -> None:
    for number in range(2):
        (tmp_path / f"{number}.png").write_bytes(encoded(number))
    with watched(tmp_path) as source:
        frame = read(source)
    settle(frame)
    end_of_threads()
    with watched(tmp_path) as source:
        assert name(read(source)) == "1.png"


def judge_one(folder: Path) -> str:
    with watched(folder) as source:
        frame = read(source)
        settle(frame)
    end_of_threads()
    return name(frame)


def test_a_journal_that_was_cut_off_loses_only_its_last_line(tmp_path: Path) -> None:
    for number in range(4):
        (tmp_path / f"{number}.png").write_bytes(encoded(number))
    assert judge_one(tmp_path) == "0.png"
    with (tmp_path / ".edge-infer-top.judged").open("a") as file:
        file.write('["1.png", 17')
    assert [judge_one(tmp_path) for _ in range(3)] == ["1.png", "2.png", "3.png"]


def test_a_picture_that_is_overwritten_is_another_one(tmp_path: Path) -> None:
    path = tmp_path / "latest.png"
    path.write_bytes(encoded(10))
    with watched(tmp_path) as source:
        for value in (20, 30):
            frame = read(source)
            path.write_bytes(encoded(value))
            nothing(source, 0.2)
            settle(frame)
        frame = read(source)
        assert level(frame) == 30
        settle(frame)
        nothing(source, 0.3)


def test_pictures_wait_in_the_folder_while_results_cannot_be_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_watched, "UNSETTLED", 3)
    for number in range(5):
        (tmp_path / f"{number}.png").write_bytes(encoded(number))
    with watched(tmp_path) as source:
        frames = [read(source) for _ in range(3)]
        with pytest.raises(SourceStalledError, match="wait for their results"):
            source.read(0.3)
        settle(frames[0])
        assert name(read(source)) == "3.png"


def test_a_burst_loses_nothing(tmp_path: Path) -> None:
    data = encoded(5)
    with watched(tmp_path) as source:
        writer = threading.Thread(
            target=lambda: [(tmp_path / f"{number}.png").write_bytes(data) for number in range(500)]
        )
        writer.start()
        seen = []
        for _ in range(500):
            frame = read(source)
            settle(frame)
            seen.append(name(frame))
        writer.join()
        nothing(source, 0.2)
    assert sorted(seen) == sorted(f"{number}.png" for number in range(500))


def test_ten_thousand_pictures_that_are_known_cost_little(tmp_path: Path) -> None:
    data = cv2.imencode(".png", np.zeros((4, 4), np.uint8))[1].tobytes()
    for number in range(10_000):
        (tmp_path / f"{number}.png").write_bytes(data)
    with (tmp_path / ".edge-infer-top.judged").open("w") as journal:
        for number in range(9_990):
            status = (tmp_path / f"{number}.png").stat()
            journal.write(f'["{number}.png", {status.st_mtime_ns}, {status.st_size}]\n')
    with watched(tmp_path) as source:
        assert [name(read(source)) for _ in range(10)] == [f"{number}.png" for number in range(9_990, 10_000)]
        used_s = time.process_time()
        nothing(source, 3.0)
        assert time.process_time() - used_s < 0.6


# -- moved


def test_judged_pictures_are_moved_once_their_result_is_stored(tmp_path: Path) -> None:
    folder, done, failed = tmp_path / "in", tmp_path / "done", tmp_path / "in" / "failed"
    folder.mkdir()
    (folder / "1.png").write_bytes(encoded(1))
    (folder / "2.jpg").write_bytes(b"\xff\xd8\xff half")
    with watched(folder, done=done, failed=failed) as source:
        first = read(source)
        assert (folder / "1.png").exists()
        settle(first)
        wait_for(done / "1.png")
        assert (done / "1.png").read_bytes() == encoded(1)
        settle(read(source))
        wait_for(failed / "2.jpg")
        # the same name again is another picture, and no picture is lost for it
        (folder / "1.png").write_bytes(encoded(7))
        settle(read(source))
        wait_for(done / "1-2.png")
    assert (done / "1.png").read_bytes() == encoded(1)
    assert [one.name for one in folder.iterdir()] == ["failed"]


def test_a_picture_that_was_overwritten_meanwhile_is_not_moved_away(tmp_path: Path) -> None:
    folder, done = tmp_path / "in", tmp_path / "done"
    folder.mkdir()
    (folder / "1.png").write_bytes(encoded(1))
    with watched(folder, done=done) as source:
        frame = read(source)
        (folder / "1.png").write_bytes(encoded(9))
        settle(frame)
        again = read(source)
        assert level(again) == 9
        settle(again)
        wait_for(done / "1.png")
    assert (done / "1.png").read_bytes() == encoded(9)


def test_a_picture_that_cannot_be_moved_is_remembered(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder, done = tmp_path / "in", tmp_path / "done"
    folder.mkdir()
    (folder / "1.png").write_bytes(encoded(1))
    with watched(folder, done=done) as source:
        frame = read(source)
        done.rmdir()
        settle(frame)
        wait_for(folder / ".edge-infer-top.judged")
    end_of_threads()
    assert "cannot move" in caplog.text
    with watched(folder, done=done) as source:
        nothing(source, 0.3)


def test_links_are_not_followed(tmp_path: Path) -> None:
    folder, outside = tmp_path / "in", tmp_path / "outside.png"
    folder.mkdir()
    outside.write_bytes(encoded(1))
    (folder / "link.png").symlink_to(outside)
    (tmp_path / "moved").symlink_to(outside)
    os.mkfifo(folder / "pipe.png")
    (folder / "folder.png").mkdir()
    with watched(folder, done=tmp_path / "done") as source:
        (tmp_path / "moved").rename(folder / "moved.png")
        nothing(source, 1.2)
    assert outside.exists()


def test_a_folder_on_another_file_system_is_refused_as_a_place_to_move_to(tmp_path: Path) -> None:
    other = Path(f"/dev/shm/edge-infer-{os.getpid()}")
    try:
        with pytest.raises(SourceError, match="lies on another file system"), watched(tmp_path, done=other):
            pass
    finally:
        shutil.rmtree(other, ignore_errors=True)
