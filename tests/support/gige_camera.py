"""A GigE Vision camera for tests: libaravis's own, over real UDP, in a process of its own.

It paints what the tests can check: each frame of grey pictures begins with when it was drawn and its number.
One address has one camera, on the port that the standard fixes: a lock file keeps others off it.
"""

from __future__ import annotations

import argparse
import ctypes as c
import fcntl
import functools
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

STAMP = 16
"""Bytes of the stamp at the beginning of a grey picture."""
COLORS = {"red": (250, 30, 10), "green": (20, 240, 40), "blue": (15, 35, 245), "mixed": (200, 120, 60)}
"""RGB of the four quarters of a coloured picture: upper left, upper right, lower left, lower right."""
DEEP = 0xABC
"""The 12-bit value of the lower half of deep grey pictures; the upper half holds ``x * 16 + 5``."""


@dataclass(frozen=True)
class Stamp:
    """What the camera wrote into a frame."""

    time_s: float
    """When it was drawn, on the monotonic clock that all processes of this machine share."""
    frame_id: int


def read_stamp(pixels: NDArray[np.uint8]) -> Stamp:
    """Of a grey picture."""
    raw = pixels[0, :STAMP, 0].tobytes()
    return Stamp(int.from_bytes(raw[:8], "little") / 1e9, int.from_bytes(raw[8:], "little"))


