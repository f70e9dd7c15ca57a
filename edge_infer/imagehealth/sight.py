"""What the checks look at in one frame: pictures that are made when the first check asks."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from edge_infer.geometry import PixelBox

Gray = NDArray[np.uint8]
"""(height, width)"""

THIN = 160
"""Most pixels of the thin picture's longer side."""
PLAN = 320
"""Most pixels of the plan's longer side."""
SATURATED = 250
_EDGE_LOW, _EDGE_HIGH = 40, 100
THUMB = 24
"""Pixels of the thumb's sides."""


class Sight:
    """One station's region of one frame. Used by one thread at a time."""

    def __init__(self, pixels: NDArray[np.uint8], region: PixelBox) -> None:
        """BGR (H, W, 3), never written to; ``region`` in its pixels."""
        x1, y1, x2, y2 = region
        self.region = region
        self.size = (pixels.shape[1], pixels.shape[0])
        """Width, height of the frame."""
        self._pixels = pixels[y1:y2, x1:x2]

    @cached_property
    def thin(self) -> Gray:
        """Some of the region's pixels, evenly taken: noise and all."""
        import cv2

        height, width = self._pixels.shape[:2]
        step = max(1, -(-max(height, width) // THIN))
        size = (-(-width // step), -(-height // step))
        some = cv2.resize(self._pixels, size, interpolation=cv2.INTER_NEAREST)
        return np.asarray(cv2.cvtColor(some, cv2.COLOR_BGR2GRAY), np.uint8)

    @cached_property
    def plan(self) -> Gray:
        """The region made small; noise is averaged away."""
        import cv2

        height, width = self._pixels.shape[:2]
        scale = PLAN / max(height, width)
        small = self._pixels
        if scale < 1:
            size = (max(1, round(width * scale)), max(1, round(height * scale)))
            small = np.asarray(cv2.resize(self._pixels, size, interpolation=cv2.INTER_AREA), np.uint8)
        return np.asarray(cv2.cvtColor(small, cv2.COLOR_BGR2GRAY), np.uint8)

    @cached_property
    def edges(self) -> Gray:
        """Of the plan: 1 where there is an edge, else 0."""
        import cv2

        return np.asarray(cv2.Canny(self.plan, _EDGE_LOW, _EDGE_HIGH) // 255, np.uint8)

    @cached_property
    def near_edges(self) -> Gray:
        """1 where an edge is at most a pixel away."""
        import cv2

        return np.asarray(cv2.dilate(self.edges, np.ones((3, 3), np.uint8)), np.uint8)

    @cached_property
    def around_edges(self) -> Gray:
        """1 where an edge is a few pixels away: nearer than a camera's shake takes it."""
        import cv2

        return np.asarray(cv2.dilate(self.edges, np.ones((9, 9), np.uint8)), np.uint8)

    @cached_property
    def thumb(self) -> Gray:
        """The coarse distribution of light, which blur does not change."""
        import cv2

        return np.asarray(cv2.resize(self.plan, (THUMB, THUMB), interpolation=cv2.INTER_AREA), np.uint8)

    @property
    def brightness(self) -> float:
        """Mean grey level, 0..255."""
        return self._mean_and_deviation[0]

    @property
    def deviation(self) -> float:
        """Standard deviation of the grey levels."""
        return self._mean_and_deviation[1]

    @cached_property
    def saturated(self) -> float:
        """Share of pixels that hold no more light, 0..1."""
        return self.share_from(SATURATED)

    def share_from(self, level: int) -> float:
        """Share of pixels that are at least so bright, 0..1."""
        return int(np.count_nonzero(self.thin >= level)) / self.thin.size

    @cached_property
    def _mean_and_deviation(self) -> tuple[float, float]:
        import cv2

        mean, deviation = cv2.meanStdDev(self.thin)
        return float(mean[0, 0]), float(deviation[0, 0])

    def native(self, window: PixelBox) -> Gray:
        """A part of the region in the camera's own resolution; ``window`` in pixels of the region."""
        import cv2

        x1, y1, x2, y2 = window
        return np.asarray(cv2.cvtColor(self._pixels[y1:y2, x1:x2], cv2.COLOR_BGR2GRAY), np.uint8)
