"""Picture files: read whole or refused with the reason, written whole or not at all."""

from __future__ import annotations

import base64
import json
import os
import resource
import struct
import threading
import zlib
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from edge_infer.errors import PictureError
from edge_infer.picture import read, write_atomically

Pixels = NDArray[np.uint8]

# 16x16, left BGR (60, 30, 200), right (220, 160, 20); made with Pillow, which OpenCV cannot do
CMYK = base64.b64decode(
    "/9j/7gAOQWRvYmUAZAAAAAAA/9sAQwADAgIDAgIDAwMDBAMDBAUIBQUEBAUKBwcGCAwKDAwLCgsLDQ4SEA0OEQ4LCxAWEBETFBUV"
    "FQwPFxgWFBgSFBUU/8AAFAgAEAAQBEMRAE0RAFkRAEsRAP/EABYAAQEBAAAAAAAAAAAAAAAAAAkACP/EABQQAQAAAAAAAAAAAAAA"
    "AAAAAAD/2gAOBEMATQBZAEsAAD8A2APpkoqYHytGqR4BShVQHytGqT//2Q=="
)


def _scene(height: int = 48, width: int = 64) -> Pixels:
    """No two corners are alike."""
    y, x = np.mgrid[:height, :width]
    return np.stack([x * 3 % 256, y * 4 % 256, (x + y) * 2 % 256], axis=-1).astype(np.uint8)


def _encoded(suffix: str, pixels: NDArray[Any], *options: int) -> bytes:
    done, data = cv2.imencode(suffix, pixels, list(options))
    assert done
    return bytes(data.tobytes())


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _png(width: int, height: int, depth: int, color: int, lines: list[bytes], *chunks: bytes) -> bytes:
    header = _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, 0))
    pixels = _chunk(b"IDAT", zlib.compress(b"".join(b"\0" + line for line in lines)))
    return b"\x89PNG\r\n\x1a\n" + header + b"".join(chunks) + pixels + _chunk(b"IEND", b"")


def _tiff(pixels: Pixels, *, orientation: int = 1, extra: int | None = None, order: str = "<") -> bytes:
    """An uncompressed TIFF of 8 bits a channel."""
    height, width, channels = pixels.shape
    entries = [
        (256, 4, 1, width), (257, 4, 1, height), (258, 3, 1, 8), (259, 3, 1, 1), (262, 3, 1, 2),
        (273, 4, 1, 8), (274, 3, 1, orientation), (277, 3, 1, channels), (278, 4, 1, height),
        (279, 4, 1, pixels.size), (284, 3, 1, 1),
    ]  # fmt: skip
    if extra is not None:
        entries.append((338, 3, 1, extra))
    at = 8 + pixels.size
    table = struct.pack(order + "H", len(entries))
    for tag, kind, count, value in entries:
        table += struct.pack(
            order + ("HHIHH" if kind == 3 else "HHII"), tag, kind, count, value, *[0] * (kind == 3)
        )
    mark = b"II*\0" if order == "<" else b"MM\0*"
    return mark + struct.pack(order + "I", at) + pixels.tobytes() + table + b"\0\0\0\0"


def _with_exif(jpeg: bytes, orientation: int, thumbnail: bytes = b"") -> bytes:
    tiff = b"II*\0" + struct.pack("<IHHHIHHI", 8, 1, 0x112, 3, 1, orientation, 0, 0) + thumbnail
    return jpeg[:2] + b"\xff\xe1" + struct.pack(">H", len(tiff) + 8) + b"Exif\0\0" + tiff + jpeg[2:]


def _read(tmp_path: Path, data: bytes, name: str = "picture") -> Pixels:
    path = tmp_path / name
    path.write_bytes(data)
    return read(path).pixels