class GigeCamera:
    """A running camera. Use it as a context manager; it ends with the test."""

    def __init__(self, address: str = "127.0.0.1", serial: str = "T1", *options: str) -> None:
        self.address, self.serial = address, serial
        self._lock = (Path(tempfile.gettempdir()) / f"edge-infer-gige-{address}.lock").open("w")
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        if address != "127.0.0.1":
            # one more address of the loopback interface; needs root
            _ip("replace", address)
        self._command = [sys.executable, __file__, address, serial, *options]
        self._process = self._started()

    def _started(self) -> subprocess.Popen[str]:
        process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        assert process.stdout.readline() == "1\n", f"the camera at {self.address} does not run"
        return process

    def tell(self, *words: object) -> None:
        """Give the camera a command; returns when it is done."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(" ".join(str(word) for word in words) + "\n")
        self._process.stdin.flush()
        assert self._process.stdout.readline() == "done\n"

    def pulse(self) -> None:
        """A part passes the light barrier on its Line1."""
        self.tell("pulse")

    def lose(self, share: float) -> None:
        """Of its packets of pictures, from now on."""
        self.tell("lose", share)

    def send_to_nobody(self) -> None:
        """It still sends to a program that is gone."""
        self.tell("send")

    def freeze(self) -> None:
        """Nothing comes any more and nothing is answered: a pulled cable."""
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(5)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def restart(self) -> None:
        """The camera gets its power back."""
        self._process = self._started()

    def __enter__(self) -> GigeCamera:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self.kill()
        if self.address != "127.0.0.1":
            _ip("del", self.address)
        self._lock.close()


def _ip(what: str, address: str) -> None:
    subprocess.run(["ip", "addr", what, f"{address}/32", "dev", "lo"], check=True, timeout=10)


# -- the camera's half


def _serve(options: argparse.Namespace) -> None:
    aravis, gobject = c.CDLL("libaravis-0.8.so.0"), c.CDLL("libgobject-2.0.so.0")
    new, fake_of = aravis.arv_gv_fake_camera_new_full, aravis.arv_gv_fake_camera_get_fake_camera
    new.restype = fake_of.restype = c.c_void_p
    new.argtypes, fake_of.argtypes = [c.c_char_p] * 3, [c.c_void_p]
    aravis.arv_gv_fake_camera_is_running.argtypes = [c.c_void_p]
    write = aravis.arv_fake_camera_write_register
    write.argtypes = [c.c_void_p, c.c_uint32, c.c_uint32]
    description = Path(tempfile.mkstemp(suffix=".xml")[1])
    description.write_text(_description(aravis, line=options.line), encoding="utf-8")
    camera = new(options.address.encode(), options.serial.encode(), str(description).encode())
    description.unlink()
    fake = fake_of(camera)
    # waits for a trigger in steps of this instead of its own 40 ms
    aravis.arv_fake_camera_set_trigger_frequency.argtypes = [c.c_void_p, c.c_double]
    aravis.arv_fake_camera_set_trigger_frequency(fake, 250.0)
    if options.address_of_controller:
        write(fake, 0x0A14, int.from_bytes(bytes(map(int, options.address_of_controller.split("."))), "big"))
    painter = None if options.own_picture else _painter(aravis, options.grey)
    aravis.arv_fake_camera_set_fill_pattern.argtypes = [c.c_void_p] * 3
    if painter is not None:
        aravis.arv_fake_camera_set_fill_pattern(fake, c.cast(painter, c.c_void_p), None)
    _say(aravis.arv_gv_fake_camera_is_running(camera))
    for words in map(str.split, sys.stdin):
        if words[0] == "pulse":
            write(fake, 0x30C, 1)
        elif words[0] == "send":
            for register, value in ((0xD00, 9), (0xD18, 0x7F000001), (0x124, 1)):
                write(fake, register, value)
        elif words[0] == "lose":
            _set_double(gobject, camera, b"gvsp-lost-ratio", float(words[1]))
        _say("done")


def _say(word: object) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


class _GValue(c.Structure):
    _fields_ = (("type", c.c_size_t), ("data", c.c_uint64 * 2))


def _set_double(gobject: c.CDLL, instance: int, name: bytes, value: float) -> None:
    holder = _GValue()
    gobject.g_value_init(c.byref(holder), c.c_size_t(15 << 2))
    gobject.g_value_set_double(c.byref(holder), c.c_double(value))
    gobject.g_object_set_property(c.c_void_p(instance), name, c.byref(holder))


def _description(aravis: c.CDLL, *, line: bool) -> str:
    """The library's own, with more pixel formats, a gain in dB, and a feature that keeps at most 100."""
    aravis.arv_fake_camera_new.restype = c.c_void_p
    aravis.arv_fake_camera_get_genicam_xml.restype = c.c_char_p
    aravis.arv_fake_camera_get_genicam_xml.argtypes = [c.c_void_p, c.c_void_p]
    own: bytes = aravis.arv_fake_camera_get_genicam_xml(aravis.arv_fake_camera_new(b"D"), None)
    text = own.decode()
    from edge_infer.sources._genicam.pixel_formats import BY_NAME

    formats = "".join(
        f'<EnumEntry Name="{one.name}"><Value>{one.number}</Value></EnumEntry>'
        for one in BY_NAME.values()
        if f'"{one.name}"' not in text
    )
    text = text.replace(
        "<pValue>PixelFormatRegister</pValue>", f"{formats}<pValue>PixelFormatRegister</pValue>"
    )
    register = (
        '<IntReg Name="{0}Register"><Address>{1}</Address><Length>4</Length><AccessMode>RW</AccessMode>'
        "<pPort>Device</pPort><Sign>Unsigned</Sign><Endianess>BigEndian</Endianess></IntReg>"
    )
    converter = (
        '<Converter Name="{0}Converter"><FormulaTo>{1}</FormulaTo><FormulaFrom>{2}</FormulaFrom>'
        "<pValue>{0}Register</pValue></Converter>"
    )
    more = (
        '<Float Name="Gain"><pValue>GainConverter</pValue><Min>0</Min><Max>24</Max></Float>'
        + converter.format("Gain", "FROM * 10", "TO / 10")
        + register.format("Gain", "0x1f4")
        + '<Float Name="Stubborn"><pValue>StubbornConverter</pValue><Min>0</Min><Max>1000</Max></Float>'
        + converter.format("Stubborn", "(FROM &gt; 100) ? 100 : FROM", "TO")
        + register.format("Stubborn", "0x1f8")
    )
    text = text.replace("<!-- Debug -->", more, 1)
    if line:
        # the simulated camera only knows one source, of value 1: call it a line
        text = re.sub(r'(?s)<EnumEntry Name="Line0".*?</EnumEntry>', "", text)
        text = text.replace('<EnumEntry Name="Software"', '<EnumEntry Name="Line1"')
    return text


