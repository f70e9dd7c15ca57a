"""Camera problems that people reported in public. C07 and C09 are in tests/sources/test_vivid.py and
test_v4l2.py, C13 also in tests/sources/test_rtsp_streams.py."""

from __future__ import annotations

import math
import socket
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import cv2
import numpy as np
import pytest

from edge_infer.errors import SourceError
from edge_infer.frame import Frame
from edge_infer.settings import Secrets
from edge_infer.sources import _v4l2_node
from edge_infer.sources.files import Files
from edge_infer.sources.rtsp import Rtsp
from edge_infer.sources.v4l2 import V4l2
from tests.support.camera_sites import told, watching
from tests.support.mosquitto import Mosquitto
from tests.support.rtsp_camera import RtspCamera, read_stamp
from tests.support.rtsp_proxy import RtspProxy
from tests.support.running import Arrived
from tests.support.runs import NO_BOTTLE


def rtsp(url: str, **more: object) -> dict[str, object]:
    return {"type": "rtsp", "url": url, **more}


def test_c01_a_camera_that_stops_sending_is_told_and_neither_the_other_camera_nor_the_stop_waits(
    tmp_path: Path, mosquitto: Mosquitto
) -> None:
    def of(camera: str, got: Sequence[Arrived]) -> list[str]:
        data = [one.json["data"] for one in got if one.json["kind"] == "camera"]
        return [one["state"] for one in data if one["camera"] == camera]

    stations = {
        "one": {"camera": "silent", "rules": [NO_BOTTLE], "publish": "change"},
        "two": {"camera": "other", "rules": [NO_BOTTLE]},
    }
    with RtspCamera() as silent, RtspCamera() as other:
        # the defaults, which must be limits of their own
        cameras = {"silent": rtsp(silent.url), "other": rtsp(other.url)}
        with watching(tmp_path, mosquitto, cameras, stations) as (heard, running):
            heard.wait(lambda got: told(got) == ["OK"], "one/result")
            heard.wait(lambda got: "OK" in told(got), "two/result")
            silent.freeze()
            heard.wait(lambda got: of("silent", got)[-1] == "stalled", "/event", 4)
            seen, started_s = len(heard.messages("two/result")), time.monotonic()
            heard.wait(lambda got: len(got) > seen + 20, "two/result")
            assert time.monotonic() - started_s < 3, "the other camera waits"
            assert told(heard.messages("one/result"))[-1] == "UNDEFINED stale"
            heard.wait(lambda got: of("silent", got)[-1] == "lost", "/event", 7)
            assert of("other", heard.messages("/event")) == ["connected"]
            # in the middle of an attempt to open it
            started_s = time.monotonic()
            assert running.stop() == 0, running.log
            assert time.monotonic() - started_s < 5


def test_c03_a_device_that_accepts_and_is_silent_costs_the_time_that_was_given() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        settings = Rtsp.model_validate(
            rtsp(f"rtsp://127.0.0.1:{server.getsockname()[1]}/s", open_timeout_s=1.0)
        )
        started_s = time.monotonic()
        with pytest.raises(SourceError):
            settings.open("top", Secrets({}))
        assert 0.9 < time.monotonic() - started_s < 3.0


def test_c03_a_camera_that_falls_silent_costs_the_time_that_was_given() -> None:
    with RtspCamera() as camera:
        settings = Rtsp.model_validate(rtsp(camera.url, read_timeout_s=1.0))
        with closing(settings.open("top", Secrets({}))) as source:
            assert source.read(5.0)
            camera.freeze()
            started_s = time.monotonic()
            with pytest.raises(SourceError, match="sent nothing for 1 s"):
                list(iter(lambda: source.read(5.0), None))
            assert 0.9 < time.monotonic() - started_s < 3.0


class Played:
    """cv2.VideoCapture of a camera that reports this rate."""

    def __init__(self, fps: float) -> None:
        self._fps = fps

    def isOpened(self) -> bool:  # noqa: N802 - cv2's name
        return True

    def set(self, *_: object) -> bool:
        return True

    def get(self, key: int) -> float:
        size = {cv2.CAP_PROP_FRAME_WIDTH: 64.0, cv2.CAP_PROP_FRAME_HEIGHT: 48.0}
        return self._fps if key == cv2.CAP_PROP_FPS else size.get(key, 0.0)

    def read(self) -> tuple[bool, object]:
        return True, np.zeros((48, 64, 3), np.uint8)

    def release(self) -> None:
        pass


def play(monkeypatch: pytest.MonkeyPatch, fps: float) -> list[tuple[object, ...]]:
    """How OpenCV was asked for the camera."""
    asked: list[tuple[object, ...]] = []

    def capture(*arguments: object) -> Played:
        asked.append(arguments)
        return Played(fps)

    # a played camera can only be seen in this process
    monkeypatch.setattr(V4l2, "isolated", False)
    monkeypatch.setattr(cv2, "VideoCapture", capture)
    monkeypatch.setattr(_v4l2_node, "identify", lambda _: _v4l2_node.Identity("Camera", "usb-1", True))
    monkeypatch.setattr(_v4l2_node, "size", lambda _: None)
    monkeypatch.setattr(_v4l2_node, "offers", lambda *_: [_v4l2_node.Offer("YUYV", (fps,))])
    return asked


