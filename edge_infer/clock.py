"""How far the wall clock can be trusted."""

from __future__ import annotations

import ctypes
from datetime import UTC, datetime
from pathlib import Path

_TIME_ERROR = 5


def now() -> datetime:
    """Wall clock, UTC."""
    return datetime.now(UTC)


def boot_id() -> str:
    """Another one after each start of the machine; "unknown" where the system does not say."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return "unknown"


def synced() -> bool | None:
    """True where the kernel says a time service keeps the clock; None where it cannot be asked."""
    try:
        adjtimex = ctypes.CDLL(None).adjtimex
    except (OSError, AttributeError):
        return None
    # struct timex is 208 bytes on 64-bit Linux; modes 0 only reads
    state = adjtimex(ctypes.create_string_buffer(512))
    return None if state < 0 else bool(state != _TIME_ERROR)
