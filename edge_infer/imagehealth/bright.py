"""Too much light."""

from __future__ import annotations

from collections.abc import Sequence

from edge_infer.imagehealth.measured import Measured
from edge_infer.imagehealth.sight import SATURATED, Sight

WHITE = 0.98
"""Share of saturated pixels: without a reference more than that is no picture."""
_LEAST = 0.3
"""A lamp or a shining part may fill so much of any picture."""


def learn(sights: Sequence[Sight]) -> Measured:
    """Share of saturated pixels; bright is half way from the highest to all of them."""
    measured = Measured.of([sight.saturated for sight in sights])
    if measured.highest > WHITE:
        return measured.untold("the picture is white as it is")
    return measured.with_limit(max(_LEAST, (1 + measured.highest) / 2))


class Bright:
    """A check."""

    def __init__(self, limit: float | None) -> None:
        """Share of saturated pixels, 0..1."""
        self._limit = WHITE if limit is None else limit

    def look(self, sight: Sight) -> str | None:
        """Why the frame must not be judged."""
        if sight.saturated <= self._limit:
            return None
        return (
            f"{sight.saturated:.0%} of the picture is brighter than {SATURATED} of 255, "
            f"allowed is {self._limit:.0%}"
        )
