"""RTSP against GStreamer's real server; what is asserted is what the camera wrote into its pictures."""

from __future__ import annotations

import gc
import logging
import socket
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from pydantic import ValidationError

from edge_infer.errors import SourceError, SourceStalledError
from edge_infer.frame import Frame
from edge_infer.settings import Secret, Secrets
from edge_infer.sources import Source
from edge_infer.sources.rtsp import Rtsp
from tests.support.rtsp_camera import RtspCamera, Stamp, read_stamp
from tests.support.rtsp_proxy import RtspProxy

USER = "insp@ctor"
SESAME = "sesame-1234"
PASSWORD = "p#@%/?: &+=ü\\\"'%41[x]"


@pytest.fixture(scope="module")
def camera() -> Iterator[RtspCamera]:
    with RtspCamera() as running:
        yield running


@pytest.fixture(scope="module")
def locked_camera() -> Iterator[RtspCamera]:
    with RtspCamera(user=USER, password=PASSWORD) as running:
        yield running


@contextmanager
def opened(url: str, **options: object) -> Iterator[Source]:
    settings = Rtsp.model_validate({"type": "rtsp", "url": url, "open_timeout_s": 5.0, **options})
    source = settings.open("top", Secrets({"CAM": PASSWORD, "WRONG": SESAME}))
    with closing(source):
        yield source


def refused(url: str, **options: object) -> str:
    with pytest.raises(SourceError) as caught, opened(url, **options):
        pass
    message = str(caught.value)
    assert "\n" not in message
    return message


def read(source: Source, timeout_s: float = 5.0) -> tuple[Frame, Stamp]:
    frame = source.read(timeout_s)
    assert frame is not None
    stamp = read_stamp(frame.pixels)
    assert stamp is not None, f"frame {frame.seq} is broken"
    return frame, stamp


def read_on(source: Source) -> None:
    while source.read(5.0):
        pass


# -- frames


@pytest.mark.parametrize("transport", ["tcp", "udp"])
def test_frames_come_whole_in_order_and_once(camera: RtspCamera, transport: str) -> None:
    with opened(camera.url, transport=transport) as source:
        seen = [read(source) for _ in range(20)]
    counts = [stamp.count for _, stamp in seen]
    assert counts == sorted(set(counts))
    assert counts[-1] - counts[0] < 40
    assert all(frame.pixels.shape == (360, 640, 3) for frame, _ in seen)
    assert not any(frame.damaged or frame.pixels.flags.writeable for frame, _ in seen)


@pytest.mark.parametrize("options", [(), ("--codec", "jpeg")])
def test_a_frame_knows_when_it_was_taken(options: tuple[str, ...]) -> None:
    with RtspCamera(*options) as other, opened(other.url) as source:
        late = [frame.time_s - stamp.time_s for frame, stamp in (read(source) for _ in range(20))]
    # the camera's own encoding is all that is missing; a loaded machine adds to that
    assert min(late) > -0.1
    assert max(late) < 0.15


def test_the_first_frame_was_taken_after_opening(camera: RtspCamera) -> None:
    """The library reads ahead while it opens; a part may have gone by since."""
    with opened(camera.url):
        pass  # the camera is warm
    with opened(camera.url) as source:
        opened_s = time.monotonic()
        _, stamp = read(source)
    assert stamp.time_s > opened_s - 0.06


def test_a_slow_reader_sees_the_newest_frame_not_the_oldest(camera: RtspCamera) -> None:
    with opened(camera.url) as source:
        first, _ = read(source)
        time.sleep(1.5)
        frame, stamp = read(source)
        assert time.monotonic() - stamp.time_s < 0.5
    assert frame.seq - first.seq > 10


# -- trouble


def test_frames_held_up_on_their_way_do_not_come_out_as_new(camera: RtspCamera) -> None:
    proxy = RtspProxy(camera.port)
    with closing(proxy), opened(proxy.url) as source:
        for _ in range(10):
            read(source)
        proxy.hold()
        time.sleep(0.7)
        proxy.release()
        seen = [read(source) for _ in range(30)]
    late = [frame.time_s - stamp.time_s for frame, stamp in seen]
    assert max(late) < 0.2
    assert min(late) > -0.2


