"""What the verbs may touch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from edge_infer.camera import Camera
from edge_infer.mqtt.publisher import Publisher
from edge_infer.outbox import Outbox
from edge_infer.remote.control import Control
from edge_infer.remote.recent import Recent
from edge_infer.station.station import Station


@dataclass(frozen=True, slots=True)
class Reach:
    """The running service, as far as strangers are concerned."""

    control: Control
    stations: Mapping[str, Station]
    """By name."""
    cameras: Mapping[str, Camera]
    """By name."""
    outbox: Outbox
    publisher: Publisher
    recent: Recent
    prefix: str
    """Of every topic."""
    valid_s: float
    """How long a decision may be believed."""
    boot_id: str
    version: str
    started_at: datetime
    started_s: float
    """time.monotonic()"""
