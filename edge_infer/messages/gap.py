"""``gap``: results that were given up, told as ranges of their numbers."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AwareDatetime, Field

from edge_infer.result import Part

SCHEMA = "gap/1"

GapReason = Literal["full", "too_old", "overload", "refused", "unpublishable", "purged"]
"""The bounds of the outbox; ``max_age_days``; the disk hung for many seconds; too many refused results were
kept; text that is no Unicode; a person deleted them."""


class NumberRange(Part):
    """Both ends included."""

    from_seq: Annotated[int, Field(ge=1)]
    to_seq: Annotated[int, Field(ge=1)]


class GapMessage(Part):
    """Results of one stream that nobody will see. A range may be told twice, the second time larger."""

    schema_: Literal["gap/1"] = Field(default="gap/1", alias="schema")
    station: str
    stream_id: str
    reason: GapReason
    ranges: tuple[NumberRange, ...]
    time: AwareDatetime
    """When it is told, not when they were given up."""

    def as_json(self) -> bytes:
        """The published text."""
        return self.model_dump_json(by_alias=True).encode()
