"""Picture files: read whole or refused with the reason, written whole or not at all."""

from __future__ import annotations

import re
import stat
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from edge_infer.errors import PictureError
from edge_infer.wholefile import replacing

MOST_PIXELS = 200_000_000
_MOST_BYTES = 2_000_000_000
_WHITE_12_BIT = 4095
_COPY_AGAIN = "copy or export it again"
_KNOWN = "name a JPEG, PNG, TIFF, WebP, BMP, PGM or PPM file"

# we say ourselves what is wrong with a file, in one line
cv2.utils.logging.setLogLevel(cv2.utils.logging.LOG_LEVEL_SILENT)


@dataclass(frozen=True, slots=True, eq=False)
class Picture:
    """What a person sees in a picture file."""

    pixels: NDArray[np.uint8]
    """(H, W, 3) BGR, read-only, turned as EXIF says; 16 bits scaled to 8, an alpha channel left out."""
    warnings: tuple[str, ...]
    """Sentences for people."""


def read(path: Path) -> Picture:
    """JPEG, PNG, TIFF, WebP, BMP, PGM or PPM, told by content, not by name.

    PictureError, one line, for everything else, for all damage and for more than ``MOST_PIXELS``.
    """
    return decode(_bytes(path), str(path))


def decode(data: bytes, name: str) -> Picture:
    """What is in a picture file, see `read`; ``name`` is for messages."""
    kind, parse = _kind(name, data)
    try:
        header = parse(data)
    except (struct.error, OverflowError) as error:
        raise PictureError(f"{name} is only the beginning of a {kind} picture", hint=_COPY_AGAIN) from error
    if header.width * header.height > MOST_PIXELS:
        raise PictureError(
            f"{name} says it has {header.width}x{header.height} pixels, "
            f"more than {MOST_PIXELS // 1_000_000} million are not read",
            hint="cut or shrink it",
        )
    if header.damage:
        raise PictureError(f"{name} is a damaged {kind} picture: {header.damage}", hint=_COPY_AGAIN)
    image = _decoded(name, kind, header.data or data)
    return _picture(image, header)


def reaches_its_end(data: bytes) -> bool | None:
    """False for the beginning of a JPEG, PNG, WebP or BMP picture; None for kinds that do not tell."""
    for magic, kind, parse in _KINDS:
        if re.match(magic, data, re.DOTALL):
            try:
                header = parse(data)
            except (struct.error, OverflowError):
                return False
            return None if kind in ("TIFF", "PNM") else header.damage is None
    return None


def write_atomically(path: Path, pixels: NDArray[np.uint8]) -> None:
    """BGR (H, W, 3) or grey (H, W) -> PNG or JPEG by suffix. PictureError where it cannot be written.

    Nobody ever sees half of it: a reader finds the old file, or none, or the whole new one.
    """
    if path.suffix.lower() not in (".png", ".jpg", ".jpeg"):
        raise PictureError(
            f"{path}: a picture is written as PNG or JPEG", hint="end its name in .png or .jpg"
        )
    _, encoded = cv2.imencode(path.suffix.lower(), pixels)
    try:
        with replacing(path) as file:
            file.write(encoded.tobytes())
    except OSError as error:
        raise PictureError(
            f"cannot write {path}: {error.strerror}",
            hint="is the folder there, may this user write, is it full?",
        ) from error


def _bytes(path: Path) -> bytes:
    try:
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            raise PictureError(f"{path} is a folder, not a picture", hint=_KNOWN)
        if not stat.S_ISREG(status.st_mode):
            # a pipe would hang for ever
            raise PictureError(f"{path} is a device or pipe, not a picture", hint=_KNOWN)
        if not status.st_size:
            raise PictureError(f"{path} is empty", hint=_COPY_AGAIN)
        if status.st_size > _MOST_BYTES:
            raise PictureError(
                f"{path} has {status.st_size / 1e9:.1f} GB, too much for a picture", hint=_KNOWN
            )
        return path.read_bytes()
    except FileNotFoundError as error:
        raise PictureError(f"there is no picture {path}", hint="is the path right?") from error
    except OSError as error:
        raise PictureError(f"cannot read {path}: {error.strerror}", hint="may this user read it?") from error


def _decoded(name: str, kind: str, data: bytes) -> NDArray[np.integer]:
    try:
        image = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR | cv2.IMREAD_ANYDEPTH)
    except cv2.error as error:
        raise PictureError(f"{name} is a {kind} picture that cannot be read: {error.err}") from error
    if image is None or image.dtype not in (np.uint8, np.uint16):
        raise PictureError(
            f"{name} is a {kind} picture that is damaged or of a rare kind",
            hint=f"{_COPY_AGAIN}, with 8 or 16 bits a channel",
        )
    return np.asarray(image)


def _picture(image: NDArray[np.integer], header: _Header) -> Picture:
    warnings: tuple[str, ...] = ()
    deep = image.dtype == np.uint16
    white = header.white or (65535 if deep else 255)
    if deep and white > _WHITE_12_BIT and (brightest := int(image.max())) <= _WHITE_12_BIT:
        text = f"the picture is nearly black: its 16-bit values end at {brightest}, as 12-bit values do"
        warnings = (f"{text}; store them scaled to 16 bits",)
    scaled = cv2.convertScaleAbs(image, alpha=255 / white) if white != 255 else image
    pixels = np.ascontiguousarray(scaled, np.uint8)
    pixels.flags.writeable = False
    return Picture(pixels, warnings)


class _Header(NamedTuple):
    width: int
    height: int
    damage: str | None = None
    white: int | None = None
    """The value that means white where the file says it."""
    data: bytes | None = None
    """What to decode instead."""


