"""What the pump knows about the connection, in numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime


@dataclass(slots=True)
class PumpStats:
    """Since the start of the process."""

    connected: bool = False
    connected_since: datetime | None = None
    connections: int = 0
    delivered: int = 0
    """Results, events and gaps that the broker took."""
    refused: int = 0
    """Messages of any kind that it refused."""
    images: int = 0
    """Pictures that the broker took."""
    images_dropped: int = 0
    """Pictures that were not sent or not taken."""
    in_flight: int = 0
    taken_over: int = 0
    """How often another client used our id, or seemed to."""
    trouble: str | None = None
    """Why there is no connection, None while there is one."""
    last_trouble: tuple[str, datetime] | None = None
    """The newest trouble and when it was noticed, also once it is over."""
    refused_topics: Mapping[str, str] = field(default_factory=dict)
    """What this connection may not publish or subscribe to, and why."""
    commands_dropped: int = 0
    """More waited than may wait."""
    broker_certificate: bytes | None = None
    """As the broker showed it last (DER)."""
