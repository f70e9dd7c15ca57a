"""Cameras with a web server, over real sockets; asserted is what the camera wrote into its pictures."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise

import numpy as np
import pytest

from edge_infer import picture
from edge_infer.errors import SourceStalledError
from edge_infer.sources._http_camera import StampClock
from tests.support.http_camera import HttpCamera, Manner, draw
from tests.support.http_source import lost, opened, read, refused
from tests.support.rtsp_camera import read_stamp

MANNERS = {
    "plain": Manner(),
    "no-length": Manner(length=False),
    "no-length-boundary-behind": Manner(length=False, after=True),
    "no-headers": Manner(length=False, headers=False),
    "quoted-boundary": Manner(declared='boundary="frame"'),
    "dashes-declared-too": Manner(declared="boundary=--frame"),
    "dashes-declared-and-doubled": Manner(declared="boundary=--frame", line=b"----frame"),
    "no-boundary-declared": Manner(declared="x=y"),
    "odd-boundary": Manner(declared='boundary="a.b+c (d)?"', line=b"--a.b+c (d)?"),
    "lf-only": Manner(length=False, newline=b"\n"),
    "preamble": Manner(preamble=b"This is a stream.\r\n\r\n" + b"x" * 9000 + b"\r\n"),
    "chunked": Manner(chunked=1000),
    "chunked-no-length": Manner(chunked=70_001, length=False),
    "length-too-short": Manner(wrong_by=-50),
    "length-too-long": Manner(wrong_by=70),
    "padded": Manner(padding=b"\0\0\0"),
    "texts-between": Manner(texts=True),
}


# -- frames


@pytest.mark.parametrize("size", [300, 1000])
def test_a_picture_in_many_chunks_does_not_wait_for_the_next_one(size: int) -> None:
    with HttpCamera(Manner(chunked=size), fps=2) as camera, opened(camera.url()) as source:
        for _ in range(3):
            frame, stamp = read(source)
            assert frame.time_s - stamp.time_s < 0.25


@pytest.mark.parametrize("manner", MANNERS.values(), ids=MANNERS)
def test_frames_come_whole_in_order_once_and_fresh_however_the_stream_is_written(manner: Manner) -> None:
    with HttpCamera(manner, fps=40) as camera, opened(camera.url()) as source:
        seen = []
        for _ in range(8):
            seen.append(read(source))
            # a camera that writes a boundary only with the next picture is not a picture late
            assert time.monotonic() - seen[-1][1].time_s < 0.3
    counts = [stamp.count for _, stamp in seen]
    assert counts == sorted(set(counts))
    assert all(frame.pixels.shape == (360, 640, 3) for frame, _ in seen)
    assert not any(frame.pixels.flags.writeable for frame, _ in seen)


@pytest.mark.parametrize("fps", [0.8, 7.5, 59.94])
def test_odd_frame_rates_are_as_they_are_though_a_boundary_comes_only_with_the_next_picture(
    fps: float,
) -> None:
    with HttpCamera(Manner(length=False), fps=fps) as camera, opened(camera.url()) as source:
        read(source)
        seen = [read(source) for _ in range(3)]
        assert time.monotonic() - seen[-1][1].time_s < 0.3
    assert all(abs(frame.time_s - stamp.time_s) < 0.3 for frame, stamp in seen)


def test_a_slow_reader_sees_the_newest_frame_not_the_oldest() -> None:
    with HttpCamera(fps=20) as camera, opened(camera.url()) as source:
        first, _ = read(source)
        for _ in range(3):
            time.sleep(0.5)
            frame, stamp = read(source)
            assert time.monotonic() - stamp.time_s < 0.3, "a queue would be 0.5 s old"
    assert frame.seq - first.seq > 20


def test_only_the_newest_picture_is_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A decoder slower than the camera must not let it pile up."""
    decoded: list[bytes] = []
    decode = picture.decode

    def slowly(data: bytes, name: str) -> picture.Picture:
        decoded.append(data)
        time.sleep(0.2)
        return decode(data, name)

    monkeypatch.setattr(picture, "decode", slowly)
    # more than one read of the socket gives
    manner = Manner(padding=b"\0" * 200_000)
    with HttpCamera(manner, fps=50) as camera, opened(camera.url()) as source:
        seen = []
        for _ in range(8):
            seen.append(read(source))
            assert time.monotonic() - seen[-1][1].time_s < 0.6, "it piles up"
    assert seen[-1][1].count > 60
    assert len(decoded) < 15
    gaps = [after.seq - before.seq for (before, _), (after, _) in pairwise(seen)]
    assert min(gaps) > 4, "pictures that were not looked at are counted"