def _jpeg(data: bytes) -> _Header:
    # OpenCV decodes half a file without a word: the rest is grey
    width = height = 0
    marker = re.compile(rb"\xff([\x01-\xcf\xd8-\xfe])")
    position = 2
    while found := marker.search(data, position):
        position, code = found.end(), found[1][0]
        if code == 0xD9:
            return _Header(width, height)
        if code in (0x01, 0xD8):
            continue
        (length,) = struct.unpack_from(">H", data, position)
        if 0xC0 <= code <= 0xCF and code not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack_from(">HH", data, position + 3)
        position += length
    return _Header(width, height, "it ends before its end marker")


def _png(data: bytes) -> _Header:
    width, height = struct.unpack_from(">II", data, 16)
    view = memoryview(data)
    position, kind = 8, b""
    while kind != b"IEND":
        length, kind = struct.unpack_from(">I4s", data, position)
        (checksum,) = struct.unpack_from(">I", data, position + 8 + length)
        if zlib.crc32(view[position + 4 : position + 8 + length]) != checksum:
            return _Header(width, height, "a checksum is wrong")
        position += 12 + length
    return _Header(width, height)


def _webp(data: bytes) -> _Header:
    (size,) = struct.unpack_from("<I", data, 4)
    kind = data[12:16]
    if kind == b"VP8X":
        width = 1 + int.from_bytes(data[24:27], "little")
        height = 1 + int.from_bytes(data[27:30], "little")
    elif kind == b"VP8L":
        (bits,) = struct.unpack_from("<I", data, 21)
        width, height = 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    else:
        width, height = (side & 0x3FFF for side in struct.unpack_from("<HH", data, 26))
    return _Header(width, height, "it ends too early" if len(data) < size + 8 else None)


def _bmp(data: bytes) -> _Header:
    (size,) = struct.unpack_from("<I", data, 14)
    width, height = struct.unpack_from("<HH" if size == 12 else "<ii", data, 18)
    (whole,) = struct.unpack_from("<I", data, 2)
    return _Header(width, abs(height), "it ends too early" if len(data) < whole else None)


def _pnm(data: bytes) -> _Header:
    gap = rb"(?:\s|#[^\n]*\n)+"
    found = re.match(rb"P[1-6]" + gap + rb"(\d{1,9})" + gap + rb"(\d{1,9})" + gap + rb"(\d{1,9})?", data)
    if not found:
        return _Header(0, 0, "its header cannot be read")
    white = int(found[3]) if found[3] and data[1:2] not in b"14" else None
    return _Header(int(found[1]), int(found[2]), white=white or None)


def _tiff(data: bytes) -> _Header:
    order = "<" if data[:2] == b"II" else ">"
    big = data[2:4] in (b"\x2b\0", b"\0\x2b")
    (start,) = struct.unpack_from(order + ("Q" if big else "I"), data, 8 if big else 4)
    (count,) = struct.unpack_from(order + ("Q" if big else "H"), data, start)
    start += 8 if big else 2
    sides = {}
    extra = None
    for place in range(start, start + count * (20 if big else 12), 20 if big else 12):
        tag, type_ = struct.unpack_from(order + "HH", data, place)
        value = place + (12 if big else 8)
        if tag in (256, 257):
            (sides[tag],) = struct.unpack_from(order + {3: "H", 16: "Q"}.get(type_, "I"), data, value)
        elif tag == 338 and struct.unpack_from(order + "H", data, value) == (2,):
            extra = value
    # Unassociated alpha makes OpenCV darken the colours by it; called unspecified, it leaves them alone.
    plain = data[:extra] + b"\0\0" + data[extra + 2 :] if extra is not None else None
    return _Header(sides.get(256, 0), sides.get(257, 0), data=plain)


_KINDS: tuple[tuple[bytes, str, Callable[[bytes], _Header]], ...] = (
    (rb"\xff\xd8\xff", "JPEG", _jpeg),
    (rb"\x89PNG\r\n\x1a\n", "PNG", _png),
    (rb"II[*+]\0|MM\0[*+]", "TIFF", _tiff),
    (rb"RIFF....WEBP", "WebP", _webp),
    (rb"BM.{12}[\x0c-\x7c]\0\0\0", "BMP", _bmp),
    (rb"P[1-6][\s#]", "PNM", _pnm),
)

_OTHERS = (
    (rb"\s*version https://git-lfs", "is a Git LFS pointer, not the picture", "fetch it with `git lfs pull`"),
    (rb"(?i)\s*<(!doctype html|html|head|body)", "is an HTML page, not a picture", "download it again"),
    (rb"\s*(<\?xml|<svg)", "is an XML or SVG file, not a picture of pixels", _KNOWN),
    (rb"GIF8", "is a GIF picture", "save it as PNG"),
    (rb"....ftyp(avi|hei|mif|hev)", "is an AVIF or HEIC picture", "save it as PNG or JPEG"),
    (rb"\0\0\0\x0cjP|\xff\x4f\xff\x51", "is a JPEG 2000 picture", "save it as PNG or JPEG"),
    (rb"....ftyp|RIFF....AVI |\x1aE\xdf\xa3", "is a video, not a picture", "use a camera of type files"),
    (rb"%PDF", "is a PDF, not a picture", _KNOWN),
    (rb"[\t\n\r\x20-\x7e]{1,512}\Z", "is a text file, not a picture", _KNOWN),
)  # fmt: skip


def _kind(name: str, data: bytes) -> tuple[str, Callable[[bytes], _Header]]:
    for magic, kind, parse in _KINDS:
        if re.match(magic, data, re.DOTALL):
            return kind, parse
    for magic, what, remedy in _OTHERS:
        if re.match(magic, data[:512], re.DOTALL):
            raise PictureError(f"{name} {what}", hint=remedy)
    raise PictureError(f"{name} is not a picture of a known kind", hint=_KNOWN)
