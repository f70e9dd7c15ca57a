"""Whether a disk that was full has room again, or only for a moment."""

from __future__ import annotations

import os
from pathlib import Path

LOG = 4_500_000
"""SQLite's log grows to some 1,000 pages before it is written back; then its file is used again."""
MARGIN = 4_000_000
"""For what comes next."""


def lacking(database: Path, wanted: int, unused: int = 0) -> int:
    """How many bytes more must be free before ``wanted`` ones go into the database and it can be used from
    then on; ``unused`` ones in its file are free. Nothing is lacking at 0 and below. OSError.
    """
    disk = os.statvfs(database.parent)
    try:
        log = database.with_name(f"{database.name}-wal").stat().st_size
    except FileNotFoundError:
        log = 0
    needed = max(0, LOG - log) + max(0, wanted + MARGIN - unused)
    return needed - disk.f_bavail * disk.f_frsize
