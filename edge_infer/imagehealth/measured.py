"""What a check measured while a station was commissioned."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from edge_infer.settings import Settings


class Measured(Settings):
    """Over all frames; the unit is the check's."""

    lowest: float
    median: float
    highest: float
    limit: float | None = None
    """None where it cannot be told."""
    untold_because: str | None = None
    """Why there is no limit."""

    @classmethod
    def of(cls, values: Sequence[float]) -> Measured:
        """Without a limit yet."""
        return cls(lowest=min(values), median=float(np.median(values)), highest=max(values))

    def with_limit(self, limit: float) -> Measured:
        """From now on it can be told."""
        return self.model_copy(update={"limit": limit})

    def untold(self, why: str) -> Measured:
        """It cannot be told here."""
        return self.model_copy(update={"untold_because": why})


NOTHING_FIXED = "nothing in the picture stays where it is while parts pass"


def nothing_fixed() -> Measured:
    """Of the checks that need a fixed structure."""
    return Measured(lowest=0, median=0, highest=0, untold_because=NOTHING_FIXED)
