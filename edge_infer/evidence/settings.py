"""``evidence:`` in the site's YAML."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from edge_infer.settings import Settings, Size

Kind = Literal["raw", "drawn", "map"]


class EvidenceSettings(Settings):
    """``evidence: {max_bytes: 2GB, max_age_days: 30, min_free_bytes: 1GB, ok_every: 1000}``."""

    max_bytes: Size = 2_000_000_000
    """Stored pictures together; the oldest go first."""
    max_age_days: Annotated[float, Field(gt=0)] = 30
    """Older pictures are deleted."""
    min_free_bytes: Size = 1_000_000_000
    """Nothing is stored that would leave the disk less than this."""
    ok_every: Annotated[int, Field(ge=1)] = 1000
    """Of a station's OK results every so many is kept."""
    per_minute: Annotated[int, Field(ge=0)] = 10
    """Of a station's NOK and UNDEFINED results at most so many a minute are kept, and the first of each kind
    of trouble that was not there for a minute."""
    publish: tuple[Kind, ...] = ()
    """Which stored pictures are also sent to the broker: raw, drawn, map."""
