"""What an event can tell: a closed list of kinds, each with its data."""

from __future__ import annotations

from types import MappingProxyType
from typing import Literal

from pydantic import AwareDatetime

from edge_infer.messages.camera import CameraState
from edge_infer.messages.counts import ShiftCounts
from edge_infer.messages.info import LeftConfiguration
from edge_infer.result import Decision, Part, ReasonCode


class CameraChanged(Part):
    """A camera was opened, lost, or has ended."""

    camera: str
    state: CameraState
    text: str
    """Why, in words."""


class CertificateExpires(Part):
    """A certificate has expired or soon will; told at each start and then at most once a day."""

    whose: Literal["device", "ca", "broker"]
    subject: str
    not_after: AwareDatetime
    days_left: float
    """Negative where it has expired."""


class ClientIdTakenOver(Part):
    """Two clients use one client id and throw each other out."""

    client_id: str
    sure: bool
    """False: the connection is lost each time soon after it is made, which looks like it."""


class ChoicesDamaged(Part):
    """What was selected by command could not be read; stations with recipes stay UNDEFINED until one is."""

    set_aside: str
    """The file's new name."""
    why: str


class ClockStepped(Part):
    """The device's wall clock was set, not merely kept: times of day before and after do not compare.

    Told at most once a minute.
    """

    by_s: float
    """Positive: it was set forward."""
    synced: bool | None
    """A time service keeps it now; None where the kernel cannot be asked."""


class ConfigurationLoaded(Part):
    """The service runs this configuration."""

    file: str
    number: int | None
    """Counts the configurations that ran on this device; None where it could not be kept."""
    sha256: str
    """Of the file as it was loaded."""
    owner: str | None
    """Who owns the file; None where nobody knows the user."""
    at: AwareDatetime
    changed: tuple[str, ...]
    """The keys and files that a reload, or going back, changed."""
    by: str | None
    """Who asked for it; None at the start."""
    rolled_back: LeftConfiguration | None
    """The device's file does not run, an earlier version does; None: it runs."""


class ConfigurationRefused(Part):
    """A reload, or going back, changed nothing: the file is wrong, or what changed needs a restart."""

    file: str
    mistakes: tuple[str, ...]
    by: str


class EvidenceLost(Part):
    """Pictures that a result names do not exist: the disk did not take them."""

    result_id: str
    pictures: tuple[Literal["raw", "drawn", "map"], ...]
    why: str


class EvidenceResumed(Part):
    """Pictures are stored again."""

    dropped: int
    """Results since the start that should have pictures and have none."""


class EvidenceStopped(Part):
    """No pictures are stored, results go on without: the disk is full, read-only, slow or broken."""

    why: str


class LineStop(Part):
    """So many parts in a row were not OK that the line should stop."""

    decision: Decision
    """Of the last one."""


class MetricsChanged(Part):
    """Numbers for Prometheus cannot be served or written, or can again."""

    way: Literal["http", "textfile"]
    state: Literal["ready", "failed"]
    text: str
    """Why, in words."""


class LoopHangs(Part):
    """A part of the service does not come on: a runtime, a driver, a disk or a name server is silent."""

    loop: str
    """Which, in words."""
    restart: bool
    """Where it lasts, systemd's watchdog starts the service again. False: the others go on without it."""


class LoopResumed(Part):
    """It comes on again by itself."""

    loop: str
    after_s: float


class ModelFailed(Part):
    """A model cannot run; its stations stay UNDEFINED."""

    model: str
    code: ReasonCode
    error: str


class OutboxDamaged(Part):
    """The database could not be read: streams are new, what was in it was not delivered."""

    set_aside: str
    """Its new name."""


class OutboxFull(Part):
    """Results are given up; ``gap`` says which."""

    given_up: dict[Literal["OK", "NOK", "UNDEFINED", "event"], int]
    """How many in the first transaction that had to."""


class OutboxInMemory(Part):
    """The disk is full, read-only or broken: results do not survive the process, streams are new."""

    why: str


class OutboxOnDisk(Part):
    """Results survive again."""

    rows: int
    """What waits on the disk."""


class OutboxRestored(Part):
    """Somebody deleted, renamed or replaced the database while the service had it open: all of it was written
    again, streams go on.
    """

    rows: int
    """What waits in it."""
    set_aside: str | None
    """The new name of what lay in its place."""


class RecipeSelected(Part):
    """The station runs it from its next inspection on."""

    recipe: str | None
    """None: the settings under ``stations:``."""
    before: str | None
    by: str
    """Who asked."""


class ReferenceUnused(Part):
    """What was commissioned does not fit the station any more; checks that need it are off."""

    why: str


class ResultRefused(Part):
    """The broker refused a result (access rights, size); it is kept aside."""

    topic: str
    stream_id: str
    seq: int
    """With the stream: which number will not come, unless it is tried again."""
    code: int
    """MQTT 5 reason code."""
    reason: str


class ShiftEnded(ShiftCounts):
    """A station's shift is over; each result is in exactly one. Times with no result have zeros."""

    until: AwareDatetime
    """When it ended."""


class StreamsRenewed(Part):
    """Numbers that were given may be forgotten, so no stream goes on: the last results may be lost."""

    why: str


class ThresholdChanged(Part):
    """The station judges by it from its next inspection on."""

    rule: str | None
    """Whose ``min_score``; None: the anomaly threshold."""
    value: float
    before: float | None
    """None: the model's own."""
    by: str
    """Who asked."""


class ThresholdDropped(Part):
    """It was set by command for what the configuration does not have any more."""

    rule: str | None
    """None: the anomaly threshold."""
    value: float


class TriggerChanged(Part):
    """A station's light barrier on an input of the device can be heard, or cannot: then no part is judged."""

    state: Literal["ready", "lost"]
    text: str
    """Why, in words."""


KINDS: MappingProxyType[str, type[Part]] = MappingProxyType(
    {
        "camera": CameraChanged,
        "certificate_expires": CertificateExpires,
        "choices_damaged": ChoicesDamaged,
        "client_id_taken_over": ClientIdTakenOver,
        "clock_stepped": ClockStepped,
        "configuration_loaded": ConfigurationLoaded,
        "configuration_refused": ConfigurationRefused,
        "evidence_lost": EvidenceLost,
        "evidence_resumed": EvidenceResumed,
        "evidence_stopped": EvidenceStopped,
        "line_stop": LineStop,
        "metrics": MetricsChanged,
        "loop_hangs": LoopHangs,
        "loop_resumed": LoopResumed,
        "model_failed": ModelFailed,
        "outbox_damaged": OutboxDamaged,
        "outbox_full": OutboxFull,
        "outbox_in_memory": OutboxInMemory,
        "outbox_on_disk": OutboxOnDisk,
        "outbox_restored": OutboxRestored,
        "recipe_selected": RecipeSelected,
        "reference_unused": ReferenceUnused,
        "result_refused": ResultRefused,
        "shift_ended": ShiftEnded,
        "streams_renewed": StreamsRenewed,
        "threshold_changed": ThresholdChanged,
        "threshold_dropped": ThresholdDropped,
        "trigger": TriggerChanged,
    }
)
"""Whoever adds an ``event(`` adds its kind here; readers ignore kinds that they do not know."""
