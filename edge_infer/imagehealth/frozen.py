"""The same picture again and again: a sensor's noise makes each one different."""

from __future__ import annotations

import numpy as np

from edge_infer.frame import Frame

LEAST_FRAMES = 10
"""So many identical ones in a row; H.264 gives a few of them where nothing moves."""
_STEP = 16
_EVEN = 16
"""Grey levels between the darkest and the brightest pixel: with less nothing can be told. Without light even
a sensor's noise is cut off, and that is `dark`, not frozen."""


class Stillness:
    """Follows one camera; sees each of its frames, in order."""

    def __init__(self, frozen_s: float | None) -> None:
        """Seconds by the frames' own time; None: never frozen."""
        self._frozen_s = frozen_s
        self._first: Frame | None = None
        """Of the identical ones."""
        self._same = 0

    def see(self, frame: Frame) -> str | None:
        """Why it is frozen, if it is."""
        if self._frozen_s is None:
            return None
        first = self._first
        if first is None or frame.time_s < first.time_s or not _may_repeat(frame) or _differ(frame, first):
            self._first, self._same = frame, 1
            return None
        self._same += 1
        same_s = frame.time_s - first.time_s
        if self._same < LEAST_FRAMES or same_s < self._frozen_s:
            return None
        seen = frame.pixels[::_STEP, ::_STEP]
        if int(seen.max()) - int(seen.min()) < _EVEN:
            return None
        return f"the picture has not changed by a single pixel for {same_s:.1f} s ({self._same} frames)"


def _may_repeat(frame: Frame) -> bool:
    """False for what may honestly be shown twice: drawn scenes; damaged frames may all be black."""
    return not frame.simulated and not frame.still and frame.damaged is None


def _differ(one: Frame, other: Frame) -> bool:
    import cv2

    if one.name != other.name or one.pixels.shape != other.pixels.shape:
        return True
    # nearly always told by a few of them
    if not np.array_equal(one.pixels[::_STEP, ::_STEP], other.pixels[::_STEP, ::_STEP]):
        return True
    return bool(cv2.norm(one.pixels, other.pixels, cv2.NORM_INF))