@pytest.mark.parametrize("suffix", [".png", ".bmp", ".tiff", ".ppm", ".webp", ".jpg"])
def test_a_picture_comes_back_as_it_was_written(tmp_path: Path, suffix: str) -> None:
    options = {".webp": [cv2.IMWRITE_WEBP_QUALITY, 101], ".jpg": [cv2.IMWRITE_JPEG_QUALITY, 100]}.get(
        suffix, []
    )
    # the kind is told by content: the name may lie
    pixels = _read(tmp_path, _encoded(suffix, _scene(), *options), "picture.png")
    tolerance = 12 if suffix == ".jpg" else 0
    assert np.abs(pixels.astype(int) - _scene()).max() <= tolerance
    assert pixels.dtype == np.uint8
    assert not pixels.flags.writeable
    assert pixels.flags.c_contiguous


@pytest.mark.parametrize("suffix", [".png", ".bmp", ".tiff", ".pgm"])
def test_a_grey_picture_becomes_three_equal_channels(tmp_path: Path, suffix: str) -> None:
    grey = _scene()[:, :, 2]
    pixels = _read(tmp_path, _encoded(suffix, grey))
    np.testing.assert_array_equal(pixels, np.repeat(grey[:, :, None], 3, axis=2))


def test_a_palette_is_looked_up(tmp_path: Path) -> None:
    palette = _chunk(b"PLTE", bytes([10, 20, 30, 200, 100, 50]))
    pixels = _read(tmp_path, _png(4, 2, 8, 3, [b"\0\1\0\1", b"\1\1\0\0"], palette))
    assert pixels[0].tolist() == [[30, 20, 10], [50, 100, 200]] * 2
    assert pixels[1].tolist() == [[50, 100, 200]] * 2 + [[30, 20, 10]] * 2


def test_one_bit_is_black_and_white(tmp_path: Path) -> None:
    pixels = _read(tmp_path, _png(8, 1, 1, 0, [b"\xf0"]))
    assert pixels[0, :, 0].tolist() == [255] * 4 + [0] * 4


@pytest.mark.parametrize("suffix", [".png", ".tiff", ".webp"])
def test_an_alpha_channel_is_left_out(tmp_path: Path, suffix: str) -> None:
    with_alpha = np.dstack([_scene(), np.full((48, 64), 90, np.uint8)])
    pixels = _read(
        tmp_path,
        _encoded(suffix, with_alpha, *([cv2.IMWRITE_WEBP_QUALITY, 101] if suffix == ".webp" else [])),
    )
    np.testing.assert_array_equal(pixels, _scene())


@pytest.mark.parametrize("order", ["<", ">"])
def test_an_unassociated_alpha_channel_does_not_darken_a_tiff(tmp_path: Path, order: str) -> None:
    rgba = np.dstack([_scene()[:, :, ::-1], np.full((48, 64), 90, np.uint8)])
    for extra in (None, 0, 1, 2):
        pixels = _read(tmp_path, _tiff(rgba, extra=extra, order=order))
        np.testing.assert_array_equal(pixels, _scene())


def test_cmyk_becomes_the_colours_a_person_sees(tmp_path: Path) -> None:
    pixels = _read(tmp_path, CMYK)
    np.testing.assert_allclose(pixels[8, 4], (60, 30, 200), atol=4)
    np.testing.assert_allclose(pixels[8, 12], (220, 160, 20), atol=4)


@pytest.mark.parametrize("suffix", [".png", ".tiff", ".ppm"])
def test_16_bits_are_scaled_by_their_depth(tmp_path: Path, suffix: str) -> None:
    deep = _scene().astype(np.uint16) * 257
    path = tmp_path / f"deep{suffix}"
    path.write_bytes(_encoded(suffix, deep))
    picture = read(path)
    np.testing.assert_array_equal(picture.pixels, _scene())
    assert picture.warnings == ()


def test_a_pgm_is_scaled_by_the_white_it_names(tmp_path: Path) -> None:
    path = tmp_path / "twelve.pgm"
    values = np.array([[0, 1000, 4095]], ">u2")
    path.write_bytes(b"P5\n# 12 bits\n3 1\n4095\n" + values.tobytes())
    picture = read(path)
    assert picture.pixels[0, :, 0].tolist() == [0, 62, 255]
    assert picture.warnings == ()
    assert _read(tmp_path, b"P5 3 1 100 " + bytes([0, 50, 100]))[0, :, 0].tolist() == [0, 128, 255]


