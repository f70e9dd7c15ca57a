"""Standard output as it is, not as it should be."""

from __future__ import annotations

import sys
from io import TextIOWrapper


def forgive_encoding() -> None:
    """A label that the terminal's encoding lacks is shown escaped; it is no reason to fail."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
