"""What lies in files: which files a path means, and the frames in each of them."""

from __future__ import annotations

import logging
import re
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from fractions import Fraction
from glob import glob, has_magic
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from edge_infer.errors import PictureError, SourceError
from edge_infer.sources._video import Damage, Pixels, seconds

if TYPE_CHECKING:
    from av import VideoFrame
    from av.container import InputContainer

log = logging.getLogger(__name__)

PICTURES = frozenset((".bmp", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp"))
# fmt: off
VIDEOS = frozenset((
    ".3gp", ".asf", ".avi", ".flv", ".h264", ".h265", ".hevc", ".m2ts", ".m4v", ".mjpeg", ".mkv", ".mov",
    ".mp4", ".mpeg", ".mpg", ".mts", ".ogv", ".ts", ".webm", ".wmv",
))
# fmt: on
# no playlists, no scripts: a file must not make us open other files
_DEMUXERS = "asf,avi,flv,h264,hevc,m4v,matroska,mjpeg,mov,mpeg,mpegts,mpegvideo,ogg"
_USUAL_FPS = Fraction(25)
_MOST_FPS = 1000
_CUT_SHORT_S = 1.0
"""Where only the length tells that a video was cut: so much may be missing by rounding."""


class Shot(NamedTuple):
    """One image of a recording."""

    pixels: NDArray[np.uint8]
    """(height, width, 3) BGR, read-only."""
    time_s: float
    """From the file's first frame."""
    damaged: str | None
    name: str
    """The file."""


def find(path: Path) -> list[Path]:
    """The files meant by a file, folder or pattern, in natural order. SourceError where there are none.

    Of folders and patterns: pictures and videos by suffix; hidden and temporary files are not looked at.
    """
    try:
        if path.is_dir():
            return _playable(path.iterdir(), f"the folder {path}")
        if path.exists():
            return [_regular(path)]
        if has_magic(str(path)):
            found = (Path(name) for name in glob(str(path), recursive=True))  # noqa: PTH207 - absolute pattern
            return _playable(found, f"the pattern {path}")
    except OSError as error:
        raise _unreadable(path, error) from error
    raise SourceError(f"there is no {path}", hint="name a video, a picture, a folder or a pattern like *.png")


def shots(path: Path) -> Iterator[Shot]:
    """The frames of one file."""
    return iter((_picture(path),)) if path.suffix.lower() in PICTURES else video(path)


def _playable(files: Iterable[Path], where: str) -> list[Path]:
    seen = [file for file in files if not file.name.startswith((".", "~")) and file.is_file()]
    playable = [file for file in seen if file.suffix.lower() in PICTURES | VIDEOS]
    if not playable:
        what = f"{len(seen)} files but no" if seen else "no"
        raise SourceError(
            f"{where} holds {what} pictures or videos",
            hint=f"known are {' '.join(sorted(PICTURES | VIDEOS))}",
        )
    if len(playable) < len(seen):
        log.info("%s: %d files that are no pictures or videos are left out", where, len(seen) - len(playable))
    return sorted(playable, key=natural)


def natural(path: Path) -> list[tuple[int, str]]:
    """Sorts 2 before 10."""
    return [
        (int(part), "") if part.isdecimal() else (0, part.casefold())
        for part in re.split(r"(\d+)", str(path))
    ]


def _regular(path: Path) -> Path:
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        # a pipe would hang for ever
        raise SourceError(f"{path} is a device or pipe, not a file", hint="cameras are of type v4l2")
    if not status.st_size:
        raise SourceError(f"{path} is empty", hint="copy it again")
    with path.open("rb"):
        return path


def _unreadable(path: Path, error: OSError) -> SourceError:
    return SourceError(f"cannot read {path}: {error.strerror}", hint="is it there, may this user read it?")


def _picture(path: Path) -> Shot:
    """A picture that cannot be read is a black frame that says so: one inspection, one result."""
    from edge_infer.picture import read

    try:
        picture = read(path)
    except PictureError as error:
        black = np.zeros((32, 32, 3), np.uint8)
        black.flags.writeable = False
        return Shot(black, 0.0, str(error), str(path))
    for warning in picture.warnings:
        log.warning("%s: %s", path, warning)
    return Shot(picture.pixels, 0.0, None, str(path))


def video(path: Path, skip: int = 0) -> Iterator[Shot]:
    """The frames of a video but the first ``skip``, which are decoded too: the others build on them."""
    container = _open(path)
    try:
        yield from _Video(path, container).shots(skip)
    finally:
        container.close()


def length(path: Path) -> int | None:
    """About how many frames a video says it has; None where it does not say, or cannot be read."""
    try:
        container = _open(path)
    except SourceError:
        return None
    with container:
        stream = container.streams.video[0]
        if stream.frames:
            return stream.frames
        rate = stream.guessed_rate or stream.average_rate
        if container.duration is None or not rate or rate > _MOST_FPS:
            return None
        return round(container.duration / 1_000_000 * rate)


def _open(path: Path) -> InputContainer:
    import av

    try:
        container = av.open(
            f"file:{path}", options={"format_whitelist": _DEMUXERS, "protocol_whitelist": "file"}
        )
    except av.FFmpegError as error:
        if isinstance(error, PermissionError | FileNotFoundError) and not path.is_file():
            raise _unreadable(path, error) from error
        raise SourceError(
            f"{path} is not a video that can be read, or its beginning or end is missing",
            hint="does it play in a video player? copy or export it again",
        ) from error
    if not container.streams.video:
        container.close()
        raise SourceError(f"{path} holds no video", hint="is it a sound recording?")
    return container


class _Video:
    """One pass through a video file."""

    def __init__(self, path: Path, container: InputContainer) -> None:
        self._path = path
        self._container = container
        self._stream = container.streams.video[0]
        self._pixels = Pixels()
        self._damage = Damage()
        self._step_s = float(1 / self._rate())
        self._first_s: float | None = None
        self._last_s = -self._step_s
        self._packets = 0
        self._has_times = True
        self._broken = False

    def shots(self, skip: int) -> Iterator[Shot]:
        """All frames but the first ``skip``; SourceError where the video breaks off."""
        count = 0
        ends_whole = True
        for frame in self._frames():
            count += 1
            ends_whole = not frame.is_corrupt
            time_s, damaged = self._time(frame), self._damage.of(frame)
            if count > skip:
                yield Shot(self._pixels.of(frame), time_s, damaged, str(self._path))
        if self._broken or not ends_whole or self._promises_more():
            raise SourceError(
                f"{self._path} breaks off after {count} frames ({max(0.0, self._last_s):.1f} s)",
                hint="it is damaged or was not copied whole; copy it again",
            )
        if not count:
            raise SourceError(f"{self._path} holds no picture", hint="copy or export it again")

    def _frames(self) -> Iterator[VideoFrame]:
        import av

        try:
            for packet in self._container.demux(self._stream):
                self._packets += packet.size > 0
                if packet.is_corrupt:
                    self._damage.lose("data of the video is missing", packet.pts)
                yield from packet.decode()
        except av.FFmpegError:
            self._broken = True
            self._damage.lose("the video breaks off here", None)
            # the decoder still holds a few frames
            with suppress(av.FFmpegError):
                yield from self._stream.decode(None)

    def _rate(self) -> Fraction:
        """Frames a second, only for videos without times: what files say of it can be 0/0 or 90000."""
        for rate in (self._stream.guessed_rate, self._stream.average_rate):
            if rate and 0 < rate <= _MOST_FPS:
                return rate
        return _USUAL_FPS

    def _time(self, frame: VideoFrame) -> float:
        """Seconds from the first frame, always later than the frame before."""
        expected_s = self._last_s + self._step_s
        pts_s = seconds(frame, self._stream.time_base)
        if pts_s is None:
            if self._has_times:
                log.warning(
                    "%s: frames without a time; counted as %.3g a second", self._path, 1 / self._step_s
                )
            self._has_times = False
            time_s = expected_s
        else:
            if self._first_s is None:
                self._first_s = pts_s - expected_s
            time_s = pts_s - self._first_s
        self._last_s = time_s if time_s > self._last_s else expected_s
        return self._last_s

    def _promises_more(self) -> bool:
        """Whether a file that ended without an error says of itself that it is longer."""
        index = self._stream.index_entries
        if len(index) >= self._packets > 0:
            last = index[len(index) - 1]
            return last.pos + last.size > self._path.stat().st_size
        promised_s = None
        if self._stream.duration is not None and self._stream.time_base is not None:
            promised_s = float(self._stream.duration * self._stream.time_base)
        elif self._container.duration is not None and len(self._container.streams) == 1:
            promised_s = self._container.duration / 1_000_000
        return (
            self._has_times
            and promised_s is not None
            and promised_s - self._last_s - self._step_s > _CUT_SHORT_S
        )