def test_12_bits_in_16_are_said_to_be_nearly_black(tmp_path: Path) -> None:
    path = tmp_path / "dark.png"
    path.write_bytes(_encoded(".png", _scene().astype(np.uint16) * 16))
    (warning,) = read(path).warnings
    assert "12-bit" in warning
    assert str(int(_scene().max()) * 16) in warning


def _turned(pixels: Pixels, orientation: int) -> Pixels:
    """As the EXIF standard draws it."""
    turned: Pixels = pixels
    if orientation in (5, 6, 7, 8):
        turned = turned.transpose(1, 0, 2)
    if orientation in (2, 3, 6, 7):
        turned = turned[:, ::-1]
    return turned[::-1] if orientation in (3, 4, 7, 8) else turned


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_picture_is_turned_as_a_person_sees_it(tmp_path: Path, orientation: int) -> None:
    jpeg = _encoded(".jpg", _scene(), cv2.IMWRITE_JPEG_QUALITY, 100)
    upright = _read(tmp_path, jpeg)
    np.testing.assert_array_equal(
        _read(tmp_path, _with_exif(jpeg, orientation)), _turned(upright, orientation)
    )
    tiff = _tiff(np.ascontiguousarray(_scene()[:, :, ::-1]), orientation=orientation)
    np.testing.assert_array_equal(_read(tmp_path, tiff), _turned(_scene(), orientation))


def test_a_path_may_hold_spaces_and_any_letters(tmp_path: Path) -> None:
    for name in ("name with space ü.png", "瓶子.png", "a'b\"c.png", os.fsdecode(b"latin-\xfc.png")):
        np.testing.assert_array_equal(_read(tmp_path, _encoded(".png", _scene()), name), _scene())


def _whole_files() -> dict[str, bytes]:
    noise = np.random.default_rng(0).integers(0, 256, (90, 120, 3), np.uint8)
    smooth = np.asarray(cv2.GaussianBlur(noise, (0, 0), 4), np.uint8)
    jpeg = _encoded(".jpg", smooth)
    return {
        "jpeg": jpeg,
        "progressive": _encoded(".jpg", smooth, cv2.IMWRITE_JPEG_PROGRESSIVE, 1),
        "restarts": _encoded(".jpg", smooth, cv2.IMWRITE_JPEG_RST_INTERVAL, 2),
        # the thumbnail inside has an end marker of its own
        "thumbnail": _with_exif(jpeg, 1, _encoded(".jpg", smooth[::4, ::4])),
        "png": _encoded(".png", smooth),
        "webp": _encoded(".webp", smooth, cv2.IMWRITE_WEBP_QUALITY, 90),
        "webp lossless": _encoded(".webp", smooth, cv2.IMWRITE_WEBP_QUALITY, 101),
        "tiff": _encoded(".tiff", smooth, cv2.IMWRITE_TIFF_COMPRESSION, 1),
        "tiff lzw": _encoded(".tiff", smooth, cv2.IMWRITE_TIFF_COMPRESSION, 5),
        "bmp": _encoded(".bmp", smooth),
        "ppm": _encoded(".ppm", smooth),
    }