def test_a_picture_held_up_on_its_way_does_not_come_out_as_new_where_the_camera_tells_its_time() -> None:
    def hold_up(data: bytes, number: int) -> bytes:
        if number == 55:
            # and nothing after it: it is the newest there is
            camera.freeze()
            time.sleep(0.7)
        return data

    with HttpCamera(Manner(stamp=lambda s: f"{s + 1e6:.6f}")) as camera:
        camera.spoil = hold_up
        with opened(camera.url()) as source:
            seen = [read(source)]
            while seen[-1][1].count < 55:
                seen.append(read(source))
            waited_s = time.monotonic() - seen[-1][1].time_s
    assert seen[-1][1].count == 55
    assert waited_s > 0.6, "the trial is worth something"
    late = [frame.time_s - stamp.time_s for frame, stamp in seen]
    assert -0.1 < min(late) <= max(late) < 0.3


@pytest.mark.parametrize("unit", [1.0, 1e3, 1e6])
def test_a_cameras_clock_is_understood_in_any_unit_and_from_any_start(unit: float) -> None:
    clock = StampClock()
    for number in range(60):
        assert clock.taken(str(int((1.7e9 + number / 10) * unit)) if unit > 1 else f"{17 + number / 10:.2f}",
                           100 + number / 10) == pytest.approx(100 + number / 10)  # fmt: skip
    stamp = f"{17 + 6.0:.2f}" if unit == 1 else str(int((1.7e9 + 6.0) * unit))
    assert clock.taken(stamp, 107.5) == pytest.approx(106.0, abs=1e-3)


@pytest.mark.parametrize(
    "stamp",
    [
        lambda _: "garbage", lambda _: "nan", lambda _: "inf", lambda _: "0", lambda s: str(int(s)),
        lambda s: str(-s), lambda s: f"{s * 7:.3f}", lambda _: "1e999", lambda _: "",
    ],
)  # fmt: skip
def test_a_timestamp_that_is_no_clock_is_left_alone(stamp: Callable[[float], str]) -> None:
    clock = StampClock()
    for number in range(200):
        came_s = 50 + number / 20
        assert clock.taken(stamp(came_s), came_s) == came_s


def test_a_cameras_clock_that_is_set_back_makes_nothing_old() -> None:
    clock = StampClock()
    for number in range(60):
        clock.taken(f"{1000 + number / 10:.2f}", number / 10)
    assert clock.taken("990.0", 6.0) == 6.0


# -- damage


@pytest.mark.parametrize("length", [True, False])
def test_half_a_picture_is_damaged_and_the_next_one_is_not(length: bool) -> None:
    with HttpCamera(Manner(length=length, after=True)) as camera:
        camera.spoil = lambda data, number: data[: len(data) // 2] if number % 3 == 2 else data
        with opened(camera.url()) as source:
            frames = [source.read(5.0) for _ in range(6)]
    told = [frame.damaged for frame in frames if frame is not None]
    assert sum(one is not None for one in told) == 2
    assert "what came is a damaged JPEG picture: it ends before its end marker" in told
    for frame in frames:
        assert frame is not None
        if frame.damaged:
            assert frame.pixels.shape == (360, 640, 3)
            assert not frame.pixels.any()
        else:
            assert read_stamp(frame.pixels) is not None


@pytest.mark.parametrize("length", [True, False])
def test_half_a_picture_whose_end_comes_with_the_next_one_gives_way_to_it(length: bool) -> None:
    with HttpCamera(Manner(length=length)) as camera:
        camera.spoil = lambda data, number: data[: len(data) // 2] if number % 3 == 2 else data
        with opened(camera.url()) as source:
            seen = [read(source) for _ in range(6)]
    assert {after.seq - before.seq for (before, _), (after, _) in pairwise(seen)} == {1, 2}


@pytest.mark.parametrize("headers", ["", "?headers"])
def test_a_part_without_an_end_is_the_end_of_the_connection(headers: str) -> None:
    with HttpCamera() as camera, opened(camera.url(f"/endless{headers}")) as source:
        why = lost(source, 10)
    assert "a picture that does not end after 64 MB" in why or "a part's headers do not end" in why


def test_a_picture_that_says_it_is_huge_is_not_waited_for() -> None:
    with HttpCamera(Manner(wrong_by=10**10)) as camera, opened(camera.url()) as source:
        assert "a picture of 10000 MB" in lost(source, 3)


# -- trouble


def test_a_camera_that_stalls_is_stalled_then_lost_in_time() -> None:
    with HttpCamera() as camera, opened(camera.url(), read_timeout_s=1.0) as source:
        read(source)
        camera.freeze()
        stalled_s = time.monotonic()
        with suppress(SourceStalledError):
            while source.read(0.3):
                pass
        assert time.monotonic() - stalled_s < 0.9
        assert "it sent no whole picture for 1 s" in lost(source, 3)
        assert 0.8 < time.monotonic() - stalled_s < 2.0


@pytest.mark.parametrize("path", ["/mjpeg", "/snapshot"])
def test_a_killed_camera_is_noticed_at_once_and_opens_again_when_it_is_back(path: str) -> None:
    with HttpCamera() as camera, opened(camera.url(path), interval_s=0.1) as source:
        read(source)
        camera.kill()
        assert lost(source, 1.0).startswith(f"camera top: http://127.0.0.1:{camera.port}{path}")
        camera.start()
        with opened(camera.url(path)) as again:
            _, stamp = read(again)
            assert time.monotonic() - stamp.time_s < 0.5


def test_a_stalled_camera_is_closed_at_once() -> None:
    with HttpCamera() as camera, opened(camera.url()) as source:
        read(source)
        camera.freeze()
        closed_s = time.monotonic()
        source.close()
        assert time.monotonic() - closed_s < 0.5


def test_a_camera_that_drips_its_answer_does_not_hold_us(caplog: pytest.LogCaptureFixture) -> None:
    before = threading.active_count()
    with HttpCamera() as camera:
        asked_s = time.monotonic()
        assert "did not answer within 0.6 s" in refused(camera.url("/drip"), open_timeout_s=0.6)
        assert time.monotonic() - asked_s < 1.7
        with opened(camera.url("/drip-picture"), read_timeout_s=0.6) as source:
            assert "no whole picture for 0.6 s" in lost(source, 2) or "silent" in lost(source, 2)
        camera.kill()
        end_s = time.monotonic() + 2
        while threading.active_count() > before and time.monotonic() < end_s:
            time.sleep(0.02)
        assert not [one for one in threading.enumerate() if one.name.startswith("driver-")]
    assert not caplog.records


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/other", "is no picture of this camera (404)"),
        ("/status/403", "is not for this user (403)"),
        ("/status/304", "answers with the error 304"),
        ("/status/503", "answers with the error 503; does it serve too many viewers?"),
        ("/page", "gives no pictures (text/html)"),
        ("/garbage", "does not speak HTTP"),
        ("/silent", "did not answer within 0.5 s"),
    ],
)
def test_what_the_camera_answers_is_told(path: str, text: str) -> None:
    with HttpCamera() as camera:
        message = refused(camera.url(path), open_timeout_s=0.5)
        assert message.startswith(f"camera top: {camera.url(path)} {text}")


