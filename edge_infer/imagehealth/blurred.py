"""Out of focus, or a greasy lens."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from edge_infer.imagehealth.covered import is_empty
from edge_infer.imagehealth.measured import Measured, nothing_fixed
from edge_infer.imagehealth.sight import Gray, Sight
from edge_infer.imagehealth.structure import Structure

_SHARE = 0.4
"""Of the least sharpness that was commissioned."""
_LEAST = 8.0
"""Grey levels: less is not above the noise."""
_NOISE = 3 * 1.4826
"""From the median of noise to what hardly a pixel of it exceeds."""
_SAME_LIGHT = 0.5
"""Correlation with the commissioned light: a blurred picture keeps it, a covered one does not."""


def learn(sights: Sequence[Sight], structure: Structure | None) -> Measured:
    """Sharpness in grey levels; blurred is 40 % of the lowest."""
    if structure is None:
        return nothing_fixed()
    measured = Measured.of([sharpness(sight, structure) for sight in sights])
    if measured.lowest < _LEAST:
        # a picture full of fine texture, however sharp, has no edges that stand out either
        text = f"its edges hardly stand out from its texture: {measured.lowest:.1f}, wanted is {_LEAST:g}"
        return measured.untold(text)
    return measured.with_limit(measured.lowest * _SHARE)


def sharpness(sight: Sight, structure: Structure) -> float:
    """How strong the sharpest edges of the window are above its noise, grey levels.

    As many of its pixels count as belong to the fixed structure: what parts add does not matter.
    """
    import cv2

    smooth = cv2.GaussianBlur(sight.native(structure.window), (3, 3), 0)
    bent = cv2.Laplacian(smooth, cv2.CV_16S)
    strength = np.bincount(np.abs(bent).ravel(), minlength=1024).cumsum()
    noise = float(np.searchsorted(strength, strength[-1] / 2))
    edge = float(np.searchsorted(strength, strength[-1] * (1 - structure.sharpest / 2)))
    return math.sqrt(max(0.0, edge**2 - (_NOISE * noise) ** 2))


def light_is_the_same(thumb: Gray, structure: Structure) -> bool:
    """Whether light is distributed as commissioned."""
    if thumb.std() < 1 or structure.thumb.std() < 1:
        return False
    return float(np.corrcoef(thumb.ravel(), structure.thumb.ravel())[0, 1]) > _SAME_LIGHT


class Blurred:
    """A check."""

    def __init__(self, structure: Structure, limit: float) -> None:
        """Grey levels."""
        self._structure = structure
        self._limit = limit

    def look(self, sight: Sight) -> str | None:
        """Why the frame must not be judged."""
        sharp = sharpness(sight, self._structure)
        if sharp >= self._limit:
            return None
        if is_empty(sight, self._structure) and not light_is_the_same(sight.thumb, self._structure):
            # that is something else
            return None
        return f"the sharpness of its edges is {sharp:.0f} grey levels, below {self._limit:.0f}"