@pytest.mark.parametrize("kind", list(_whole_files()))
def test_half_a_file_is_never_a_picture(tmp_path: Path, kind: str, capfd: pytest.CaptureFixture[str]) -> None:
    whole = _whole_files()[kind]
    assert _read(tmp_path, whole).shape == (90, 120, 3)
    path = tmp_path / "half"
    lengths = {1, 3, 8, 20, 40, len(whole) - 1, len(whole) - 2}
    for length in lengths | {len(whole) * part // 20 for part in range(1, 20)}:
        path.write_bytes(whole[:length])
        with pytest.raises(PictureError, match=str(path)) as caught:
            read(path)
        assert "\n" not in str(caught.value)
        # whatever OpenCV makes of half a file: it is found before
        if length >= 8 and kind in ("jpeg", "progressive", "restarts", "thumbnail", "png"):
            assert "beginning of" in str(caught.value) or "end marker" in str(caught.value)
    assert capfd.readouterr() == ("", "")


def test_a_file_whose_end_was_never_written_is_not_a_picture(tmp_path: Path) -> None:
    # its full length was reserved, then the power went
    for kind in ("jpeg", "png", "tiff lzw"):
        whole = _whole_files()[kind]
        with pytest.raises(PictureError):
            _read(tmp_path, whole[: len(whole) // 2] + bytes(len(whole) - len(whole) // 2))


def test_every_flipped_byte_of_a_png_is_found(tmp_path: Path) -> None:
    whole = _whole_files()["png"]
    for position in range(8, len(whole), 211):
        broken = bytearray(whole)
        broken[position] ^= 0x40
        with pytest.raises(PictureError, match=r"checksum is wrong|beginning of"):
            _read(tmp_path, bytes(broken))


def test_bytes_after_the_end_of_a_jpeg_do_no_harm(tmp_path: Path) -> None:
    jpeg = _whole_files()["jpeg"]
    np.testing.assert_array_equal(_read(tmp_path, jpeg + b"\0" * 100 + b"vendor data"), _read(tmp_path, jpeg))


def _huge() -> dict[str, bytes]:
    jpeg = bytearray(_encoded(".jpg", _scene()))
    frame = jpeg.index(b"\xff\xc0")
    jpeg[frame + 5 : frame + 9] = struct.pack(">HH", 65000, 65000)
    bmp = bytearray(_encoded(".bmp", _scene()))
    bmp[18:26] = struct.pack("<ii", 20000, -20000)
    tiff = _tiff(_scene()).replace(
        struct.pack("<HHII", 256, 4, 1, 64), struct.pack("<HHII", 256, 4, 1, 10**7)
    )
    webp = (
        b"RIFF" + struct.pack("<I", 22) + b"WEBPVP8X" + struct.pack("<I", 10) + bytes(4) + b"\xff\x3f\0" * 2
    )
    return {
        "png": _png(60000, 60000, 8, 2, [b""]),
        "jpeg": bytes(jpeg),
        "bmp": bytes(bmp),
        "tiff": tiff,
        "webp": webp,
        "ppm": b"P6\n100000 100000\n255\n",
    }


@pytest.mark.parametrize("kind", list(_huge()))
def test_a_header_of_absurd_size_is_refused_before_decoding(tmp_path: Path, kind: str) -> None:
    with pytest.raises(PictureError, match="more than 200 million"):
        _read(tmp_path, _huge()[kind])


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"", "is empty"),
        (b"hello\n", "is a text file"),
        (b"<!DOCTYPE html>\n<html><body>404", "is an HTML page"),
        (b"\n <html lang=de>", "is an HTML page"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:12\n", "is a Git LFS pointer"),
        (b"<?xml version='1.0'?><svg/>", "is an XML or SVG file"),
        (b"GIF89a" + bytes(40), "is a GIF"),
        (b"\0\0\0\x20ftypavif" + bytes(40), "is an AVIF"),
        (b"\0\0\0\x20ftypheic" + bytes(40), "is an AVIF or HEIC"),
        (b"\0\0\0\x20ftypisom" + bytes(40), "is a video"),
        (b"RIFF\x24\0\0\0AVI LIST" + bytes(40), "is a video"),
        (b"%PDF-1.7", "is a PDF"),
        (bytes(range(256)), "is not a picture of a known kind"),
        (
            _tiff(_scene()).replace(
                struct.pack("<HHIHH", 258, 3, 1, 8, 0), struct.pack("<HHIHH", 258, 3, 1, 7, 0)
            ),
            "TIFF",
        ),
    ],
)
def test_what_is_no_picture_is_called_what_it_is(tmp_path: Path, data: bytes, what: str) -> None:
    path = tmp_path / "picture.png"
    path.write_bytes(data)
    with pytest.raises(PictureError, match=what) as caught:
        read(path)
    assert str(path) in str(caught.value)
    assert caught.value.hint


def test_what_cannot_be_opened_is_said(tmp_path: Path) -> None:
    with pytest.raises(PictureError, match="there is no picture"):
        read(tmp_path / "absent.png")
    with pytest.raises(PictureError, match="is a folder"):
        read(tmp_path)
    os.mkfifo(tmp_path / "pipe.png")
    with pytest.raises(PictureError, match="device or pipe"):
        read(tmp_path / "pipe.png")
    (tmp_path / "file.png").write_bytes(b"x")
    with pytest.raises(PictureError, match="Not a directory"):
        read(tmp_path / "file.png" / "picture.png")


def test_a_picture_that_this_user_may_not_read_is_said(tmp_path: Path) -> None:
    path = tmp_path / "secret.png"
    path.write_bytes(_encoded(".png", _scene()))
    path.chmod(0)
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        with pytest.raises(PictureError, match="Permission denied"):
            read(path)
    finally:
        if root:
            os.seteuid(0)


def test_a_watched_folder_gives_only_whole_pictures(shared: Path) -> None:
    folder = shared / "cases/open/C19"
    files = json.loads((folder / "expected.json").read_text())["files"]
    for name in files:
        if name in ("whole.jpg", "name with space ü.jpg", ".hidden.jpg.part"):
            assert read(folder / name).pixels.shape == (480, 640, 3)
        else:
            with pytest.raises(PictureError):
                read(folder / name)


def test_a_deep_picture_is_neither_white_nor_silently_black(shared: Path) -> None:
    folder = shared / "cases/open/A45"
    png, tiff = read(folder / "full16.png"), read(folder / "full16.tiff")
    np.testing.assert_array_equal(png.pixels, tiff.pixels)
    assert 20 < png.pixels.mean() < 235
    assert png.warnings == tiff.warnings == ()
    assert "nearly black" in read(folder / "twelve_in_16.png").warnings[0]


@pytest.mark.parametrize("name", ["a.png", "b.PNG", "c.jpg", "ü d.jpeg"])
def test_a_picture_is_written_by_its_suffix(tmp_path: Path, name: str) -> None:
    write_atomically(tmp_path / name, _scene())
    np.testing.assert_allclose(read(tmp_path / name).pixels.astype(int), _scene(), atol=90)
    assert [path.name for path in tmp_path.iterdir()] == [name]
    mask = os.umask(0)
    os.umask(mask)
    assert (tmp_path / name).stat().st_mode & 0o777 == 0o666 & ~mask


def test_a_reader_never_meets_half_a_written_picture(tmp_path: Path) -> None:
    path = tmp_path / "newest.png"
    scenes = [np.random.default_rng(seed).integers(0, 256, (120, 160, 3), np.uint8) for seed in range(2)]
    write_atomically(path, scenes[0])
    stop = threading.Event()

    def write() -> None:
        for turn in range(60):
            write_atomically(path, scenes[turn % 2])
        stop.set()

    writer = threading.Thread(target=write)
    writer.start()
    while not stop.is_set():
        seen = read(path).pixels
        assert any(np.array_equal(seen, scene) for scene in scenes)
    writer.join()


def test_a_failed_write_leaves_the_old_picture_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "kept.png"
    write_atomically(path, _scene())
    noise = np.random.default_rng(0).integers(0, 256, (200, 200, 3), np.uint8)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    # the kernel stops the write in the middle of the file
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(PictureError, match="cannot write"):
            write_atomically(path, noise)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    np.testing.assert_array_equal(read(path).pixels, _scene())
    assert list(tmp_path.iterdir()) == [path]


def test_a_picture_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    with pytest.raises(PictureError, match="No such file or directory"):
        write_atomically(tmp_path / "absent" / "picture.png", _scene())
    with pytest.raises(PictureError, match=r"PNG or JPEG"):
        write_atomically(tmp_path / "picture.gif", _scene())
    assert list(tmp_path.iterdir()) == []
