"""Hears at once when a file of a local folder was written to its end or moved in (Linux' inotify)."""

from __future__ import annotations

import ctypes
import os
import struct
from pathlib import Path

_CLOSE_WRITE, _MOVED_TO = 0x00000008, 0x00000080
_ONLYDIR = 0x01000000
_HEADER = struct.Struct("iIII")


class Closings:
    """Names of files that were closed after writing or moved in; of network folders only by this machine."""

    def __init__(self, folder: Path) -> None:
        """OSError where the kernel gives no watch (their number is limited)."""
        libc = ctypes.CDLL(None, use_errno=True)
        self.handle = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        """To be polled."""
        if self.handle < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        if libc.inotify_add_watch(self.handle, os.fsencode(folder), _CLOSE_WRITE | _MOVED_TO | _ONLYDIR) < 0:
            number = ctypes.get_errno()
            os.close(self.handle)
            raise OSError(number, os.strerror(number))

    def take(self) -> list[str]:
        """Since the last time, in order. Some are missing after a burst: look at the folder too."""
        names: list[str] = []
        while True:
            try:
                events = os.read(self.handle, 65_536)
            except BlockingIOError:
                return names
            at = 0
            while at < len(events):
                size = _HEADER.unpack_from(events, at)[3]
                at += _HEADER.size
                names.append(os.fsdecode(events[at : at + size].rstrip(b"\0")))
                at += size

    def close(self) -> None:
        """Once."""
        os.close(self.handle)
