"""V4L2 without a camera: what can go wrong before one gives pictures."""

from __future__ import annotations

import grp
import logging
import os
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from pydantic import ValidationError

from edge_infer.errors import SourceError
from edge_infer.settings import Secrets
from edge_infer.sources import _v4l2_node, v4l2
from edge_infer.sources._v4l2_node import Identity, Offer, choose
from edge_infer.sources.v4l2 import V4l2

NOBODY = 65534


@pytest.fixture(autouse=True)
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here the driver is tested, also as a user who may not start Python and with another OpenCV."""
    monkeypatch.setattr(V4l2, "isolated", False)


def refused(path: Path) -> str:
    with pytest.raises(SourceError) as caught:
        V4l2(type="v4l2", path=path).open("usb", Secrets({}))
    message = str(caught.value)
    assert message.startswith("camera usb: ")
    assert "\n" not in message
    return message


@contextmanager
def as_nobody() -> Iterator[None]:
    """Root may open everything."""
    root = os.geteuid() == 0
    groups = os.getgroups()
    if root:
        os.setgroups([])
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)
            os.setgroups(groups)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """pytest's own folders are closed to other users."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


def a_forbidden_device(folder: Path) -> Path:
    """Like a camera's node: of root and the group video."""
    if os.geteuid() == 0:
        os.mknod(folder / "video0", 0o660 | stat.S_IFCHR, os.makedev(1, 3))
        os.chown(folder / "video0", 0, grp.getgrnam("video").gr_gid)
        return folder / "video0"
    devices = (path for path in Path("/dev").iterdir() if path.is_char_device())
    return next(path for path in devices if not os.access(path, os.R_OK | os.W_OK))


def test_a_device_that_is_not_there_names_those_that_are(tmp_path: Path) -> None:
    assert f"there is no {tmp_path / 'video9'}; cameras on this machine: " in refused(tmp_path / "video9")


@pytest.mark.parametrize("kind", ["file", "folder", "pipe"])
def test_what_is_no_device_is_refused_without_waiting(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "video0"
    if kind == "file":
        path.write_bytes(b"picture")
    elif kind == "folder":
        path.mkdir()
    else:
        # opening it would hang for ever
        os.mkfifo(path)
    assert f"{path} is not a device; cameras on this machine: " in refused(path)


def test_a_device_that_is_no_camera_is_refused() -> None:
    assert "/dev/null is not a camera; cameras on this machine: " in refused(Path("/dev/null"))


def test_missing_permission_names_the_owner_the_user_and_the_remedy(open_folder: Path) -> None:
    device = a_forbidden_device(open_folder)
    with as_nobody():
        message = refused(device)
    status = device.stat()
    group = grp.getgrgid(status.st_gid).gr_name
    assert (
        f"no permission for {device} (root:{group} {stat.filemode(status.st_mode)}); this is user " in message
    )
    assert f"`sudo usermod -aG {group} " in message


def test_a_device_in_a_folder_nobody_may_look_into(tmp_path: Path) -> None:
    hidden = tmp_path / "hidden"
    hidden.mkdir(mode=0)
    with as_nobody():
        assert f"may not look for {hidden / 'video0'}; " in refused(hidden / "video0")


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"width": 640}, "width and height go together"),
        ({"fourcc": "mjpg"}, "String should match pattern"),
        ({"fourcc": "MJPEG"}, "String should match pattern"),
        ({"fps": 0}, "greater than 0"),
        ({"width": 0, "height": 0}, "greater than or equal to 16"),
        ({"path": 0}, "path"),
    ],
)
def test_settings_that_no_camera_has_are_refused(wrong: dict[str, object], text: str) -> None:
    with pytest.raises(ValidationError, match=text):
        V4l2.model_validate({"type": "v4l2", "path": Path("/dev/video0"), **wrong})


# -- what a device answers: there is none here, so cv2's side of the border is played


OFFERS = [Offer("YUYV", (10.0, 5.0)), Offer("GREY", (60.0,)), Offer("MJPG", (30.0, 15.0, 10.0))]
"""As many USB cameras at 1280x720."""


class PlayedCamera:
    """cv2.VideoCapture over a camera with one mode, that says yes to everything."""

    def __init__(self, order: list[int]) -> None:
        self._order = order
        self.mode = {
            cv2.CAP_PROP_FRAME_WIDTH: 64.0,
            cv2.CAP_PROP_FRAME_HEIGHT: 48.0,
            cv2.CAP_PROP_FPS: 10.0,
            cv2.CAP_PROP_FOURCC: float(cv2.VideoWriter.fourcc(*"YUYV")),
        }
        self.asked: dict[int, float] = {}
        self.released = self.unplugged = False

    def isOpened(self) -> bool:  # noqa: N802 - cv2's name
        return True

    def set(self, key: int, value: float) -> bool:
        self._order.append(key)
        self.asked[key] = value
        return True

    def get(self, key: int) -> float:
        return self.mode.get(key, 0.0)

    def read(self) -> tuple[bool, Any]:
        return not self.unplugged, np.zeros((48, 64, 3), np.uint8)

    def release(self) -> None:
        self.released = True


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> tuple[PlayedCamera, list[int]]:
    order: list[int] = []
    camera = PlayedCamera(order)
    identity = Identity("Played Camera", "usb-1", gives_pictures=True)
    monkeypatch.setattr(v4l2, "_open_node", lambda *_: nullcontext((0, identity)))
    monkeypatch.setattr(_v4l2_node, "size", lambda *_: (64, 48))
    monkeypatch.setattr(_v4l2_node, "offers", lambda *_: OFFERS)
    monkeypatch.setattr(cv2, "VideoCapture", lambda *_: camera)
    return camera, order


