"""The name a device has at the broker."""

from __future__ import annotations

import hashlib
import uuid
from pathlib import Path


def default_client_id(device: str, prefix: str) -> str:
    """The same after every start, another one on every machine and for every prefix.

    The same id lets a restarted service take its own half-dead connection over at once.
    """
    return f"edge-infer-{device}-{hashlib.sha256(f'{_machine()}/{prefix}'.encode()).hexdigest()[:8]}"


def _machine() -> str:
    for file in (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id")):
        try:
            if text := file.read_text(encoding="ascii").strip():
                return text
        except (OSError, UnicodeDecodeError):
            continue
    return f"{uuid.getnode():x}"
