"""Whether an H.264 stream misses pictures (ITU-T H.264, 7.3 and 7.4.3).

The decoder fills the place of a missing picture and goes on without a word; everything built on it is
smeared. The pictures themselves are numbered.
"""

from __future__ import annotations

import re

_SLICE, _IDR_SLICE, _SEQUENCE = 1, 5, 7
_HIGH_PROFILES = frozenset((100, 110, 122, 244, 44, 83, 86, 118, 128, 138, 139, 134, 135))
_START = re.compile(b"\0\0\1")
_HEADER_BYTES = 64
"""More than the part of a slice's header that is read."""


class Numbering:
    """Follows the pictures' numbers."""

    def __init__(self) -> None:
        self._bits: int | None = None
        """Length of a number; None until the stream told, or where numbers may be left out."""
        self._colour_planes = False
        self._last: int | None = None
        """Of the last picture that others are built on."""

    def misses(self, packet: bytes) -> bool:
        """Whether something is missing before or at the start of this picture (with start codes)."""
        for start in _START.finditer(packet):
            at = start.end()
            kind = packet[at] & 31 if at < len(packet) else 0
            if kind == _SEQUENCE:
                self._read_sequence(_Bits(packet[at + 1 : at + 1 + 16 * _HEADER_BYTES]))
            elif kind in (_SLICE, _IDR_SLICE):
                is_built_on = bool(packet[at] & 0x60)
                return self._misses(
                    _Bits(packet[at + 1 : at + 1 + _HEADER_BYTES]), kind == _IDR_SLICE, is_built_on
                )
        return False

    def _misses(self, bits: _Bits, is_idr: bool, is_built_on: bool) -> bool:
        if self._bits is None:
            return False
        first_block = bits.number()
        bits.number()  # slice_type
        bits.number()  # pic_parameter_set_id
        if self._colour_planes:
            bits.take(2)
        number, last = bits.take(self._bits), self._last
        if is_built_on:
            self._last = number
        if is_idr or last is None:
            return first_block != 0
        return first_block != 0 or number not in (last, (last + 1) % (1 << self._bits))

    def _read_sequence(self, bits: _Bits) -> None:
        """seq_parameter_set_data() as far as the flag after the numbers' length."""
        profile = bits.take(8)
        bits.take(16)
        bits.number()
        self._colour_planes = False
        if profile in _HIGH_PROFILES:
            chroma = bits.number()
            if chroma == 3:
                self._colour_planes = bool(bits.take(1))
            bits.number()
            bits.number()
            bits.take(1)
            if bits.take(1):
                for index in range(12 if chroma == 3 else 8):
                    if bits.take(1):
                        _skip_scaling_list(bits, 16 if index < 6 else 64)
        length = bits.number() + 4
        order = bits.number()
        if order == 0:
            bits.number()
        elif order == 1:
            bits.take(1)
            for _ in range(2):
                bits.number()
            for _ in range(bits.number()):
                bits.number()
        bits.number()
        may_be_left_out = bits.take(1)
        self._bits = None if may_be_left_out or length > 16 else length


def _skip_scaling_list(bits: _Bits, size: int) -> None:
    last = following = 8
    for _ in range(size):
        if following:
            code = bits.number()
            delta = (code + 1) // 2 if code % 2 else -code // 2
            following = (last + delta + 256) % 256
        last = following or last


class _Bits:
    """Reads a unit's bits; behind its end there are zeros."""

    def __init__(self, unit: bytes) -> None:
        # 3 after two zeros only keeps start codes from appearing by chance
        data = unit.replace(b"\0\0\3", b"\0\0")
        self._value = int.from_bytes(data, "big")
        self._left = 8 * len(data)

    def take(self, count: int) -> int:
        """``count`` bits as a number."""
        self._left -= count
        shifted = self._value >> self._left if self._left >= 0 else self._value << -self._left
        return shifted & (1 << count) - 1

    def number(self) -> int:
        """An Exp-Golomb code, ue(v)."""
        zeros = 0
        while not self.take(1):
            zeros += 1
            if zeros > 32:
                return 0
        return (1 << zeros) - 1 + self.take(zeros)
