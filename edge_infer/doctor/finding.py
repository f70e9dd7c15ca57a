"""What a check tells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "warn", "fail"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    check: str
    """What was looked at: ``clock``, ``cameras.top``."""
    status: Status
    """fail: the service cannot do what it shall; warn: it can, but somebody should know."""
    found: str
    """One line."""
    mend: str = ""
    """The command or the sentence that mends it; empty where it is ok."""


def ok(check: str, found: str) -> Finding:
    """As it should be."""
    return Finding(check, "ok", found)


def warn(check: str, found: str, mend: str) -> Finding:
    """It works, but somebody should know."""
    return Finding(check, "warn", found, mend)


def fail(check: str, found: str, mend: str) -> Finding:
    """It does not work."""
    return Finding(check, "fail", found, mend)
