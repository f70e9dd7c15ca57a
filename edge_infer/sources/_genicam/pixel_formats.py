"""The pixels of industrial cameras (GenICam's PFNC formats) as 8-bit BGR."""

from __future__ import annotations

from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray


class PixelFormat(NamedTuple):
    """How a camera sends its pixels."""

    name: str
    number: int
    """PFNC."""
    colors: str
    """``Mono``, ``RGB``, ``BGR``, or a Bayer order by its first two rows: ``RG`` is R G over G B."""
    layout: str
    """8, 10, 12, 14 or 16 (a little-endian word each), ``10p`` ``12p`` (a stream of bits), ``10Packed``
    ``12Packed`` (two pixels in three bytes, GigE Vision 1)."""

    @property
    def bits(self) -> int:
        """Of one pixel, all its colours together."""
        return self.number >> 16 & 0xFF

    def row_bytes(self, width: int) -> int:
        """Without padding."""
        return -(-width * self.bits // 8)


_NUMBERS = {
    "Mono8": 0x01080001, "Mono10": 0x01100003, "Mono10Packed": 0x010C0004, "Mono10p": 0x010A0046,
    "Mono12": 0x01100005, "Mono12Packed": 0x010C0006, "Mono12p": 0x010C0047, "Mono14": 0x01100025,
    "Mono16": 0x01100007,
    "BayerGR8": 0x01080008, "BayerRG8": 0x01080009, "BayerGB8": 0x0108000A, "BayerBG8": 0x0108000B,
    "BayerGR10": 0x0110000C, "BayerRG10": 0x0110000D, "BayerGB10": 0x0110000E, "BayerBG10": 0x0110000F,
    "BayerGR12": 0x01100010, "BayerRG12": 0x01100011, "BayerGB12": 0x01100012, "BayerBG12": 0x01100013,
    "BayerGR16": 0x0110002E, "BayerRG16": 0x0110002F, "BayerGB16": 0x01100030, "BayerBG16": 0x01100031,
    "BayerGR10Packed": 0x010C0026, "BayerRG10Packed": 0x010C0027,
    "BayerGB10Packed": 0x010C0028, "BayerBG10Packed": 0x010C0029,
    "BayerGR12Packed": 0x010C002A, "BayerRG12Packed": 0x010C002B,
    "BayerGB12Packed": 0x010C002C, "BayerBG12Packed": 0x010C002D,
    "BayerBG10p": 0x010A0052, "BayerGB10p": 0x010A0054, "BayerGR10p": 0x010A0056, "BayerRG10p": 0x010A0058,
    "BayerBG12p": 0x010C0053, "BayerGB12p": 0x010C0055, "BayerGR12p": 0x010C0057, "BayerRG12p": 0x010C0059,
    "RGB8": 0x02180014, "BGR8": 0x02180015,
}  # fmt: skip


def _format(name: str, number: int) -> PixelFormat:
    if name.startswith("Bayer"):
        return PixelFormat(name, number, name[5:7], name[7:])
    head = name[:4] if name.startswith("Mono") else name[:3]
    return PixelFormat(name, number, head, name[len(head) :])


BY_NAME = {name: _format(name, number) for name, number in _NUMBERS.items()}
BY_NUMBER = {one.number: one for one in BY_NAME.values()}

_BAYER = {"RG": "RGGB", "GR": "GRBG", "GB": "GBRG", "BG": "BGGR"}
"""GenICam names a Bayer order by the first row; OpenCV's two-letter names mean the second one."""


def to_bgr(
    form: PixelFormat, data: NDArray[np.uint8], width: int, height: int, padding: int = 0
) -> NDArray[np.uint8]:
    """(height, width, 3) BGR in memory of its own; deeper pixels give their 8 highest bits.

    ``data``: (bytes,), at least ``row_bytes(width) + padding`` a row. Needs even sizes for Bayer pictures.
    """
    import cv2

    row_bytes = form.row_bytes(width) + padding
    if padding == 0 and form.layout in ("10p", "12p", "10Packed", "12Packed"):
        # rows of packed pixels need not begin at a byte
        size = form.row_bytes(width * height)
        rows = _eight_bits(form, data[:size].reshape(1, size), width * height).reshape(height, width)
    else:
        rows = _eight_bits(form, data[: row_bytes * height].reshape(height, row_bytes), width)
    if form.colors == "BGR":
        return rows.reshape(height, width, 3).copy()
    if form.colors == "RGB":
        picture = cv2.cvtColor(rows.reshape(height, width, 3), cv2.COLOR_RGB2BGR)
    elif form.colors == "Mono":
        picture = cv2.cvtColor(rows, cv2.COLOR_GRAY2BGR)
    else:
        picture = cv2.cvtColor(rows, getattr(cv2, f"COLOR_Bayer{_BAYER[form.colors]}2BGR"))
    return cast("NDArray[np.uint8]", picture)


def _eight_bits(form: PixelFormat, rows: NDArray[np.uint8], count: int) -> NDArray[np.uint8]:
    """(rows, count) or, for whole colours, (rows, 3 * count), of rows of bytes."""
    if form.layout == "8":
        return np.ascontiguousarray(rows[:, : form.row_bytes(count)])
    if form.layout.endswith("Packed"):
        # high bits of one, low bits of both, high bits of the other
        return _interleave(count, rows[:, 0::3], rows[:, 2::3])
    if form.layout == "12p":
        low, middle, high = (rows[:, i::3] for i in range(3))
        return _interleave(count, _joined(low, middle, 4), high)
    if form.layout == "10p":
        a, b, d, e, f = (rows[:, i::5] for i in range(5))
        pairs = ((a, b, 2), (b, d, 4), (d, e, 6))
        return _interleave(count, *(_joined(low, high, shift) for low, high, shift in pairs), f)
    words = np.ascontiguousarray(rows[:, : count * 2]).view("<u2")
    return (words >> (int(form.layout) - 8)).astype(np.uint8)


def _joined(low: NDArray[np.uint8], high: NDArray[np.uint8], shift: int) -> NDArray[np.uint8]:
    """The 8 bits that begin ``shift`` bits into the first of two bytes."""
    low = low[:, : high.shape[1]]
    return np.bitwise_or(np.right_shift(low, np.uint8(shift)), np.left_shift(high, np.uint8(8 - shift)))


def _interleave(count: int, *columns: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Pixels in turn from each of the columns, the last group perhaps not full."""
    pixels = np.zeros((columns[0].shape[0], columns[0].shape[1], len(columns)), np.uint8)
    for index, column in enumerate(columns):
        pixels[:, : column.shape[1], index] = column
    return np.ascontiguousarray(pixels.reshape(pixels.shape[0], -1)[:, :count])
