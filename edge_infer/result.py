"""The published record of one inspection (schema ``result/1``); field names follow OPC 40100-1."""

from __future__ import annotations

import os
import time
import uuid
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

Decision = Literal["OK", "NOK", "UNDEFINED"]
ResultState = Literal[1, 3, 4]
"""OPC 40100-1: 1 completed, 3 aborted, 4 failed."""
TriggerType = Literal["continuous", "every", "mqtt", "camera", "gpio"]

ReasonCode = Literal[
    "stale",
    "frozen",
    "dark",
    "bright",
    "blurred",
    "covered",
    "moved",
    "damaged",
    "deadline",
    "overload",
    "nan",
    "backend_failed",
    "camera_lost",
    "golden_failed",
    "settling",
    "restarted",
    "rule_not_evaluable",
]
"""Why a decision is UNDEFINED: a closed list, so that a PLC program can know them all."""

SCHEMA = "result/1"


class Part(BaseModel):
    """What every published message is made of: camelCase, closed, frozen, finite numbers."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        alias_generator=to_camel,
        validate_by_name=True,
        use_attribute_docstrings=True,
        json_schema_serialization_defaults_required=True,
    )


def _absent_if_none() -> Any:
    return Field(default=None, exclude_if=lambda value: value is None)


class Reason(Part):
    """Why the decision is not OK."""

    code: ReasonCode
    text: str


class RuleOutcome(Part):
    """What one rule said."""

    name: str
    decision: Decision
    seen: int | float | None
    """What the rule measured (a count), None where it could not."""


class DetectionContent(Part):
    """One object found."""

    type: Literal["detection"] = "detection"
    label: str
    score: float
    box: tuple[float, float, float, float]
    """x1, y1, x2, y2 in pixels of the camera's frame."""


class ClassificationContent(Part):
    """How sure a classifier is of one class of the whole picture; the best ones, best first."""

    type: Literal["classification"] = "classification"
    label: str
    score: float


class StoredPicture(Part):
    """A picture in the evidence store."""

    uri: str
    """``file:`` address on the device."""
    sha256: str
    """Of the file."""
    width: int
    height: int
    content_type: str


class Image(StoredPicture):
    """The frame that was judged, as the camera gave it, and what was drawn of it."""

    drawn: StoredPicture | None = None
    """With the findings drawn into it; None where nothing was judged."""


class AnomalyContent(Part):
    """How far the whole picture is from normal."""

    type: Literal["anomaly"] = "anomaly"
    score: float
    """0..1, normalised."""
    threshold: float
    """A part whose score reaches it is NOK."""
    hot_box: tuple[float, float, float, float] | None
    """x1, y1, x2, y2 in pixels of the camera's frame around what is not normal; None where nothing is, and
    where the model does not say where."""
    map: StoredPicture | None = _absent_if_none()
    """The heat map, where it is stored as evidence."""


Content = Annotated[DetectionContent | ClassificationContent | AnomalyContent, Field(discriminator="type")]


class Identifier(Part):
    """OPC's id: what, which version, and the hash that proves it."""

    id: str
    version: str | None = None
    hash: str | None = None
    hash_algorithm: str | None = None


class ProcessingTimes(Part):
    """When the work was done."""

    start_time: AwareDatetime
    end_time: AwareDatetime
    acquisition_duration: float | None = None
    """Milliseconds."""
    processing_duration: float
    """Milliseconds from the start of preprocessing to the decision."""


class ResultTrigger(Part):
    """What made the frame an inspection."""

    type: TriggerType
    part_id: str | None = None
    received_at: AwareDatetime | None = None
    truth: Decision | None = None
    """The true decision, known only for a drawn scene."""


class Device(Part):
    """Where the network ran. No silent fallback: both are told."""

    requested: str
    running: str


class ModelIdentity(Part):
    """Which network judged."""

    name: str
    version: str | None = None
    sha256: str
    """Of the network file and, behind it, of the files that hold its weights, by name."""
    card_sha256: str | None = None
    """Of its model.yaml; null where the network was named without one."""


