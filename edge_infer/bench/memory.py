"""How much memory this process has."""

from __future__ import annotations

import re
from pathlib import Path

_STATUS = Path("/proc/self/status")


def peak_mb() -> float:
    """The most that it had so far."""
    found = re.search(r"^VmHWM:\s+(\d+) kB", _STATUS.read_text(encoding="ascii"), re.MULTILINE)
    # every Linux tells
    return int(found[1]) * 1024 / 1e6 if found else 0.0
