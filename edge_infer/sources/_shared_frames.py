"""Pixels of one camera in memory that two processes share: one writes, one reads, neither waits.

Each slot is guarded by a sequence lock: its number is odd while it is written, and another one afterwards.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import struct

import numpy as np
from numpy.typing import NDArray

_HEAD = 64
"""Bytes before the pixels of a slot: its number, on a cache line of its own."""
_NUMBER = struct.Struct("<Q")


class SharedFrames:
    """Slots for frames of one size. The writer makes it; the reader maps the same descriptor."""

    def __init__(self, handle: int, height: int, width: int, slots: int, *, writer: bool) -> None:
        """``handle`` stays the caller's."""
        self.height, self.width, self.slots = height, width, slots
        self._step = _HEAD + -(-height * width * 3 // _HEAD) * _HEAD
        access = mmap.PROT_READ | mmap.PROT_WRITE if writer else mmap.PROT_READ
        self._memory = mmap.mmap(handle, self._step * slots, prot=access)
        self._pixels = [
            np.frombuffer(self._memory, np.uint8, height * width * 3, self._step * slot + _HEAD).reshape(
                height, width, 3
            )
            for slot in range(slots)
        ]

    @staticmethod
    def allocate(height: int, width: int, slots: int) -> int:
        """A descriptor of memory without a name; it is gone with the last process that has it."""
        handle = os.memfd_create("edge-infer-frames", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(handle, (_HEAD + -(-height * width * 3 // _HEAD) * _HEAD) * slots)
        # a reader of memory that was cut off would be killed
        fcntl.fcntl(handle, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
        return handle

    def fits(self, pixels: NDArray[np.uint8]) -> bool:
        """True where it has slots of that size."""
        return pixels.shape == (self.height, self.width, 3)

    def write(self, number: int, pixels: NDArray[np.uint8]) -> None:
        """``number`` from 1, larger than any before; says also which slot."""
        slot = number % self.slots
        _NUMBER.pack_into(self._memory, self._step * slot, 2 * number - 1)
        np.copyto(self._pixels[slot], pixels)
        _NUMBER.pack_into(self._memory, self._step * slot, 2 * number)

    def read(self, number: int) -> NDArray[np.uint8] | None:
        """A copy (H, W, 3); None where a newer one was, or is being, written over it."""
        slot = number % self.slots
        if self._holds(slot) != 2 * number:
            return None
        pixels = self._pixels[slot].copy()
        return pixels if self._holds(slot) == 2 * number else None

    def _holds(self, slot: int) -> int:
        return int(_NUMBER.unpack_from(self._memory, self._step * slot)[0])