def test_the_pixel_format_is_set_before_the_size(played: tuple[PlayedCamera, list[int]]) -> None:
    settings = V4l2(type="v4l2", path=Path("/dev/video0"), width=64, height=48, fps=10, fourcc="YUYV")
    settings.open("usb", Secrets({})).close()
    assert played[1] == [
        cv2.CAP_PROP_FOURCC, cv2.CAP_PROP_FRAME_WIDTH, cv2.CAP_PROP_FRAME_HEIGHT, cv2.CAP_PROP_FPS,
    ]  # fmt: skip


def test_another_size_than_asked_for_is_refused(played: tuple[PlayedCamera, list[int]]) -> None:
    settings = V4l2(type="v4l2", path=Path("/dev/video0"), width=1280, height=720)
    with pytest.raises(SourceError, match=r"does not give 1280x720; it took 64x48 YUYV 10 frames a second"):
        settings.open("usb", Secrets({}))
    assert played[0].released


def test_another_rate_or_format_than_asked_for_is_said(
    played: tuple[PlayedCamera, list[int]], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    settings = V4l2(type="v4l2", path=Path("/dev/video0"), fps=30, fourcc="MJPG")
    settings.open("usb", Secrets({})).close()
    took = "64x48 YUYV 10 frames a second"
    assert [record.message for record in caplog.records] == [
        f"camera usb: /dev/video0 is Played Camera at usb-1, {took}",
        f"camera usb: asked for MJPG, got {took}",
        f"camera usb: asked for 30 frames a second, got {took}; MJPG gives up to 30",
    ]
    assert played[0].released


@pytest.mark.parametrize(
    ("offered", "fps", "chosen"),
    [
        (OFFERS, 30.0, "MJPG"),
        (OFFERS, 15.0, "MJPG"),
        # compression costs time and sharpness: not where it gives nothing
        (OFFERS, 10.0, "YUYV"),
        (OFFERS, 5.0, "YUYV"),
        # nobody can: the fastest
        (OFFERS, 60.0, "MJPG"),
        (list(reversed(OFFERS)), 10.0, "YUYV"),
        ([Offer("UYVY", (29.97,)), Offer("MJPG", (60.0,))], 30.0, "UYVY"),
        # never one that nobody here can read, or without colours
        ([Offer("H264", (30.0,)), Offer("GREY", (30.0,)), Offer("YUYV", (5.0,))], 30.0, "YUYV"),
        ([Offer("YUYV", ()), Offer("MJPG", ())], 30.0, None),
        ([], 30.0, None),
    ],
)
def test_c09_the_pixel_format_is_the_one_that_gives_the_rate(
    offered: list[Offer], fps: float, chosen: str | None
) -> None:
    assert choose(offered, fps) == chosen


def test_c09_without_a_fourcc_the_faster_format_is_set_first(played: tuple[PlayedCamera, list[int]]) -> None:
    camera, order = played
    V4l2(type="v4l2", path=Path("/dev/video0"), width=64, height=48, fps=30).open("usb", Secrets({})).close()
    assert order[0] == cv2.CAP_PROP_FOURCC
    assert camera.asked[cv2.CAP_PROP_FOURCC] == cv2.VideoWriter.fourcc(*"MJPG")


def test_c09_a_format_that_is_too_slow_is_said_with_the_faster_one(
    played: tuple[PlayedCamera, list[int]], caplog: pytest.LogCaptureFixture
) -> None:
    assert played[0].isOpened()
    settings = V4l2(type="v4l2", path=Path("/dev/video0"), width=64, height=48, fps=30, fourcc="YUYV")
    settings.open("usb", Secrets({})).close()
    assert (
        "camera usb: asked for 30 frames a second, got 64x48 YUYV 10 frames a second; MJPG gives up to 30"
    ) in caplog.messages


def test_a_camera_that_gives_no_more_is_lost_though_it_says_it_is_open(
    played: tuple[PlayedCamera, list[int]],
) -> None:
    camera, _ = played
    camera.unplugged = True
    with closing(V4l2(type="v4l2", path=Path("/dev/video0")).open("usb", Secrets({}))) as source:
        assert camera.isOpened()
        with pytest.raises(SourceError, match="/dev/video0 was unplugged; is its cable in"):
            source.read(2.0)


def test_a_frame_that_lay_in_the_driver_for_minutes_is_not_taken_for_new(
    played: tuple[PlayedCamera, list[int]],
) -> None:
    camera, _ = played
    with closing(V4l2(type="v4l2", path=Path("/dev/video0")).connect("usb", Secrets({}))) as device:
        for age_s in (0.01, 90.0):
            taken_s = time.monotonic() - age_s
            camera.mode[cv2.CAP_PROP_POS_MSEC] = taken_s * 1000
            capture = device.capture()
            assert capture is not None
            assert capture.time_s == pytest.approx(taken_s, abs=1e-3)


@pytest.mark.parametrize("clock", [lambda: 0.0, time.time])
def test_a_driver_with_another_clock_has_its_frames_dated_by_their_arrival(
    played: tuple[PlayedCamera, list[int]], clock: Callable[[], float]
) -> None:
    camera, _ = played
    with closing(V4l2(type="v4l2", path=Path("/dev/video0")).connect("usb", Secrets({}))) as device:
        camera.mode[cv2.CAP_PROP_POS_MSEC] = clock() * 1000
        before_s = time.monotonic()
        capture = device.capture()
        assert capture is not None
        assert before_s <= capture.time_s <= time.monotonic()
