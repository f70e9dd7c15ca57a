"""A watched folder that is not there, is no folder, goes away or does not answer."""

from __future__ import annotations

import re
import threading
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from edge_infer.errors import SourceError
from edge_infer.sources import _watched
from edge_infer.sources.files import Files
from tests.support.filesystems import ext4
from tests.support.watched_folder import (
    encoded,
    end_of_threads,
    lost,
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


# -- trouble


def test_a_folder_that_vanishes_is_a_lost_camera_and_opens_again(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "1.png").write_bytes(encoded(1))
    with watched(folder) as source:
        frame = read(source)
        folder.rename(tmp_path / "away")
        # as long as its result is not stored nothing is lost
        nothing(source, 1.5)
        settle(frame)
        assert "is gone" in lost(source)
    with pytest.raises(SourceError, match="is not there; make the folder"), watched(folder):
        pass
    (tmp_path / "away").rename(folder)
    (folder / "2.png").write_bytes(encoded(2))
    with watched(folder) as source:
        assert {name(read(source)) for _ in range(2)} == {"1.png", "2.png"}


def test_a_path_that_is_no_folder_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(encoded(1))
    with pytest.raises(SourceError, match=r"a\.png is not a folder"), watched(tmp_path / "a.png"):
        pass


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"watch": True, "loop": True}, "has no loop and no realtime"),
        ({"done": Path("/x/done")}, "is for a watched folder"),
        ({"settle_s": 1.0}, "is for a watched folder"),
        ({"watch": True, "failed": Path("/x")}, "is the watched folder itself"),
    ],
)
def test_keys_that_do_not_belong_together_are_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ValidationError, match=text):
        Files(type="files", path=Path("/x"), **options)


# -- a folder that hangs: a frozen file system answers no change, as a network folder without its server


def watchers() -> int:
    """Threads that watch, or are held in the kernel."""
    return sum(one.name == "watch-top" for one in threading.enumerate())


def test_a_folder_that_does_not_answer_keeps_one_thread_however_often_it_is_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    end_of_threads()
    monkeypatch.setattr(_watched, "OPEN_S", 0.2)
    (tmp_path / "disk").mkdir()
    with ext4(tmp_path / "disk") as disk:
        disk.freeze()
        try:
            for _ in range(3):
                with (
                    pytest.raises(SourceError, match=r"did not answer within 0\.2 s"),
                    watched(disk.path, done=disk.path / "done"),
                ):
                    raise AssertionError("opened")
            assert watchers() == 1
        finally:
            disk.thaw()
        end_of_threads()
        monkeypatch.setattr(_watched, "OPEN_S", 5.0)
        with watched(disk.path, done=disk.path / "done") as source:
            (disk.path / "1.png").write_bytes(encoded(1))
            assert name(read(source)) == "1.png"
        end_of_threads()


def test_a_folder_that_hangs_after_it_was_opened_is_a_lost_camera_and_keeps_one_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    end_of_threads()
    monkeypatch.setattr(_watched, "OPEN_S", 0.2)
    monkeypatch.setattr(_watched, "HANG_S", 0.5)
    (tmp_path / "disk").mkdir()
    with ext4(tmp_path / "disk") as disk:
        (disk.path / "1.png").write_bytes(encoded(1))
        with watched(disk.path, done=disk.path / "done") as source:
            frame = read(source)
            disk.freeze()
            try:
                # to move it is a change
                settle(frame)
                assert re.search(r"has not answered for [0-9.]+ s", lost(source))
                source.close()
                with (
                    pytest.raises(SourceError, match="did not answer"),
                    watched(disk.path, done=disk.path / "done"),
                ):
                    raise AssertionError("opened")
                assert watchers() == 1
            finally:
                disk.thaw()
        wait_for(disk.path / "done" / "1.png")
        end_of_threads()