def _painter(aravis: c.CDLL, grey: int) -> Any:
    import numpy as np

    from edge_infer.sources._genicam.pixel_formats import BY_NUMBER

    aravis.arv_buffer_get_data.restype = c.c_void_p
    aravis.arv_buffer_get_data.argtypes = [c.c_void_p, c.c_void_p]
    aravis.arv_buffer_get_frame_id.restype = c.c_uint64
    for name in ("frame_id", "image_width", "image_height"):
        getattr(aravis, f"arv_buffer_get_{name}").argtypes = [c.c_void_p]

    def paint(buffer: int, _data: int, _exposure: int, _gain: int, number: int) -> None:
        form = BY_NUMBER[number]
        width = aravis.arv_buffer_get_image_width(buffer)
        height = aravis.arv_buffer_get_image_height(buffer)
        size = width * height * form.bits // 8
        start = c.cast(aravis.arv_buffer_get_data(buffer, None), c.POINTER(c.c_uint8))
        pixels = np.ctypeslib.as_array(start, shape=(size,))
        if form.name == "Mono8":
            pixels[:] = grey
            stamp = time.monotonic_ns().to_bytes(8, "little")
            stamp += aravis.arv_buffer_get_frame_id(buffer).to_bytes(8, "little")
            pixels[:STAMP] = np.frombuffer(stamp, np.uint8)
        else:
            pixels[:] = np.frombuffer(encoded(form.name, width, height), np.uint8)

    return c.CFUNCTYPE(None, c.c_void_p, c.c_void_p, c.c_uint32, c.c_uint32, c.c_uint32)(paint)


@functools.cache
def encoded(name: str, width: int, height: int) -> bytes:
    """The test picture in a pixel format, from the standard's text, not with the product's code."""
    rgb = [
        [tuple(COLORS.values())[(y >= height // 2) * 2 + (x >= width // 2)] for x in range(width)]
        for y in range(height)
    ]
    if name in ("RGB8", "BGR8"):
        return bytes(v for row in rgb for pixel in row for v in (pixel if name == "RGB8" else pixel[::-1]))
    if name.startswith("Mono"):
        depth = int(re.sub(r"\D", "", name))
        values = [x * 16 + 5 if y < height // 2 else DEEP for y in range(height) for x in range(width)]
        values = [(v & 0xFFF) << depth >> 12 for v in values]
    else:
        first, depth = name[5:7], int(re.sub(r"\D", "", name))
        second = {"RG": "GB", "GR": "BG", "GB": "RG", "BG": "GR"}[first]
        values = [
            rgb[y][x]["RGB".index((first, second)[y % 2][x % 2])] << (depth - 8)
            for y in range(height)
            for x in range(width)
        ]
    if name.endswith("Packed"):
        low = depth - 8
        return bytes(
            b
            for a, z in zip(values[::2], values[1::2], strict=True)
            for b in (a >> low, a & (1 << low) - 1 | (z & (1 << low) - 1) << 4, z >> low)
        )
    if name.endswith("p"):
        stream = 0
        for position, value in enumerate(values):
            stream |= value << position * depth
        return stream.to_bytes(len(values) * depth // 8, "little")
    return bytes(values) if depth == 8 else b"".join(v.to_bytes(2, "little") for v in values)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="A GigE Vision camera on UDP port 3956; prints 1 when it runs."
    )
    parser.add_argument("address")
    parser.add_argument("serial")
    parser.add_argument("--grey", type=int, default=90, help="of its grey pictures")
    parser.add_argument("--line", action="store_true", help="with a Line1, no software trigger")
    parser.add_argument("--own-picture", action="store_true", help="the library's moving ramp")
    parser.add_argument("--address-of-controller", help="what it says about who controls it")
    return parser.parse_args()


if __name__ == "__main__":
    sys.path.insert(0, os.getcwd())  # noqa: PTH109
    _serve(_options())
