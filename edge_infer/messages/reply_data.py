"""What an answer's ``data`` holds, where it is more than a word."""

from __future__ import annotations

from pydantic import AwareDatetime

from edge_infer.messages.stats import CameraStats, OutboxNumbers
from edge_infer.result import Decision, Device, ModelIdentity, Part, TriggerType


class JobAccepted(Part):
    """``start_single_job``, code `accepted`."""

    job_id: str
    """The result has it as `jobId`."""


class JobDone(Part):
    """``start_single_job``, code `done`: the part was answered already."""

    job_id: str
    result_id: str
    decision: Decision


class PictureSent(Part):
    """``snapshot``: what was published beside this answer."""

    topic: str
    sha256: str
    """Of the payload."""
    width: int
    height: int
    content_type: str
    captured_at: AwareDatetime
    frame_seq: int
    """Which frame of the camera, counted from 1."""


class DecisionNow(Part):
    """What the newest inspection said, while it may be believed."""

    decision: Decision
    result_id: str
    valid_until: AwareDatetime


class StationStatus(Part):
    """``get_status`` of a station."""

    station: str
    camera: str
    trigger: TriggerType
    decision: DecisionNow | None
    """Null where nothing was inspected lately: nothing means not OK."""
    recipe: str | None
    """That it runs now; null: the settings under ``stations:``."""
    recipe_hash: str | None
    model: ModelIdentity | None
    """Null where it cannot run: every part is UNDEFINED."""
    backend: str
    device: Device
    dropped: int
    """Frames that a newer one replaced before the network was free."""


class Connection(Part):
    """To the broker."""

    connections: int
    """Since the start of the service."""
    delivered: int
    refused: int


class DeviceStatus(Part):
    """``get_status`` of the device."""

    version: str
    boot_id: str
    since: AwareDatetime
    """When the service started."""
    uptime_s: float
    cameras: tuple[CameraStats, ...]
    stations: tuple[StationStatus, ...]
    outbox: OutboxNumbers
    mqtt: Connection
