"""What a camera's device node answers (linux/videodev2.h), for what OpenCV keeps to itself."""

from __future__ import annotations

import errno
import fcntl
import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

_CAPTURE = 1
_QUERYCAP, _CAPABILITY_BYTES = 0x80685600, 104
_IS_CAPTURE = 0x00000001 | 0x00001000  # single or multi-planar
_DEVICE_CAPS = 0x80000000
_REQBUFS, _REQUEST = 0xC0145608, struct.Struct("=5I")
_SINGLE, _MULTI_PLANAR = 1, 9
_MMAP = 1
_G_FMT, _FORMAT_BYTES = 0xC0D05604, 208
_ENUM_FMT = 0xC0405602
_FORMAT = struct.Struct("=3I32sI4I")
_ENUM_FRAMEINTERVALS = 0xC034564B
_INTERVAL = struct.Struct("=5I6I2I")
_QUERYCTRL, _G_CTRL, _S_CTRL = 0xC0445624, 0xC008561B, 0xC008561C
_CONTROL = struct.Struct("=2I32s4iI2I")
_VALUE = struct.Struct("=Ii")
_NEXT = 0x80000000
_SETTABLE = frozenset((1, 2, 3, 9))  # integer, boolean, menu, integer menu
_DISABLED_OR_READ_ONLY = 0x0001 | 0x0004

UNCOMPRESSED = ("YUYV", "UYVY", "NV12", "NV21", "YU12", "YV12", "RGB3", "BGR3")
"""Pixel formats with colours that OpenCV turns into BGR by itself."""


class Identity(NamedTuple):
    """How a camera introduces itself."""

    card: str
    bus: str
    gives_pictures: bool

    def __str__(self) -> str:
        return f"{self.card} at {self.bus}"


class Offer(NamedTuple):
    """A pixel format and how fast it comes at one size."""

    fourcc: str
    fps: tuple[float, ...]
    """Frames a second, at best the fastest where any rate goes; empty where the device does not say."""


class Control(NamedTuple):
    """Something that can be set, named as ``v4l2-ctl --list-ctrls`` names it."""

    id: int
    name: str
    smallest: int
    largest: int


def identify(node: int) -> Identity:
    """OSError from a node that is no camera, or whose camera is gone."""
    answer = bytearray(_CAPABILITY_BYTES)
    fcntl.ioctl(node, _QUERYCAP, answer)
    all_caps, node_caps = (int.from_bytes(answer[at : at + 4], "little") for at in (84, 88))
    card, bus = (_text(answer[at : at + 32]) for at in (16, 48))
    return Identity(card, bus, bool((node_caps if all_caps & _DEVICE_CAPS else all_caps) & _IS_CAPTURE))


def has_an_owner(node: int) -> bool:
    """True where another program takes pictures: opening works for everybody, only buffers have one owner."""
    for kind in (_SINGLE, _MULTI_PLANAR):
        try:
            # no buffers: asks for nothing, frees nothing of ours
            fcntl.ioctl(node, _REQBUFS, bytearray(_REQUEST.pack(0, kind, _MMAP, 0, 0)))
        except OSError as error:
            if error.errno == errno.EBUSY:
                return True
    return False


def size(node: int) -> tuple[int, int] | None:
    """Width and height that it is set to; None where the device does not say."""
    buffer = bytearray(_FORMAT_BYTES)
    buffer[:4] = _CAPTURE.to_bytes(4, "little")
    if not _asked(node, _G_FMT, buffer):
        return None
    width, height = (int.from_bytes(buffer[at : at + 4], "little") for at in (8, 12))
    return width, height


def offers(node: int, width: int, height: int) -> list[Offer]:
    """What the camera can send at this size, in its own order."""
    found = []
    for index in range(256):
        buffer = bytearray(_FORMAT.pack(index, _CAPTURE, 0, b"", 0, 0, 0, 0, 0))
        if not _asked(node, _ENUM_FMT, buffer):
            break
        code = int(_FORMAT.unpack(buffer)[4])
        fourcc = code.to_bytes(4, "little").decode("ascii", "replace")
        found.append(Offer(fourcc, tuple(_rates(node, code, width, height))))
    return found


def choose(offered: Sequence[Offer], fps: float) -> str | None:
    """The pixel format for the rate: uncompressed if it is fast enough, else MJPG where that is faster.

    None where the device does not say its rates: whatever it is set to, then.
    """
    known = [one for one in offered if one.fps and one.fourcc in (*UNCOMPRESSED, "MJPG")]
    # false comes first: no format is taken for its compression, only for its rate
    best = max(known, key=lambda one: (min(max(one.fps), 0.99 * fps), one.fourcc != "MJPG"), default=None)
    return None if best is None else best.fourcc


def controls(node: int) -> dict[str, Control]:
    """By name, all that can be set to a number."""
    found: dict[str, Control] = {}
    last = 0
    while True:
        buffer = bytearray(_CONTROL.pack(last | _NEXT, 0, b"", 0, 0, 0, 0, 0, 0, 0))
        if not _asked(node, _QUERYCTRL, buffer):
            return found
        last, kind, title, smallest, largest, _, _, flags, _, _ = _CONTROL.unpack(buffer)
        name = "_".join("".join(c if c.isalnum() else " " for c in _text(title).lower()).split())
        if kind in _SETTABLE and not flags & _DISABLED_OR_READ_ONLY:
            found[name] = Control(last, name, smallest, largest)


def set_control(node: int, control: Control, value: int) -> int:
    """What the control is afterwards. OSError where the camera refuses."""
    fcntl.ioctl(node, _S_CTRL, bytearray(_VALUE.pack(control.id, value)))
    answer = bytearray(_VALUE.pack(control.id, 0))
    fcntl.ioctl(node, _G_CTRL, answer)
    return int(_VALUE.unpack(answer)[1])


def _rates(node: int, code: int, width: int, height: int) -> Iterator[float]:
    for index in range(256):
        buffer = bytearray(_INTERVAL.pack(index, code, width, height, *[0] * 9))
        if not _asked(node, _ENUM_FRAMEINTERVALS, buffer):
            return
        # one interval, or the shortest of a range; a fraction of a second
        numerator, denominator = _INTERVAL.unpack(buffer)[5:7]
        if numerator:
            yield denominator / numerator


def _asked(node: int, request: int, buffer: bytearray) -> bool:
    """False behind the end of a list, and where the driver has none."""
    try:
        fcntl.ioctl(node, request, buffer)
    except OSError:
        return False
    return True


def _text(field: bytes | bytearray) -> str:
    return bytes(field).split(b"\0")[0].decode("utf-8", "replace")
