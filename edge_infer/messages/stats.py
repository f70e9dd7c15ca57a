"""``stats``: how the device is doing, told every half minute. Counters are since the start of the service."""

from __future__ import annotations

from typing import Literal

from pydantic import AwareDatetime, Field

from edge_infer.result import Clock, Part

SCHEMA = "stats/1"


class Percentiles(Part):
    """Of the inspections in the window."""

    p50: float
    p95: float


class DecisionCounts(Part):
    """Inspections since the start of the service, published as results or not."""

    ok: int = Field(default=0, alias="OK", ge=0)
    nok: int = Field(default=0, alias="NOK", ge=0)
    undefined: int = Field(default=0, alias="UNDEFINED", ge=0)


class StationStats(Part):
    """One station."""

    station: str
    fps: float
    """Inspections a second, in the window."""
    dropped: int
    """Frames that a newer one replaced before the network was free."""
    decisions: DecisionCounts
    age_ms: Percentiles | None
    """From capture to decision; null where no frame was judged in the window."""
    processing_ms: Percentiles | None
    """From the start of preprocessing to the decision."""


class CameraStats(Part):
    """One camera."""

    camera: str
    state: str


class OutboxNumbers(Part):
    """The durable queue."""

    depth: int
    bytes: int
    oldest_s: float | None
    """Age of the oldest message; null where nothing waits."""
    committed: int
    refused: int
    dead: int
    """Refused ones that are kept aside."""
    given_up: dict[str, int]
    """By decision."""
    events_lost: int
    in_memory: bool
    """The disk cannot be written: what waits does not survive the process."""


class Trouble(Part):
    """Why there was no connection."""

    text: str
    at: AwareDatetime


class RefusedTopic(Part):
    """What the broker does not let us publish or subscribe to, as far as it says."""

    topic: str
    reason: str


class MqttNumbers(Part):
    """The connection to the broker."""

    connected_since: AwareDatetime | None
    reconnections: int
    last_trouble: Trouble | None
    """Also of a trouble that is over."""
    taken_over: int
    """How often another client used our id, or seemed to."""
    delivered: int
    """Results, events and gaps that the broker took."""
    refused: int
    refused_topics: tuple[RefusedTopic, ...]
    """Of this connection."""
    commands_dropped: int
    """More waited than may wait."""
    images: int
    images_dropped: int


class Disk(Part):
    """Where the state directory is."""

    free_bytes: int
    total_bytes: int


class Temperature(Part):
    """One sensor, as the kernel names it."""

    sensor: str
    celsius: float


class CertificateStats(Part):
    """One certificate, as it was last read."""

    whose: Literal["device", "ca", "broker"]
    subject: str
    not_after: AwareDatetime
    days_left: float
    """Negative where it has expired."""


class ProcessNumbers(Part):
    """The service itself."""

    rss_bytes: int | None
    threads: int
    open_files: int | None


class StatsMessage(Part):
    """Not retained, not kept: only the newest is sent."""

    schema_: Literal["stats/1"] = Field(default="stats/1", alias="schema")
    time: AwareDatetime
    boot_id: str
    uptime_s: float
    """Of the service."""
    window_s: float
    """What rates and percentiles are over."""
    clock: Clock
    stations: tuple[StationStats, ...]
    cameras: tuple[CameraStats, ...]
    outbox: OutboxNumbers
    mqtt: MqttNumbers
    disk: Disk | None
    """Null where it cannot be asked."""
    temperatures: tuple[Temperature, ...]
    certificates: tuple[CertificateStats, ...]
    process: ProcessNumbers
