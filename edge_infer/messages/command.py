"""``cmd/{verb}`` and its answer: what may stand in a request, what the answer says (schema ``reply/1``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_args

from pydantic import AwareDatetime, ConfigDict, Field, StringConstraints

from edge_infer.result import Part

SCHEMA = "reply/1"

VerbName = Literal[
    "start_single_job",
    "snapshot",
    "set_threshold",
    "select_recipe",
    "reset_counts",
    "reload",
    "get_status",
    "get_result",
    "ping",
]
VERBS: tuple[VerbName, ...] = get_args(VerbName)

AT_STATION: frozenset[VerbName] = frozenset(VERBS) - {"reload", "ping"}
"""Asked on ``{prefix}/{station}/cmd/{verb}``."""
AT_DEVICE: frozenset[VerbName] = frozenset({"reload", "get_status", "ping"})
"""Asked on ``{prefix}/cmd/{verb}``."""
ACTUATING: frozenset[VerbName] = frozenset(
    {"snapshot", "set_threshold", "select_recipe", "reset_counts", "reload"}
)
"""They need an expiry, and are carried out once whatever happens."""

Status = Literal["ok", "error", "rejected", "busy"]

NAME, PART_ID, RESULT_ID = r"^[A-Za-z0-9_-]{1,40}$", r"^[^\x00-\x1f\x7f]{1,128}$", r"^[0-9a-fA-F-]{1,36}$"
"""Patterns of texts in a request."""
Name = Annotated[str, StringConstraints(pattern=NAME)]
PartId = Annotated[str, StringConstraints(pattern=PART_ID)]


class Request(Part):
    """What every request may say. With MQTT 5 its own properties say it better."""

    model_config = ConfigDict(strict=True, validate_by_name=False, validate_by_alias=True)

    reply_to: str | None = None
    """Where the answer is wanted, below ``vision/v1/rsp/``; a response topic (MQTT 5) comes first."""
    correlation_id: Annotated[str, StringConstraints(min_length=1, max_length=128)] | None = None
    """Comes back with the answer; correlation data (MQTT 5) comes first."""
    expires_at: AwareDatetime | None = None
    """When the request is not to be carried out any more; a message expiry (MQTT 5) comes beside it."""


class StartSingleJob(Request):
    """Inspect the part that is there now."""

    # OPC 40100-1 has more arguments; a sender that gives them shall get its inspection
    model_config = ConfigDict(extra="ignore")

    part_id: PartId
    """1 to 128 characters; the same one again within the deadline gets the same answer."""
    meas_id: PartId | None = None
    """Accepted as OPC 40100-1 has it; it is not published."""
    recipe_id: Name | None = None
    """The recipe that must be running, else the request is refused."""


class Snapshot(Request):
    """The newest picture, on ``{station}/image/snapshot``."""

    kind: Literal["raw", "drawn"] = "raw"
    """As the camera gave it, or the newest inspected one with what was found."""


class SetThreshold(Request):
    """Change one threshold of the running settings."""

    value: Annotated[float, Field(ge=0, le=1)]
    """The new score, 0..1."""
    rule: Annotated[str, StringConstraints(min_length=1, max_length=100)] | None = None
    """The count rule whose ``min_score`` it is; absent: the anomaly threshold."""


class SelectRecipe(Request):
    """Run a recipe."""

    recipe_id: Name | None
    """A name under ``recipes:``; null: the settings under ``stations:``."""


class ResetCounts(Request):
    """Count the decisions from zero."""


class Reload(Request):
    """Read the configuration again."""


class GetStatus(Request):
    """How the device or the station is."""


class GetResult(Request):
    """A committed result of those in memory; the newest where neither is given."""

    result_id: Annotated[str, StringConstraints(pattern=RESULT_ID)] | None = None
    """Of the wanted result."""
    part_id: PartId | None = None
    """Of the wanted part; its newest result."""


class Ping(Request):
    """Are commands heard."""


REQUESTS: Mapping[VerbName, type[Request]] = {
    "start_single_job": StartSingleJob,
    "snapshot": Snapshot,
    "set_threshold": SetThreshold,
    "select_recipe": SelectRecipe,
    "reset_counts": ResetCounts,
    "reload": Reload,
    "get_status": GetStatus,
    "get_result": GetResult,
    "ping": Ping,
}


class Reply(Part):
    """The one answer to a request that said where it wants it."""

    status: Status
    """ok: done or accepted; rejected: not carried out, and will not be if asked again the same way; busy: not
    carried out, ask later; error: it failed."""
    code: str
    """One word for programs."""
    message: str
    """One sentence for people."""
    data: Mapping[str, Any]
    """What was asked for."""
    correlation_id: str | None
    """As the request had it."""
    ts: AwareDatetime
    """When it was answered."""
    dup: Literal[True] | None = Field(default=None, exclude_if=lambda value: value is None)
    """The same request was answered before: this is that answer, nothing was done again."""