@pytest.mark.parametrize(("transport", "picture"), [("tcp", ()), ("udp", ("--busy",))])
def test_after_lost_packets_no_broken_frame_is_trusted(transport: str, picture: tuple[str, ...]) -> None:
    """Of one packet each, or of many."""
    broken = 0
    with RtspCamera("--gop", "20", *picture) as other, opened(other.url, transport=transport) as source:
        read(source)
        for packets in (1, 2, 5):
            other.lose(packets)
            damaged: int | None = None
            for _ in range(50):
                frame = source.read(5.0)
                assert frame is not None
                stamp = read_stamp(frame.pixels)
                broken += stamp is None
                assert stamp is not None or frame.damaged, f"frame {frame.seq} is broken and trusted"
                if frame.damaged:
                    damaged = frame.seq
                elif damaged is not None and stamp is not None:
                    # only a key frame mends, every 20th; it is one of those since the last damaged one
                    assert stamp.count % 20 < frame.seq - damaged
                    break
    assert broken > 0


@pytest.mark.parametrize("codec", ["jpeg", "h265"])
def test_lost_packets_are_noticed_over_udp_where_nothing_else_tells_of_them(codec: str) -> None:
    with RtspCamera("--codec", codec, "--busy") as other, opened(other.url, transport="udp") as source:
        reasons: set[str | None] = set()
        # the one frame that is damaged may be one that this reader is too slow for
        for _ in range(6):
            read(source)
            other.lose(1)
            reasons |= {frame.damaged for frame in (source.read(5.0) for _ in range(8)) if frame}
            if "packets of it were lost on the way" in reasons:
                return
    pytest.fail(f"not noticed: {reasons}")


def test_a_camera_that_stops_sending_is_stalled_then_lost_within_the_limits() -> None:
    with RtspCamera() as other, opened(other.url, read_timeout_s=1.0) as source:
        read(source)
        other.freeze()
        frozen_s = time.monotonic()
        stalls = 0
        lost = None
        while lost is None:
            asked_s = time.monotonic()
            try:
                _, stamp = read(source, 0.3)
            except SourceStalledError:
                stalls += 1
            except SourceError as error:
                lost = str(error)
            else:
                assert stamp.time_s <= frozen_s
            assert time.monotonic() - asked_s < 1.3
        assert "sent nothing for 1 s; is it switched on" in lost
        assert stalls >= 2
        assert time.monotonic() - frozen_s < 1.9


def test_no_frame_of_before_a_stall_is_given_as_new_after_it() -> None:
    with RtspCamera() as other, opened(other.url, read_timeout_s=5.0) as source:
        read(source)
        other.freeze()
        time.sleep(1.0)
        other.thaw()
        for _ in range(20):
            frame, stamp = read(source)
            assert frame.time_s - stamp.time_s < 0.2


def test_close_returns_while_the_camera_is_stalled() -> None:
    with RtspCamera() as other, opened(other.url, read_timeout_s=3.0) as source:
        read(source)
        other.freeze()
        started = time.monotonic()
        source.close()
        assert time.monotonic() - started < 2


def test_a_killed_camera_is_lost_at_once() -> None:
    with RtspCamera() as other, opened(other.url) as source:
        read(source)
        other.kill()
        started = time.monotonic()
        with pytest.raises(SourceError, match=r"camera top: lost rtsp://127\.0\.0\.1:\d+/cam: "):
            read_on(source)
        assert time.monotonic() - started < 2


def test_opening_and_closing_leaves_nothing_behind(camera: RtspCamera) -> None:
    def left() -> tuple[int, int]:
        gc.collect()
        return threading.active_count(), len(list(Path("/proc/self/fd").iterdir()))

    with opened(camera.url) as source:
        read(source)
    before = left()
    for _ in range(3):
        with opened(camera.url) as source:
            read(source)
    assert left() == before


# -- refusals: what, where, what to do


def test_a_port_nobody_listens_on() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    message = refused(f"rtsp://127.0.0.1:{port}/cam")
    assert message == (
        f"camera top: rtsp://127.0.0.1:{port}/cam refuses the connection; "
        "is the port right, is RTSP switched on in the camera?"
    )


