"""A station's ``counts``: its decisions since the reset and in this shift."""

from __future__ import annotations

from typing import Literal

from pydantic import AwareDatetime, Field

from edge_infer.result import Part

SCHEMA = "counts/1"


class ShiftCounts(Part):
    """Committed results since the shift began."""

    ok: int = Field(alias="OK", ge=0)
    nok: int = Field(alias="NOK", ge=0)
    undefined: int = Field(alias="UNDEFINED", ge=0)
    since: AwareDatetime | None
    """When the shift began; null before the first one is known."""


class CountsMessage(Part):
    """Committed results since the counts were reset, and in this shift."""

    schema_: Literal["counts/1"] = Field(default="counts/1", alias="schema")
    ok: int = Field(alias="OK", ge=0)
    nok: int = Field(alias="NOK", ge=0)
    undefined: int = Field(alias="UNDEFINED", ge=0)
    since: AwareDatetime | None
    """The last reset, else the first result; null before either."""
    shift: ShiftCounts
    """Not changed by a reset."""

    def as_json(self) -> bytes:
        """The published text."""
        return self.model_dump_json(by_alias=True).encode()