def test_c03_the_way_to_a_camera_is_named_never_any(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = play(monkeypatch, 30.0)
    V4l2(type="v4l2", path=Path("/dev/null")).connect("usb", Secrets({})).close()
    assert asked == [("/dev/null", cv2.CAP_V4L2)]


def test_c05_a_network_of_5_frames_a_second_sees_the_newest_of_25_and_counts_the_others() -> None:
    ages: list[float] = []
    with (
        RtspCamera() as camera,
        closing(Rtsp.model_validate(rtsp(camera.url)).open("top", Secrets({}))) as source,
    ):
        first = source.read(5.0)
        last: Frame | None = None
        for _ in range(15):
            last = source.read(5.0)
            assert last is not None
            stamp = read_stamp(last.pixels)
            assert stamp is not None
            ages.append(time.monotonic() - stamp.time_s)
            time.sleep(0.2)
    assert first is not None
    assert last is not None
    # the wait for the next frame, one frame, and what a loaded machine adds; a queue would be at 2.4 s by now
    assert sorted(ages)[len(ages) // 2] < 0.2
    assert max(ages) < 0.5
    assert last.seq - first.seq > 15 * 0.2 * 25 * 0.7, "dropped frames are counted"


def test_c13_packets_lost_on_the_way_are_undefined_damaged_and_verdicts_go_on(
    tmp_path: Path, mosquitto: Mosquitto
) -> None:
    stations = {"cap": {"camera": "top", "rules": [NO_BOTTLE], "publish": "change"}}
    with RtspCamera("--gop", "10", "--busy", "--fps", "15") as camera:
        proxy = RtspProxy(camera.port, loss=0.02)
        with closing(proxy), watching(tmp_path, mosquitto, {"top": rtsp(proxy.url)}, stations) as (heard, _):
            heard.wait(lambda got: {"OK", "UNDEFINED damaged"} <= set(told(got)), "cap/result")
            proxy.loss = 0.0
            heard.wait(lambda got: told(got)[-1] == "OK", "cap/result")
            assert set(told(heard.messages("cap/result"))) == {"OK", "UNDEFINED damaged"}


@pytest.mark.parametrize("fps", [0.0, math.nan, math.inf, 90000.0, 180000.0, -1.0])
def test_c15_a_rate_that_no_camera_has_breaks_nothing_and_is_said(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, fps: float
) -> None:
    play(monkeypatch, fps)
    settings = V4l2(type="v4l2", path=Path("/dev/null"), width=64, height=48, fps=30)
    with closing(settings.open("usb", Secrets({}))) as source:
        frames = [source.read(5.0) for _ in range(3)]
    # when a frame was taken is measured, never counted by the rate
    assert all(one is not None and time.monotonic() - 5 < one.time_s <= time.monotonic() for one in frames)
    assert "asked for 30 frames a second, got 64x48" in caplog.text


USER = "insp@ctor"
PASSWORD = "a#b@c%d/e?f:g%40h"


@pytest.mark.parametrize("method", ["digest", "basic"])
def test_c17_a_password_of_special_characters_opens_the_camera_and_is_seen_nowhere(
    tmp_path: Path, mosquitto: Mosquitto, method: str
) -> None:
    (tmp_path / "camera-password").write_text(PASSWORD)
    options = ("--basic",) if method == "basic" else ()
    stations = {"cap": {"camera": "top", "rules": [NO_BOTTLE], "publish": "change"}}
    with RtspCamera(*options, user=USER, password=PASSWORD) as camera:
        top = rtsp(camera.url, user=USER, password={"file": "camera-password"})
        with watching(tmp_path, mosquitto, {"top": top}, stations) as (heard, running):
            heard.wait(lambda got: told(got) == ["OK"], "cap/result")
            command = Path(f"/proc/{running.process.pid}/cmdline").read_bytes()
            camera.kill()
            heard.wait(lambda got: told(got) == ["OK", "UNDEFINED camera_lost"], "cap/result")
            messages = b"".join(one.payload for one in heard.messages())
    seen = command + messages + running.log.encode()
    for secret in (PASSWORD, "a%23b", "a#b"):
        assert secret.encode() not in seen


def test_c19_half_copied_pictures_are_damaged_and_the_whole_ones_are_judged(shared: Path) -> None:
    files = Files(type="files", path=shared / "cases" / "open" / "C19")
    with closing(files.open("folder", Secrets({}))) as source:
        frames = list(iter(lambda: source.read(5.0), None))
    trust = {Path(one.name or "").name: one.damaged is None for one in frames if one is not None}
    assert trust == {
        "empty.jpg": False, "half.jpg": False, "half.png": False, "text.png": False,
        "name with space ü.jpg": True, "whole.jpg": True,
    }  # fmt: skip
