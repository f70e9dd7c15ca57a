"""The same pictures again and again: a sensor's noise makes each one different."""

from __future__ import annotations

from collections import OrderedDict

import numpy as np
from numpy.typing import NDArray

from edge_infer.frame import Frame

LEAST_FRAMES = 10
"""So many without a new picture; H.264 gives a few identical ones where nothing moves."""
_REMEMBERED = 8
"""Pictures that may repeat in turn: the encoder of a frozen camera makes a few different ones of one, again
and again with each key frame. A recording in a loop has more."""
_STEP = 16
_EVEN = 16
"""Grey levels between the darkest and the brightest pixel: with less nothing can be told. Without light even
a sensor's noise is cut off, and that is `dark`, not frozen."""

_Key = tuple[str | None, tuple[int, ...], bytes, int]


class Stillness:
    """Follows one camera; sees each of its frames, in order."""

    def __init__(self, frozen_s: float | None) -> None:
        """Seconds by the frames' own time; None: never frozen."""
        self._frozen_s = frozen_s
        self._seen: OrderedDict[_Key, None] = OrderedDict()
        self._new_s = 0.0
        """When there was a new picture."""
        self._frames = 0
        """Since then."""

    def see(self, frame: Frame) -> str | None:
        """Why it is frozen, if it is."""
        if self._frozen_s is None:
            return None
        if not _must_change(frame):
            self._seen.clear()
            return None
        key = _key(frame)
        if key not in self._seen or frame.time_s < self._new_s:
            self._new_s, self._frames = frame.time_s, 1
            self._seen[key] = None
            if len(self._seen) > _REMEMBERED:
                self._seen.popitem(last=False)
            return None
        self._seen.move_to_end(key)
        self._frames += 1
        still_s = frame.time_s - self._new_s
        if self._frames < LEAST_FRAMES or still_s < self._frozen_s:
            return None
        if _is_even(frame.pixels):
            return None
        return f"there was no new picture for {still_s:.1f} s ({self._frames} frames)"


def _must_change(frame: Frame) -> bool:
    """False for what may honestly be shown twice: drawn scenes; damaged frames may all be black."""
    return not frame.simulated and not frame.still and frame.damaged is None


def _key(frame: Frame) -> _Key:
    """Some pixels and the sum of all: other pictures have other ones, but for odds of no account."""
    flat = frame.pixels.reshape(-1)
    whole = flat.size // 8 * 8
    total = int(flat[:whole].view(np.uint64).sum()) + int(flat[whole:].sum())
    return frame.name, frame.pixels.shape, frame.pixels[::_STEP, ::_STEP].tobytes(), total


def _is_even(pixels: NDArray[np.uint8]) -> bool:
    seen = pixels[::_STEP, ::_STEP]
    return int(seen.max()) - int(seen.min()) < _EVEN
