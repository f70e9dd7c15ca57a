"""Whether SQLite's write-ahead log lost what was committed: SQLite skips damaged transactions without a word.

The log's format is fixed: https://www.sqlite.org/fileformat2.html#the_write_ahead_log
"""

from __future__ import annotations

import sqlite3
import struct
from pathlib import Path

_HEADER, _FRAME = 32, 24
_MAGIC = {0x377F0682: "<", 0x377F0683: ">"}
"""And the byte order of what is summed."""


def frames(db: sqlite3.Connection) -> int | None:
    """How many frames of its log SQLite could read; None where the disk does not let it say."""
    try:
        return max(0, int(db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()[1]))
    except sqlite3.OperationalError:
        return None


def damaged(log: Path, frames: int) -> bool:
    """The log's whole, readable part has ``frames``: is something behind it that was committed once?

    A process that was killed leaves at most one unfinished frame at the end.
    """
    try:
        with log.open("rb") as file:
            header = file.read(_HEADER)
            if len(header) < _HEADER:
                return False
            magic, _, page, _, salt1, salt2, sum1, sum2 = struct.unpack(">8I", header)
            order = _MAGIC.get(magic)
            if order is None or _sum(header[:24], (0, 0), order) != (sum1, sum2):
                # nothing of it was readable
                return True
            size = _FRAME + page
            so_far = (sum1, sum2)
            if frames:
                file.seek(_HEADER + (frames - 1) * size)
                so_far = struct.unpack(">16x2I", file.read(_FRAME))
            file.seek(_HEADER + frames * size)
            broken = False
            while len(frame := file.read(size)) == size:
                _, commits, *salts, sum1, sum2 = struct.unpack(">6I", frame[:_FRAME])
                if salts != [salt1, salt2]:
                    # left over from the log's last round; or a header that was hit
                    continue
                so_far = _sum(frame[_FRAME:], _sum(frame[:8], so_far, order), order)
                broken = broken or so_far != (sum1, sum2)
                if broken and commits:
                    return True
            return False
    except OSError:
        # whoever writes the database next meets the same disk and says so
        return False


def _sum(data: bytes, start: tuple[int, int], order: str) -> tuple[int, int]:
    first, second = start
    words = struct.unpack(f"{order}{len(data) // 4}I", data)
    for even, odd in zip(words[::2], words[1::2], strict=True):
        first = (first + even + second) & 0xFFFFFFFF
        second = (second + odd + first) & 0xFFFFFFFF
    return first, second
