"""How much memory this process has."""

from __future__ import annotations

import re
from pathlib import Path

_STATUS = Path("/proc/self/status")


def resident_mb() -> float:
    """Now."""
    return _mb("VmRSS")


def peak_mb() -> float:
    """The most that it had so far."""
    return _mb("VmHWM")


def _mb(key: str) -> float:
    found = re.search(rf"^{key}:\s+(\d+) kB", _STATUS.read_text(encoding="ascii"), re.MULTILINE)
    # every Linux has both
    return int(found[1]) * 1024 / 1e6 if found else 0.0
