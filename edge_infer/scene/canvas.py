"""What a sprite is drawn on: light let through and light added, in the coordinates of a tilted bottle.

Everything is worked out in the bottle's own coordinates (u across, v up from the base), so that tilt and
size need no resampling.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_infer.scene.product import Product

Plane = NDArray[np.float32]
Tone = NDArray[np.floating[Any]] | tuple[float, float, float]
Box = tuple[float, float, float, float]

WIDTH, HEIGHT = 208, 432
"""Of a sprite, pixels."""
FOOT_X, FOOT_Y = 104, 392
"""Where in the sprite the middle of the bottle's base is."""


class Canvas:
    """A sprite in the making, or a window of one (the same memory)."""

    _PLANES = ("through", "light", "x", "y", "u", "v", "w", "s", "depth", "inside")

    def __init__(self, product: Product, tilt: float, size: float) -> None:
        self.top = self.left = 0
        self.through = np.ones((HEIGHT, WIDTH, 3), np.float32)
        """What passes of the light behind, 0..1."""
        self.light = np.zeros((HEIGHT, WIDTH, 3), np.float32)
        """What is added to it, 0..255."""
        row, column = np.mgrid[0:HEIGHT, 0:WIDTH].astype(np.float32)
        self.x: Plane = column - FOOT_X
        self.y: Plane = FOOT_Y - row
        cos, sin = np.float32(np.cos(tilt) / size), np.float32(np.sin(tilt) / size)
        self.u: Plane = self.x * cos - self.y * sin
        self.v: Plane = self.x * sin + self.y * cos
        self.w: Plane = product.half_width(self.v)
        self.s: Plane = np.clip(self.u / np.maximum(self.w, 1), -1, 1)
        """-1 at the left rim, 1 at the right one."""
        self.depth: Plane = np.sqrt(1 - self.s * self.s)
        """1 in the middle, 0 at the rims."""
        self.inside: Plane = between(self.u, -self.w, self.w) * between(self.v, 0, product.shape.mouth)
        """Coverage of the bottle without its cap."""

    def window(self, low: float, high: float, reach: float = 60, center: float = 0) -> Canvas:
        """The part from ``low`` to ``high`` above the base and ``reach`` to both sides of ``center``."""
        window = object.__new__(Canvas)
        y1, y2 = max(int(FOOT_Y - high) - 2, 0), min(int(FOOT_Y - low) + 2, HEIGHT)
        x1, x2 = max(int(FOOT_X + center - reach), 0), min(int(FOOT_X + center + reach), WIDTH)
        for name in self._PLANES:
            setattr(window, name, getattr(self, name)[y1:y2, x1:x2])
        window.top, window.left = y1, x1
        return window

    def lay(self, alpha: NDArray[np.floating[Any]], through: Tone, light: Tone) -> None:
        """Put something in front: where ``alpha``, it lets ``through`` pass and adds ``light`` (0..255)."""
        a = alpha.astype(np.float32, copy=False)[..., None]
        keep = 1 - a * (1 - np.asarray(through, np.float32))
        self.through *= keep
        self.light *= keep
        self.light += a * np.asarray(light, np.float32)

    def cover(self, alpha: NDArray[np.floating[Any]], color: Tone) -> None:
        """Put something opaque in front."""
        self.lay(alpha, (0.0, 0.0, 0.0), color)

    def box(self, alpha: NDArray[np.floating[Any]]) -> Box | None:
        """x1, y1, x2, y2 in the sprite of what ``alpha`` covers; None where it covers nothing."""
        mask = alpha > 0.5
        rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
        if not rows.size:
            return None
        x, y = self.left, self.top
        return (
            float(columns[0] + x),
            float(rows[0] + y),
            float(columns[-1] + 1 + x),
            float(rows[-1] + 1 + y),
        )


def between(value: Plane, low: Plane | float, high: Plane | float) -> Plane:
    """1 between, 0 outside, half a pixel soft."""
    covered: Plane = np.clip(value - low + 0.5, 0, 1) * np.clip(high - value + 0.5, 0, 1)
    return covered


def ramp(value: Plane, low: float, high: float) -> Plane:
    """0 below, 1 above, smooth between."""
    t: Plane = np.clip((value - low) / (high - low), 0, 1)
    return t * t * (3 - 2 * t)


def bell(value: Plane, center: Plane | float, width: float) -> Plane:
    """1 at ``center``, 0 far from it."""
    t = (value - center) / width
    curve: Plane = np.exp(-t * t)
    return curve
