"""``outbox:`` in the site's YAML."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from edge_infer.settings import Settings, Size


class OutboxSettings(Settings):
    """``outbox: {max_bytes: 500MB, commit: fsync}``."""

    max_bytes: Annotated[Size, Field(ge=1)] = 500_000_000
    """Results kept for a broker that is away; when full, OK is given up first, then UNDEFINED, NOK last."""
    max_rows: Annotated[int, Field(ge=1)] = 1_000_000
    """The same bound by number."""
    max_age_days: Annotated[float, Field(gt=0)] | None = None
    """Older results are given up; default never."""
    commit: Literal["fsync", "normal"] = "fsync"
    """fsync: a result survives a power cut; normal: it survives a crash of the service, flash wears less."""
