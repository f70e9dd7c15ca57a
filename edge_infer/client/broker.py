"""Where the broker is, and as whom to speak to it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal


@dataclass(frozen=True, slots=True)
class Tls:
    """Encrypt. PEM files; without ``ca`` the system's authorities are trusted."""

    ca: str | Path | None = None
    cert: str | Path | None = None
    key: str | Path | None = None


@dataclass(frozen=True, slots=True)
class Broker:
    """Where the broker is and as whom to speak to it."""

    host: str
    port: int | None = None
    """Default 1883, with tls 8883."""
    protocol: Literal["5", "3.1.1"] = "5"
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    tls: Tls | None = None
    keepalive_s: int = 15

    @property
    def address(self) -> str:
        """Host and port."""
        return f"{self.host}:{self.port or (1883 if self.tls is None else 8883)}"
