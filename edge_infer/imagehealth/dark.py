"""Too little light."""

from __future__ import annotations

from collections.abc import Sequence

from edge_infer.imagehealth.measured import Measured
from edge_infer.imagehealth.sight import Sight

BLACK = 40
"""Without a reference a picture with nothing brighter than this is dark: a lit part on black has more."""
_BUT_FOR = 0.001
"""Share of the pixels that may be brighter: hot pixels, a lamp that reflects."""
_SHARE = 0.4
"""Of the least light that was commissioned: a large black part takes half of it away."""


def learn(sights: Sequence[Sight]) -> Measured:
    """Grey levels, mean of the region; dark is 40 % of the lowest."""
    measured = Measured.of([sight.brightness for sight in sights])
    return measured.with_limit(measured.lowest * _SHARE)


def is_black(sight: Sight) -> bool:
    """Whether nothing in it is bright."""
    return sight.share_from(BLACK) <= _BUT_FOR


class Dark:
    """A check."""

    def __init__(self, limit: float | None) -> None:
        """Mean grey level, None where nothing was commissioned."""
        self._limit = limit

    def look(self, sight: Sight) -> str | None:
        """Why the frame must not be judged."""
        if self._limit is None:
            return f"nothing in the picture is brighter than {BLACK} of 255" if is_black(sight) else None
        if sight.brightness >= self._limit:
            return None
        return f"the mean brightness is {sight.brightness:.0f} of 255, below {self._limit:.0f}"
