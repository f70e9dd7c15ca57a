"""Recordings: every frame once, in order, and an honest end."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import Any

import av
import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from edge_infer.errors import SourceError, SourceStalledError
from edge_infer.frame import Frame
from edge_infer.settings import Secrets
from edge_infer.sources import Source
from edge_infer.sources.files import PICTURE_S, Files


def opened(path: Path, **options: Any) -> Source:
    return Files(type="files", path=path, **options).open("tape", Secrets({}))


def read_all(source: Source) -> list[Frame]:
    frames = list(frames_of(source))
    source.close()
    return frames


def read_all_without_pixels(source: Source) -> list[Frame]:
    """For long videos, whose pixels would fill the memory."""
    frames = list(without_pixels(source))
    source.close()
    return frames


def frames_of(source: Source) -> Iterator[Frame]:
    while (frame := source.read(1.0)) is not None:
        yield frame


def without_pixels(source: Source) -> Iterator[Frame]:
    return (replace(frame, pixels=np.zeros((1, 1, 3), np.uint8)) for frame in frames_of(source))


def read_until_it_breaks_off(path: Path) -> tuple[list[Frame], str]:
    source = opened(path)
    frames: list[Frame] = []
    with pytest.raises(SourceError) as caught:
        frames.extend(without_pixels(source))
    with pytest.raises(SourceError):
        source.read(1.0)
    source.close()
    return frames, str(caught.value)


def grey(value: int) -> NDArray[np.uint8]:
    return np.full((48, 64, 3), value, np.uint8)


def level(frame: Frame) -> int:
    return round(float(frame.pixels.mean()))


def draw(path: Path, *values: int, fps: int = 10, gop: int = 10, rotated: float = 0, **options: str) -> Path:
    """A video of plain grey frames, the left upper corner white."""
    with av.open(str(path), "w", options=options) as container:
        stream = container.add_stream("mpeg4", rate=fps)
        stream.width, stream.height, stream.pix_fmt, stream.gop_size = 64, 48, "yuv420p", gop
        if rotated:
            stream.set_display_rotation(rotated)
        for count, value in enumerate(values):
            pixels = grey(value)
            pixels[:16, :16] = 255
            frame = av.VideoFrame.from_ndarray(pixels, format="bgr24")
            frame.pts, frame.time_base = count, Fraction(1, fps)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path


def copied(path: Path, to: Path, *, raw: bool = False, options: dict[str, str] | None = None) -> Path:
    """The same packets in another container; ``raw`` as a stream without an index."""
    with av.open(str(path)) as source, av.open(str(to), "w", options=options or {}) as target:
        stream = source.streams.video[0]
        copy = target.add_stream_from_template(stream)
        annexb = av.BitStreamFilterContext("h264_mp4toannexb", stream) if raw else None
        for packet in source.demux(stream):
            if packet.dts is not None:
                for filtered in annexb.filter(packet) if annexb else [packet]:
                    filtered.stream = copy
                    target.mux(filtered)
    return to


def cut(path: Path, share: float = 0.6) -> Path:
    os.truncate(path, int(path.stat().st_size * share))
    return path


@pytest.fixture(scope="session")
def bottles(shared: Path) -> Path:
    return shared / "assets" / "videos" / "bottle-detection.mp4"


# -- videos


def test_a_video_gives_exactly_its_frames_with_the_pixels_another_decoder_sees(bottles: Path) -> None:
    other = cv2.VideoCapture(str(bottles), cv2.CAP_FFMPEG)
    source = opened(bottles)
    count = 0
    while (frame := source.read(1.0)) is not None:
        count += 1
        there, pixels = other.read()
        assert there
        assert np.array_equal(frame.pixels, pixels), count
        assert (frame.seq, frame.damaged, frame.name) == (count, None, str(bottles))
    assert not other.read()[0]
    assert count == 1189
    source.close()


def test_time_is_the_position_in_the_video(bottles: Path) -> None:
    source = opened(bottles)
    times = [frame.time_s for frame in islice(frames_of(source), 61)]
    source.close()
    assert times[0] == 0
    # 179/6 frames a second
    assert times[60] == pytest.approx(60 * 6 / 179, abs=1e-3)


def test_a_video_without_times_counts_them_and_says_so(
    bottles: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    raw = copied(bottles, tmp_path / "raw.h264", raw=True)
    frames = read_all_without_pixels(opened(raw))
    assert len(frames) == 1189
    assert frames[-1].time_s == pytest.approx(1188 * 6 / 179, rel=1e-6)
    assert [record.message for record in caplog.records] == [
        f"{raw}: frames without a time; counted as 29.8 a second"
    ]


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("index-first.mp4", {"movflags": "faststart"}),
        ("fragments.mp4", {"movflags": "frag_keyframe+empty_moov"}),
        ("matroska.mkv", {}),
    ],
)
def test_a_cut_video_gives_its_frames_so_far_then_an_error_that_names_it(
    bottles: Path, tmp_path: Path, name: str, options: dict[str, str]
) -> None:
    whole = copied(bottles, tmp_path / name, options=options)
    assert len(read_all_without_pixels(opened(whole))) == 1189
    frames, message = read_until_it_breaks_off(cut(whole))
    assert 700 < len(frames) < 760
    assert f"{whole} breaks off after {len(frames)} frames" in message
    assert "\n" not in message


def test_a_video_cut_between_two_frames_is_not_a_clean_end(bottles: Path, tmp_path: Path) -> None:
    video = copied(bottles, tmp_path / "index-first.mp4", options={"movflags": "faststart"})
    with av.open(str(video)) as container:
        place = container.streams.video[0].index_entries[600].pos
    os.truncate(video, place)
    frames, message = read_until_it_breaks_off(video)
    assert 590 < len(frames) <= 600
    assert f"{video} breaks off" in message


@pytest.mark.parametrize("name", ["stream.ts", "raw.h264"])
def test_a_cut_stream_without_an_index_ends_in_an_error_too(bottles: Path, tmp_path: Path, name: str) -> None:
    whole = copied(bottles, tmp_path / name, raw=True)
    frames, message = read_until_it_breaks_off(cut(whole))
    assert 700 < len(frames) < 760
    assert frames[-1].damaged
    assert f"{whole} breaks off" in message


def test_frames_after_lost_data_are_damaged_until_a_key_frame(bottles: Path, tmp_path: Path) -> None:
    video = copied(bottles, tmp_path / "hole.ts", raw=True)
    data = bytearray(video.read_bytes())
    middle = len(data) // 2
    data[middle : middle + 3000] = bytes(3000)
    video.write_bytes(data)
    frames = read_all_without_pixels(opened(video))
    damaged = [frame.seq for frame in frames if frame.damaged]
    assert 5 < len(damaged) < 300
    assert damaged == list(range(damaged[0], damaged[-1] + 1))
    assert not frames[0].damaged
    assert not frames[-1].damaged


def test_a_video_broken_in_the_middle_is_not_a_clean_end(bottles: Path, tmp_path: Path) -> None:
    video = tmp_path / "hole.mp4"
    data = bytearray(bottles.read_bytes())
    data[len(data) // 2 : len(data) // 2 + 3000] = bytes(3000)
    video.write_bytes(data)
    frames, message = read_until_it_breaks_off(video)
    assert 0 < len(frames) < 1189
    assert "hole.mp4 breaks off" in message


def test_a_turned_video_is_turned_upright(tmp_path: Path) -> None:
    upright = read_all(opened(draw(tmp_path / "upright.mp4", 40)))[0]
    turned = read_all(opened(draw(tmp_path / "turned.mp4", 40, rotated=90)))[0]
    assert upright.pixels.shape == (48, 64, 3)
    assert turned.pixels.shape == (64, 48, 3)
    assert not turned.pixels.flags.writeable
    # the white corner at the upper left goes to the lower left when turned against the clock
    assert turned.pixels[-8, 8].min() > 200
    assert turned.pixels[8, 8].max() < 100


def test_memory_does_not_grow_with_the_length_of_a_video(bottles: Path) -> None:
    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    source = opened(bottles)
    for _ in range(200):
        source.read(1.0)
    before = resident()
    for _ in range(900):
        source.read(1.0)
    source.close()
    # 900 frames are 600 MB
    assert resident() - before < 30e6


# -- pictures


def test_a_folder_is_read_in_natural_order_without_hidden_and_foreign_files(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    for name, value in (("part-10.png", 100), ("part-2.png", 20), ("part-1.png", 10), ("Part-3.PNG", 30)):
        assert cv2.imwrite(str(tmp_path / name), grey(value))
    for name in (".hidden.png", "~part.png", "part-4.png.part", "part-5.tmp", "labels.txt"):
        (tmp_path / name).write_bytes(b"not a picture")
    (tmp_path / "more.png").mkdir()
    frames = read_all(opened(tmp_path))
    assert [level(frame) for frame in frames] == [10, 20, 30, 100]
    assert [frame.time_s for frame in frames] == [0, PICTURE_S, 2 * PICTURE_S, 3 * PICTURE_S]
    assert [Path(str(frame.name)).name for frame in frames] == [
        "part-1.png", "part-2.png", "Part-3.PNG", "part-10.png",
    ]  # fmt: skip
    assert [record.message for record in caplog.records] == [
        f"the folder {tmp_path}: 3 files that are no pictures or videos are left out"
    ]


def test_a_pattern_takes_what_it_names(tmp_path: Path) -> None:
    for name, value in (("a/1.png", 10), ("a/2.jpg", 20), ("b/1.png", 30)):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        assert cv2.imwrite(str(tmp_path / name), grey(value))
    assert [level(frame) for frame in read_all(opened(tmp_path / "*" / "*.png"))] == [10, 30]
    assert [level(frame) for frame in read_all(opened(tmp_path / "**" / "*"))] == [10, 20, 30]


def test_a_name_that_looks_like_a_pattern_is_a_name_first(tmp_path: Path) -> None:
    assert cv2.imwrite(str(tmp_path / "part[1].png"), grey(77))
    assert [level(frame) for frame in read_all(opened(tmp_path / "part[1].png"))] == [77]


def test_videos_and_pictures_of_a_folder_follow_each_other_on_one_clock(tmp_path: Path) -> None:
    draw(tmp_path / "1.mp4", 40, 40, 40, fps=10)
    assert cv2.imwrite(str(tmp_path / "2.png"), grey(200))
    draw(tmp_path / "3.mkv", 90, 90, fps=10)
    times = [frame.time_s for frame in read_all(opened(tmp_path))]
    assert times == pytest.approx([0, 0.1, 0.2, 0.3, 0.4, 0.5], abs=0.002)


def test_a_damaged_picture_is_a_damaged_frame_not_a_skipped_one(tmp_path: Path) -> None:
    noise = np.random.default_rng(1).integers(0, 255, (48, 64, 3), np.uint8)
    for number in (1, 2, 3):
        assert cv2.imwrite(str(tmp_path / f"{number}.jpg"), noise)
    cut(tmp_path / "2.jpg")
    whole, broken, after = read_all(opened(tmp_path))
    assert (whole.damaged, after.damaged) == (None, None)
    assert broken.damaged is not None
    assert "2.jpg" in broken.damaged
    assert "\n" not in broken.damaged
    assert (broken.seq, level(broken), broken.name) == (2, 0, str(tmp_path / "2.jpg"))


def test_a_picture_that_vanished_meanwhile_is_a_damaged_frame(tmp_path: Path) -> None:
    for number in (1, 2):
        assert cv2.imwrite(str(tmp_path / f"{number}.png"), grey(50))
    source = opened(tmp_path)
    (tmp_path / "2.png").unlink()
    assert [frame.damaged is None for frame in read_all(source)] == [True, False]


# -- mistakes of opening: one line that says what it is


def _make_pipe(folder: Path) -> Path:
    os.mkfifo(folder / "pipe.mp4")
    return folder / "pipe.mp4"


def _make(name: str, content: bytes) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        (folder / name).write_bytes(content)
        return folder / name

    return make


def _make_sound(folder: Path) -> Path:
    with av.open(str(folder / "sound.mp4"), "w") as container:
        stream = container.add_stream("aac", rate=44100)
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), format="fltp", layout="mono")
        frame.sample_rate = 44100
        container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return folder / "sound.mp4"


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda folder: folder / "absent.mp4", "there is no "),
        (lambda folder: folder / "absent" / "*.png", "holds no pictures or videos"),
        (lambda folder: folder, "holds no pictures or videos"),
        (_make_pipe, "is a device or pipe, not a file"),
        (_make("empty.mp4", b""), "is empty"),
        (_make("empty.png", b""), "is empty"),
        (_make("text.txt", b"hello, this is no video\n" * 50), "is not a video that can be read"),
        (_make("noise.mp4", bytes(range(256)) * 400), "is not a video that can be read"),
        (_make("list.m3u8", b"#EXTM3U\n#EXTINF:9,\nfile:///etc/hostname\n"), "is not a video that can be"),
        (_make_sound, "holds no video"),
    ],
)
def test_what_cannot_be_played_is_one_line_at_open(
    tmp_path: Path, make: Callable[[Path], Path], text: str
) -> None:
    path = make(tmp_path)
    with pytest.raises(SourceError) as caught:
        opened(path)
    message = str(caught.value)
    assert message.startswith("camera tape: ")
    assert text in message
    assert str(path) in message
    assert "\n" not in message


def test_a_video_whose_index_was_cut_off_is_one_line_at_open(bottles: Path, tmp_path: Path) -> None:
    video = tmp_path / "cut.mp4"
    video.write_bytes(bottles.read_bytes())
    with pytest.raises(
        SourceError, match=r"cut\.mp4 is not a video that can be read, or its beginning or end"
    ):
        opened(cut(copied(video, tmp_path / "index-last-cut.mp4")))


# -- live playback


def test_realtime_plays_at_the_videos_own_pace_on_the_monotonic_clock(tmp_path: Path) -> None:
    source = opened(draw(tmp_path / "v.mp4", *[40] * 11, fps=20), realtime=True)
    started = time.monotonic()
    frames = read_all(source)
    assert 0.45 < time.monotonic() - started < 1.5
    steps = np.diff([frame.time_s for frame in frames])
    assert steps == pytest.approx(np.full(10, 0.05), abs=0.002)
    assert started - 0.1 <= frames[0].time_s <= time.monotonic()


def test_realtime_read_keeps_its_limit_between_frames(tmp_path: Path) -> None:
    for number in (1, 2):
        assert cv2.imwrite(str(tmp_path / f"{number}.png"), grey(number))
    source = opened(tmp_path, realtime=True)
    assert source.read(1.0) is not None
    started = time.monotonic()
    with pytest.raises(SourceStalledError):
        source.read(0.1)
    assert time.monotonic() - started < 0.4
    second = source.read(1.0)
    assert second is not None
    assert level(second) == 2
    source.close()


def test_loop_begins_again_and_time_goes_on(tmp_path: Path) -> None:
    source = opened(draw(tmp_path / "v.mp4", 40, 80, 120, fps=50), loop=True)
    frames = list(islice(frames_of(source), 8))
    source.close()
    assert [round(level(frame) / 40) for frame in frames] == [1, 2, 3, 1, 2, 3, 1, 2]
    assert [frame.seq for frame in frames] == list(range(1, 9))
    assert np.diff([frame.time_s for frame in frames]) == pytest.approx(np.full(7, 0.02), abs=0.002)


def test_only_plain_playback_is_recorded(tmp_path: Path) -> None:
    def recorded(**options: Any) -> bool:
        return Files(type="files", path=tmp_path, **options).recorded

    assert recorded()
    assert not recorded(realtime=True)
    assert not recorded(loop=True)


def test_close_ends_a_playback_that_waits(tmp_path: Path) -> None:
    source = opened(draw(tmp_path / "v.mp4", 40, 40, fps=1), realtime=True)
    assert source.read(1.0) is not None
    caught: list[Any] = []

    def wait() -> None:
        try:
            source.read(30.0)
        except SourceError as error:
            caught.append(error)

    reader = threading.Thread(target=wait)
    reader.start()
    source.close()
    reader.join(0.8)
    assert not reader.is_alive()
    assert [str(error) for error in caught] == ["camera tape is closed"]