def test_a_path_the_camera_does_not_have(camera: RtspCamera) -> None:
    message = refused(camera.url.replace("/cam", "/live"))
    assert "/live is no stream of this camera; look up the stream's path" in message


def test_a_camera_that_wants_a_password(locked_camera: RtspCamera) -> None:
    assert "wants a user and a password; write user: and password: beside url:" in refused(locked_camera.url)


def test_a_device_that_accepts_and_says_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        started = time.monotonic()
        message = refused(f"rtsp://127.0.0.1:{server.getsockname()[1]}/cam", open_timeout_s=0.7)
        assert time.monotonic() - started < 1.7
    assert "did not answer within 0.7 s; is it switched on" in message


def test_a_device_that_speaks_something_else() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.sendall(b"220 printer ready\r\n" * 100)
                connection.recv(1000)

        threading.Thread(target=answer, daemon=True).start()
        message = refused(f"rtsp://127.0.0.1:{server.getsockname()[1]}/cam", open_timeout_s=1.0)
    assert "cam does not speak RTSP; is the port right" in message or "did not answer within 1 s" in message


def test_a_name_nobody_knows() -> None:
    message = refused("rtsp://camera.invalid/cam")
    assert "cannot be found: nobody knows the name camera.invalid; write its IP address" in message


def test_a_password_that_is_not_on_this_machine_is_an_error_of_the_camera(camera: RtspCamera) -> None:
    message = refused(camera.url, user="u", password=Secret(env="ABSENT"))
    assert message.startswith("camera top: the environment variable ABSENT is not set")


# -- secrets


def test_special_characters_in_user_and_password_are_no_matter(locked_camera: RtspCamera) -> None:
    with opened(locked_camera.url, user=USER, password=Secret(env="CAM")) as source:
        read(source)


def test_a_wrong_password_is_said_without_the_password(
    locked_camera: RtspCamera, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    with (
        pytest.raises(SourceError) as caught,
        opened(locked_camera.url, user=USER, password=Secret(env="WRONG")),
    ):
        pass
    error = caught.value
    assert f"does not accept the user {USER} with this password; try them" in str(error)
    told = [
        str(error),
        repr(error),
        "".join(traceback.format_exception(error)),
        caplog.text,
        *capfd.readouterr(),
    ]
    linked: BaseException | None = error
    while linked is not None:
        told += [str(linked), repr(linked.args)]
        linked = linked.__cause__ or linked.__context__
    assert not [text for text in told if "sesame" in text]


def test_a_lost_camera_is_said_without_the_password(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    with (
        RtspCamera(user="u", password=SESAME) as other,
        opened(other.url, user="u", password=Secret(env="WRONG"), read_timeout_s=0.5) as source,
    ):
        read(source)
        other.freeze()
        with pytest.raises(SourceError, match="sent nothing") as caught:
            read_on(source)
    text = "".join(traceback.format_exception(caught.value)) + caplog.text + "".join(capfd.readouterr())
    assert "sesame" not in text
    assert caught.value.__context__ is None


@pytest.mark.parametrize("url", ["rtsp://u:sesame@10.0.0.9/s", "rtsp://sesame@10.0.0.9/s"])
def test_a_password_in_the_address_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(ValidationError, match="keys of their own") as caught:
        Rtsp(type="rtsp", url=url)
    assert "sesame" not in str(caught.value)


@pytest.mark.parametrize(
    "url", ["http://10.0.0.9/s", "rtsp:/s", "10.0.0.9", "rtsp://", "rtsp://h:99999/s", ""]
)
def test_what_is_no_rtsp_address_is_refused(url: str) -> None:
    with pytest.raises(ValidationError, match="is not an RTSP address; write rtsp://HOST:PORT/PATH"):
        Rtsp(type="rtsp", url=url)


def test_a_token_behind_the_address_is_not_shown() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    assert "sesame" not in refused(f"rtsp://127.0.0.1:{port}/cam?token=sesame")


def test_a_password_needs_a_user() -> None:
    with pytest.raises(ValidationError, match="a password needs its user"):
        Rtsp(type="rtsp", url="rtsp://10.0.0.9/s", password=Secret(env="CAM"))
