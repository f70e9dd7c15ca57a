"""What every camera promises its station, whatever its kind."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise
from pathlib import Path

import cv2
import numpy as np
import pytest

from edge_infer.errors import SourceError, SourceStalledError
from edge_infer.frame import Frame
from edge_infer.settings import Secrets
from edge_infer.sources import Source, SourceSettings
from edge_infer.sources.basler import Basler
from edge_infer.sources.files import Files
from edge_infer.sources.gige import Gige
from edge_infer.sources.gstreamer import Gstreamer
from edge_infer.sources.http import Http
from edge_infer.sources.rtsp import Rtsp
from edge_infer.sources.synthetic import Synthetic
from tests.support.basler_camera import EMULATED
from tests.support.gige_camera import GigeCamera
from tests.support.http_camera import HttpCamera
from tests.support.isolated import IsolatedGige, IsolatedRtsp
from tests.support.rtsp_camera import RtspCamera

RECORDED = ["video", "folder", "drawn-recording"]
LIVE = [
    "video-in-real-time",
    "folder-in-a-loop",
    "drawn",
    "rtsp",
    "rtsp-isolated",
    "gige",
    "gige-isolated",
    "http-stream",
    "http-snapshot",
    "gstreamer",
    "basler",
]


PIPELINE = "videotestsrc is-live=true ! video/x-raw,width=64,height=48"
WATCHED = ["watched"]
"""Never ends, drops nothing."""


@dataclass(frozen=True)
class Cameras:
    """Every kind of camera that can be had on any machine, ready to be opened."""

    video: Path
    folder: Path
    rtsp: RtspCamera
    http: HttpCamera

    def settings(self, name: str, number: int = 1) -> SourceSettings:
        gige = {"type": "gige", "address": f"127.0.0.{number}", "pixel_format": "Mono8", "frame_rate": 25.0}
        kinds: dict[str, SourceSettings] = {
            "video": Files(type="files", path=self.video),
            "folder": Files(type="files", path=self.folder),
            "drawn-recording": Synthetic(type="synthetic", frames=12),
            "watched": Files(type="files", path=self.folder, watch=True, settle_s=0.2),
            "video-in-real-time": Files(type="files", path=self.video, realtime=True),
            "folder-in-a-loop": Files(type="files", path=self.folder, loop=True),
            "drawn": Synthetic(type="synthetic"),
            "rtsp": Rtsp(type="rtsp", url=self.rtsp.url),
            "rtsp-isolated": IsolatedRtsp(type="rtsp", url=self.rtsp.url),
            "gige": Gige.model_validate(gige),
            "gige-isolated": IsolatedGige.model_validate(gige),
            "basler": Basler(type="basler", serial=f"0815-000{number - 1}", width=64, height=48),
            "gstreamer": Gstreamer(type="gstreamer", pipeline=PIPELINE, width=64, height=48),
            "http-stream": Http(type="http", url=self.http.url("/mjpeg")),
            "http-snapshot": Http(type="http", url=self.http.url("/snapshot"), interval_s=0.1),
        }
        return kinds[name]

    def open(self, name: str, number: int = 1) -> Source:
        """``number``: of two cameras where one cannot be opened twice."""
        return self.settings(name, number).open("top", Secrets(EMULATED))


@pytest.fixture(scope="module")
def cameras(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cameras]:
    folder = tmp_path_factory.mktemp("pictures")
    for number in (1, 2):
        assert cv2.imwrite(str(folder / f"{number}.png"), np.full((48, 64, 3), 40 * number, np.uint8))
    assert cv2.imwrite(str(folder / "3-grey.png"), np.full((48, 64), 90, np.uint8))
    (folder / "4-damaged.jpg").write_bytes(b"\xff\xd8\xff\xe0 half a picture")
    video = shared / "assets" / "videos" / "car-detection.mp4"
    with RtspCamera() as rtsp, GigeCamera(), GigeCamera("127.0.0.2", "T2"), HttpCamera() as http:
        yield Cameras(video, folder, rtsp, http)


def frames(source: Source) -> Iterator[Frame]:
    """Waiting through stalls, as a station does."""
    while True:
        try:
            frame = source.read(0.5)
        except SourceStalledError:
            continue
        if frame is None:
            return
        yield frame


def content(frame: Frame) -> tuple[object, ...]:
    """All but the wall clock."""
    triggers = [(one.time_s, one.part_id, one.truth) for one in frame.triggers]
    return frame.seq, frame.time_s, frame.damaged, frame.name, triggers


@pytest.mark.parametrize("name", RECORDED + LIVE + WATCHED)
def test_frames_are_read_only_bgr_in_order_and_say_when_they_were_taken(cameras: Cameras, name: str) -> None:
    with closing(cameras.open(name)) as source:
        seen = list(islice(frames(source), 3))
    assert len(seen) == 3
    for frame in seen:
        assert frame.camera == "top"
        assert frame.pixels.dtype == np.uint8
        assert frame.pixels.ndim == 3
        assert frame.pixels.shape[2] == 3
        assert not frame.pixels.flags.writeable
        assert frame.captured_at.tzinfo is UTC
        assert abs(datetime.now(UTC) - frame.captured_at) < timedelta(seconds=10)
    assert seen[0].seq >= 1
    for before, after in pairwise(seen):
        assert after.seq > before.seq
        assert after.time_s > before.time_s
        assert after.captured_at >= before.captured_at


@pytest.mark.parametrize("name", RECORDED)
def test_a_recording_drops_nothing_ends_and_stays_ended(cameras: Cameras, name: str) -> None:
    assert cameras.settings(name).recorded
    with closing(cameras.open(name)) as source:
        sequence = [frame.seq for frame in frames(source)]
        assert source.read(0.1) is None
        assert source.read(0.1) is None
    assert sequence == list(range(1, len(sequence) + 1))
    assert len(sequence) == {"video": 377, "folder": 4, "drawn-recording": 12}[name]


@pytest.mark.parametrize("name", RECORDED)
def test_a_recording_gives_the_same_again(cameras: Cameras, name: str) -> None:
    with closing(cameras.open(name)) as once, closing(cameras.open(name)) as again:
        for first, second in zip(islice(frames(once), 30), islice(frames(again), 30), strict=True):
            assert content(first) == content(second)
            assert np.array_equal(first.pixels, second.pixels)


@pytest.mark.parametrize("name", LIVE)
def test_a_live_frames_time_is_on_the_monotonic_clock(cameras: Cameras, name: str) -> None:
    assert not cameras.settings(name).recorded
    with closing(cameras.open(name)) as source:
        opened_s = time.monotonic()
        for frame in islice(frames(source), 3):
            now_s = time.monotonic()
            assert opened_s - 1 < frame.time_s <= now_s
            wall_s = (datetime.now(UTC) - frame.captured_at).total_seconds()
            assert wall_s == pytest.approx(now_s - frame.time_s, abs=0.3)


@pytest.mark.parametrize("name", RECORDED + LIVE + WATCHED)
def test_read_never_waits_longer_than_it_was_told(cameras: Cameras, name: str) -> None:
    with closing(cameras.open(name)) as source:
        for _ in range(5):
            asked_s = time.monotonic()
            with suppress(SourceStalledError):
                source.read(0.05)
            assert time.monotonic() - asked_s < 1.05


@pytest.mark.parametrize("name", RECORDED + LIVE + WATCHED)
def test_close_ends_the_reader_and_may_be_called_again(cameras: Cameras, name: str) -> None:
    source = cameras.open(name)
    reading = threading.Event()
    ends: list[Exception | None] = []

    def read_on() -> None:
        try:
            for _ in frames(source):
                reading.set()
            ends.append(None)
        except SourceError as error:
            ends.append(error)
        reading.set()

    reader = threading.Thread(target=read_on)
    reader.start()
    assert reading.wait(10)
    closed_s = time.monotonic()
    source.close()
    reader.join(2)
    assert not reader.is_alive()
    source.close()
    assert time.monotonic() - closed_s < 2
    assert len(ends) == 1
    with pytest.raises(SourceError):
        source.read(0.1)


@pytest.mark.parametrize("name", RECORDED + LIVE + WATCHED)
def test_two_cameras_of_one_kind_do_not_disturb_each_other(cameras: Cameras, name: str) -> None:
    with closing(cameras.open(name)) as one:
        with closing(cameras.open(name, 2)) as other:
            assert next(frames(other)).seq >= 1
        assert next(frames(one)).seq >= 1


def test_settings_load_no_heavy_library() -> None:
    code = "import sys\nfrom edge_infer.registry import resolve\nfrom edge_infer.sources import SOURCES\n"
    code += "for name in SOURCES: resolve(SOURCES, name).model_json_schema()\n"
    code += "print(*(lib for lib in ('av', 'cv2', 'onnxruntime', 'openvino', 'paho') if lib in sys.modules))"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30
    )
    assert loaded.stdout.split() == []


@pytest.mark.parametrize(
    ("open_it", "text"),
    [
        (lambda: Files(type="files", path=Path("/absent.mp4")), "camera top: there is no /absent.mp4"),
        (lambda: Rtsp(type="rtsp", url="rtsp://127.0.0.1:9/s"), "camera top: rtsp://127.0.0.1:9/s refuses"),
        (lambda: Http(type="http", url="http://127.0.0.1:9/s"), "camera top: http://127.0.0.1:9/s refuses"),
        (lambda: Gige(type="gige", address="127.0.0.99"), "camera top: 127.0.0.99 does not answer: "),
    ],
)
def test_a_camera_that_is_not_there_is_one_line_with_a_remedy(
    open_it: Callable[[], SourceSettings], text: str
) -> None:
    with pytest.raises(SourceError) as caught:
        open_it().open("top", Secrets({}))
    assert str(caught.value).startswith(text)
    assert caught.value.hint
    assert "\n" not in str(caught.value)
