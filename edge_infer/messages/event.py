"""``event``: something happened. What ``data`` holds is said by the kind, in `edge_infer.messages.kinds`."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import AwareDatetime, Field

from edge_infer.result import Part

SCHEMA = "event/1"


class EventMessage(Part):
    """Kept in the outbox until the broker takes it."""

    schema_: Literal["event/1"] = Field(default="event/1", alias="schema")
    kind: str
    """Readers ignore kinds that they do not know."""
    station: str | None
    """Null where it belongs to none."""
    time: AwareDatetime
    """When it happened."""
    boot_id: str
    data: dict[str, Any]
    """By kind."""
