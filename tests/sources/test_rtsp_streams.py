"""The ways in which real cameras differ, from GStreamer's real server; asserted on the burned-in clock."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from pydantic import ValidationError

from edge_infer.errors import SourceError
from edge_infer.frame import Frame
from edge_infer.settings import Secret, Secrets
from edge_infer.sources import Source
from edge_infer.sources.rtsp import Rtsp
from tests.support.pki import Pki
from tests.support.rtsp_camera import RtspCamera, Stamp, read_stamp
from tests.support.rtsp_proxy import RtspProxy

PASSWORD = "p#@%/?:"
B_FRAMES = ("--encoder", "bframes=2 tune=0 rc-lookahead=5")
"""As cameras that save bits: each frame comes a quarter of a second late."""


@contextmanager
def opened(url: str, **options: object) -> Iterator[Source]:
    settings = Rtsp.model_validate({"type": "rtsp", "url": url, **options})
    with closing(settings.open("top", Secrets({"CAM": PASSWORD}))) as source:
        yield source


def read(source: Source) -> tuple[Frame, Stamp]:
    frame = source.read(5.0)
    assert frame is not None
    stamp = read_stamp(frame.pixels)
    assert stamp is not None, f"frame {frame.seq} is broken"
    return frame, stamp


@pytest.mark.parametrize(
    "options",
    [
        ("--address", "::1"),
        ("--audio",),
        ("--format", "Y42B"),
        ("--format", "I420_10LE"),
        # not a multiple of the 16 pixels that are encoded together
        ("--width", "648", "--height", "362"),
        ("--codec", "h265"),
        ("--gop", "250"),
        ("--fps", "5"),
        B_FRAMES,
    ],
    ids=lambda options: " ".join(options).strip("-"),
)
def test_frames_of_every_kind_of_stream_come_whole_in_order_and_once(options: tuple[str, ...]) -> None:
    with RtspCamera(*options) as camera, opened(camera.url) as source:
        seen = [read(source) for _ in range(8)]
    counts = [stamp.count for _, stamp in seen]
    assert counts == sorted(set(counts))
    assert not [frame.damaged for frame, _ in seen if frame.damaged]
    assert [frame.time_s for frame, _ in seen] == sorted({frame.time_s for frame, _ in seen})


def test_basic_passwords_of_any_characters_are_no_matter() -> None:
    with (
        RtspCamera("--basic", user="insp@ctor", password=PASSWORD) as camera,
        opened(camera.url, user="insp@ctor", password=Secret(env="CAM")) as source,
    ):
        read(source)


def test_a_camera_that_changes_its_size_gives_whole_frames_of_each() -> None:
    with RtspCamera() as camera, opened(camera.url) as source:
        read(source)
        for size in ((1280, 720), (640, 360)):
            camera.resize(*size)
            end_s = time.monotonic() + 10
            while True:
                frame = source.read(5.0)
                assert frame is not None
                if (frame.width, frame.height) == size and not frame.damaged:
                    break
                assert time.monotonic() < end_s
            assert read_stamp(frame.pixels) is not None


# -- two of a hundred packets get lost


def test_c13_with_two_percent_of_the_packets_lost_no_broken_frame_is_trusted() -> None:
    whole = damaged = 0
    with RtspCamera("--gop", "10", "--busy", "--fps", "20") as camera:
        proxy = RtspProxy(camera.port, loss=0.02)
        with closing(proxy), opened(proxy.url) as source:
            end_s = time.monotonic() + 6
            while time.monotonic() < end_s:
                frame = source.read(5.0)
                assert frame is not None
                stamp = read_stamp(frame.pixels)
                assert stamp is not None or frame.damaged, f"frame {frame.seq} is broken and trusted"
                damaged += frame.damaged is not None
                whole += frame.damaged is None
        assert proxy.lost > 5
    # and it goes on to judge those that are whole
    assert damaged > 5
    assert whole > 5


# -- the camera's own clock


@pytest.mark.parametrize("camera_clock", [False, True])
def test_the_cameras_clock_shows_how_long_it_took_to_send(camera_clock: bool) -> None:
    with (
        RtspCamera(*B_FRAMES, "--clock", "capture") as camera,
        opened(camera.url, camera_clock=camera_clock) as source,
    ):
        late: list[float] = []
        end_s = time.monotonic() + (4 if camera_clock else 2)
        while time.monotonic() < end_s:
            frame, stamp = read(source)
            late.append(frame.time_s - stamp.time_s)
    if camera_clock:
        assert abs(late[-1]) < 0.06
    else:
        # what nobody can know from outside
        assert 0.15 < late[-1] < 0.35


def test_a_cameras_clock_that_is_wrong_is_said_and_not_followed(caplog: pytest.LogCaptureFixture) -> None:
    with (
        RtspCamera("--clock", "unset") as camera,
        opened(camera.url, camera_clock=True) as source,
    ):
        end_s = time.monotonic() + 10
        while not (warnings := [one for one in caplog.records if one.levelno == logging.WARNING]):
            assert time.monotonic() < end_s
            read(source)
        frame, stamp = read(source)
    assert "behind ours, frames are dated by their arrival; give both the same time server" in caplog.text
    assert len(warnings) == 1
    assert abs(frame.time_s - stamp.time_s) < 0.15


# -- encrypted


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    return Pki(tmp_path_factory.mktemp("rtsps") / "pki")


def encrypted(pki: Pki, name: str) -> RtspCamera:
    return RtspCamera(
        "--certificate", pki.path(f"{name}.crt"), "--key", pki.path(f"{name}.key"),
        user="u", password=PASSWORD,
    )  # fmt: skip


def test_an_encrypted_camera_is_read_once_it_proved_who_it_is(pki: Pki) -> None:
    access = {"user": "u", "password": Secret(env="CAM")}
    with (
        encrypted(pki, "server") as camera,
        opened(camera.url, ca=Path(pki.path("ca.crt")), **access) as source,
    ):
        assert camera.url.startswith("rtsps://")
        read(source)


@pytest.mark.parametrize("name", ["rogue", "expired"])
def test_a_camera_that_does_not_prove_who_it_is_gets_no_password(pki: Pki, name: str) -> None:
    access = {"user": "u", "password": Secret(env="CAM")}
    with (
        encrypted(pki, name) as camera,
        pytest.raises(SourceError, match=r"does not prove who it is: .*; correct ca, or give the camera"),
        opened(camera.url, ca=Path(pki.path("ca.crt")), **access),
    ):
        pass


def test_a_certificate_of_another_host_is_not_believed(pki: Pki) -> None:
    access = {"user": "u", "password": Secret(env="CAM")}
    with (
        encrypted(pki, "server") as camera,
        pytest.raises(SourceError, match="does not prove who it is"),
        opened(camera.url.replace("127.0.0.1", "localhost"), ca=Path(pki.path("ca.crt")), **access),
    ):
        pass


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        ({"url": "rtsps://10.0.0.9/s"}, "rtsps needs ca: "),
        ({"url": "rtsp://10.0.0.9/s", "ca": Path("/ca.crt")}, "ca is for rtsps:// only"),
        ({"url": "rtsps://10.0.0.9/s", "ca": Path("/ca.crt"), "transport": "udp"}, "not encrypted over udp"),
    ],
)
def test_encryption_that_would_protect_nothing_is_refused(keys: dict[str, object], text: str) -> None:
    with pytest.raises(ValidationError, match=text):
        Rtsp.model_validate({"type": "rtsp", **keys})