class Origin(Part):
    """Where the result comes from."""

    site: str
    line: str
    device: str
    camera: str


class Clock(Part):
    """How far the wall clock can be trusted."""

    synced: bool | None
    """None where the system does not say."""


class Result(Part):
    """One inspection, one result, one sequence number."""

    schema_: Literal["result/1"] = Field(default="result/1", alias="schema")
    result_id: str
    """UUIDv7."""
    job_id: str
    """The trigger's id, else the result's."""
    part_id: str | None = _absent_if_none()
    external_recipe_id: Identifier | None = _absent_if_none()
    """The recipe that the station ran; absent where it runs the settings under ``stations:``."""
    internal_recipe_id: Identifier
    """The station and the hash of its settings."""
    internal_configuration_id: Identifier
    """The configuration file and its hash."""
    is_partial: Literal[False] = False
    is_simulated: bool
    result_state: ResultState
    creation_time: AwareDatetime
    processing_times: ProcessingTimes | None
    """None where nothing was processed (no frame came)."""
    has_transferable_data_on_file: bool = False
    """True where ``image`` is there."""
    image: Image | None = _absent_if_none()
    """The stored picture; absent where none is stored."""
    decision: Decision
    reasons: tuple[Reason, ...]
    rules: tuple[RuleOutcome, ...]
    result_content: tuple[Content, ...]
    """One entry a finding."""
    captured_at: AwareDatetime | None
    """None where no frame was judged."""
    age_ms: float | None
    """From capture to decision; None where no frame was judged."""
    frame_seq: int | None
    """Which frame of the camera, counted from 1."""
    trigger: ResultTrigger
    backend: str
    device: Device
    model: ModelIdentity | None
    """None where the model could not be loaded."""
    station: str
    source: Origin
    boot_id: str
    clock: Clock
    warnings: tuple[str, ...] = ()
    seq: int = Field(default=0, ge=0, json_schema_extra={"minimum": 1})
    """Counts one station's results from 1 without holes; given by the transaction that commits."""
    stream_id: str = Field(default="", json_schema_extra={"minLength": 1})
    """Names that count; new whenever it cannot be continued."""

    @property
    def cut_short(self) -> bool:
        """The stop of the service came before the verdict: its frame is still to be judged."""
        return any(reason.code == "restarted" for reason in self.reasons)

    def as_json(self) -> str:
        """The published text: camelCase, no NaN, absent optional keys left out."""
        return self.model_dump_json(by_alias=True)


def json_schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of a published result. Readers must ignore keys they do not know."""
    schema = message_schema(Result, SCHEMA)
    # what they are before the commit is nothing a subscriber sees
    for given in ("seq", "streamId"):
        del schema["properties"][given]["default"]
    return schema


def message_schema(model: type[Part], title: str, *, sent: bool = True) -> dict[str, Any]:
    """JSON Schema (2020-12). Later versions may add keys to what is ``sent``; a request is strict."""
    schema = model.model_json_schema(by_alias=True, mode="serialization" if sent else "validation")
    _portable(schema, additive=sent)
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = title
    return schema


def _portable(node: Any, *, additive: bool) -> None:
    if isinstance(node, dict):
        if additive and node.get("additionalProperties") is False:
            del node["additionalProperties"]
        # OpenAPI's; the constant `type` of each entry says it too
        if isinstance(node.get("discriminator"), dict):
            del node["discriminator"]
        for value in node.values():
            _portable(value, additive=additive)
    elif isinstance(node, list):
        for value in node:
            _portable(value, additive=additive)


def new_result_id(now: datetime | None = None) -> str:
    """A UUIDv7: sorts by time (RFC 9562)."""
    ms = int((now.timestamp() if now else time.time()) * 1000)
    value = (ms << 80) | int.from_bytes(os.urandom(10), "big")
    value = (value & ~(0xF << 76)) | (0x7 << 76)
    value = (value & ~(0x3 << 62)) | (0x2 << 62)
    return str(uuid.UUID(int=value))