def test_an_address_where_nobody_is_is_told() -> None:
    assert "http://127.0.0.1:9/x refuses the connection" in refused("http://127.0.0.1:9/x")
    assert "nobody knows its name" in refused("http://no-such-host.invalid/x")


def test_the_wrong_mode_is_told() -> None:
    with HttpCamera() as camera:
        assert "is a stream, not a snapshot" in refused(camera.url(), mode="snapshot")
        assert "is no MJPEG stream (image/jpeg)" in refused(camera.url("/snapshot"), mode="mjpeg")


# -- snapshots


@pytest.mark.parametrize("keeps", [True, False])
def test_snapshots_come_at_their_pace_and_are_as_old_as_the_question(keeps: bool) -> None:
    with HttpCamera(keeps=keeps) as camera:
        with opened(camera.url("/snapshot"), interval_s=0.1) as source:
            seen = [read(source) for _ in range(6)]
        assert camera.accepted == (1 if keeps else len(camera.requests))
    assert 0.08 < (seen[-1][0].time_s - seen[0][0].time_s) / 5 < 0.3
    # never called newer than it is, or a part's answer would be a picture from before it came
    assert all(-0.1 < frame.time_s - stamp.time_s <= 0.001 for frame, stamp in seen)


def test_a_snapshot_like_the_one_before_is_a_new_look() -> None:
    """Whether the camera is frozen is for the health of the picture to say."""
    with (
        HttpCamera(snapshot=draw(1.0, 1)) as camera,
        opened(camera.url("/snapshot"), interval_s=0.05) as source,
    ):
        first, second = (read(source)[0] for _ in range(2))
    assert second.seq == first.seq + 1
    assert second.time_s > first.time_s
    assert np.array_equal(first.pixels, second.pixels)


def test_a_snapshot_from_a_cache_is_as_old_as_the_cache_says() -> None:
    with HttpCamera(snapshot_headers=b"Age: 7\r\n") as camera, opened(camera.url("/snapshot")) as source:
        frame, _ = read(source)
        assert 6.5 < time.monotonic() - frame.time_s < 8


def test_a_connection_that_the_camera_has_ended_meanwhile_is_no_loss() -> None:
    with HttpCamera() as camera, opened(camera.url("/snapshot"), interval_s=0.4) as source:
        read(source)
        camera.drop()
        for _ in range(2):
            read(source)


def test_half_a_snapshot_is_damaged() -> None:
    with HttpCamera(keeps=False) as camera:
        camera.spoil = lambda data, number: data[:2000] if number % 2 == 0 else data
        with opened(camera.url("/snapshot"), interval_s=0.05) as source:
            frames = [source.read(5.0) for _ in range(4)]
    assert [frame is not None and frame.damaged is None for frame in frames] == [True, False, True, False]


def test_a_snapshot_that_takes_too_long_is_a_lost_camera() -> None:
    with (
        HttpCamera() as camera,
        opened(camera.url("/snapshot"), interval_s=0.05, read_timeout_s=0.5) as source,
    ):
        read(source)
        camera.freeze()
        assert "did not answer within 0.5 s" in lost(source, 3)
