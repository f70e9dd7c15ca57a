"""Cameras are opened for one frame, unless somebody judges with them."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edge_infer.doctor import cameras
from tests.support.patients import booted, root, runtime, subject, told
from tests.support.runs import Run, site

STATION = {"model": "m", "rules": [{"name": "r", "count": {"labels": ["bottle"], "at_most": 0}}]}


def with_cameras(folder: Path, **given: dict[str, Any]) -> Path:
    stations = {name: {"camera": name, **STATION} for name in given}
    return site(folder, None, cameras=given, stations=stations)


@pytest.fixture
def silent_port() -> Iterator[int]:
    """Takes connections and says nothing."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen(8)
        yield sock.getsockname()[1]


def test_each_is_told_by_itself_with_what_mends_it(tmp_path: Path) -> None:
    config = with_cameras(
        tmp_path / "site",
        good={"type": "synthetic"},
        usb={"type": "v4l2", "path": "/dev/video97"},
        net={"type": "rtsp", "url": "rtsp://127.0.0.1:9/s"},
    )
    found = told(cameras.check, subject(root(tmp_path / "root"), config))
    assert found["cameras.good"].status == "ok"
    assert found["cameras.good"].found.startswith("640x480 after")
    assert found["cameras.usb"].status == found["cameras.net"].status == "fail"
    assert "there is no /dev/video97" in found["cameras.usb"].found
    assert "cameras on this machine" in found["cameras.usb"].mend
    assert found["cameras.net"].mend


def test_one_that_hangs_is_given_up_and_the_others_are_told(tmp_path: Path, silent_port: int) -> None:
    slow = {"type": "rtsp", "url": f"rtsp://127.0.0.1:{silent_port}/s", "open_timeout_s": 60}
    config = with_cameras(tmp_path / "site", good={"type": "synthetic"}, slow=slow)
    began_s = time.monotonic()
    found = told(cameras.check, subject(root(tmp_path / "root"), config), limit_s=6)
    assert time.monotonic() - began_s < 9
    assert found["cameras.good"].status == "ok"
    assert found["cameras.slow"].status == "fail"
    assert "hangs" in found["cameras.slow"].found


def test_a_library_that_crashes_ends_its_own_process_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"
    monkeypatch.setenv("PYTHONPATH", str(runtime(tmp_path / "path", "av", code)))
    config = with_cameras(tmp_path / "site", net={"type": "rtsp", "url": "rtsp://127.0.0.1:9/s"})
    found = told(cameras.check, subject(root(tmp_path / "root"), config))["cameras.net"]
    assert found.status == "fail"
    assert "was ended by SIGSEGV" in found.found


def test_pictures_that_wait_in_a_watched_folder_stay_there(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "part-7.png").write_bytes(b"not judged yet")
    config = with_cameras(tmp_path / "site", box={"type": "files", "path": str(folder), "watch": True})
    found = told(cameras.check, subject(root(tmp_path / "root"), config))
    assert found["cameras.box"].status == "ok"
    assert [one.name for one in tmp_path.joinpath("in").rglob("*") if one.is_file()] == ["part-7.png"]


def test_a_camera_that_the_service_holds_is_not_opened_but_asked_for(tmp_path: Path, run: Run) -> None:
    config = with_cameras(tmp_path / "site", scene={"type": "synthetic", "fps": 5})
    running = run(config)
    sock = tmp_path / "site/state/ctl.sock"
    while not sock.exists():
        assert running.process.poll() is None, running.log
        time.sleep(0.05)
    began_s = time.monotonic()
    found = told(cameras.check, subject(root(tmp_path / "root"), config))
    while "connected" not in found["cameras.scene"].found:
        assert time.monotonic() - began_s < 20, found
        found = told(cameras.check, subject(root(tmp_path / "root"), config))
    assert found["cameras.scene"].found.startswith("held by the running service: connected")
    assert found["cameras.scene"].status == "ok"


def test_where_the_service_may_not_be_asked_its_cameras_are_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = with_cameras(tmp_path / "site", scene={"type": "synthetic"})
    folder = root(tmp_path / "root")
    monkeypatch.setenv("PATH", str(booted(folder, config)), prepend=":")
    (found,) = told(cameras.check, subject(folder, config)).values()
    assert found.status == "warn"
    assert found.mend == f"sudo edge-infer doctor {config}"


def test_a_password_in_what_a_camera_answers_is_not_told(tmp_path: Path) -> None:
    net = {"type": "rtsp", "url": "rtsp://127.0.0.1:9/s", "user": "u", "password": {"file": "secret"}}
    config = with_cameras(tmp_path / "site", net=net)
    (tmp_path / "site/secret").write_text("tr0ub4dor&3")
    found = told(cameras.check, subject(root(tmp_path / "root"), config))
    assert "tr0ub4dor" not in json.dumps([one.found + one.mend for one in found.values()])
