"""What one line fills: the bottle's outline, the flavours, their printed labels."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from edge_infer.scene.parts import rng
from edge_infer.scene.printing import printed_label

Plane = NDArray[np.float32]
Color = tuple[float, float, float]

LABEL_RADIUS = 45.0
"""For the curvature of the print."""
LABEL_AROUND = 284
"""Length of the flat print, pixels."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A bottle's outline and what belongs where on it, in pixels above the base."""

    outline: tuple[tuple[float, float], ...]
    """(v, half width)."""
    label: tuple[float, float]
    fill: float
    """Nominal level."""
    mouth: float
    """Where the neck ends."""
    cap: tuple[float, float, float]
    """Bottom, top, half width."""
    glass: Color
    """What one wall lets through, BGR."""


# fmt: off
SHAPES = (
    # a PET bottle with a waist for the label
    Shape(
        ((0, 36), (4, 41), (10, 44), (26, 45), (40, 43.5), (56, 45), (70, 45), (76, 43.5), (176, 43.5),
         (182, 45), (192, 45), (212, 39), (232, 30), (250, 20), (262, 15), (270, 14), (271, 18.5),
         (275, 18.5), (276, 13.5), (296, 13.5)),
        label=(78, 174), fill=232, mouth=296, cap=(278, 301, 17.5), glass=(0.95, 0.95, 0.93),
    ),
    # a glass bottle with a long neck
    Shape(
        ((0, 37), (5, 40.5), (14, 42), (150, 42), (166, 39), (184, 30), (204, 20), (224, 16), (262, 14.5),
         (276, 14), (277, 17), (283, 17), (284, 13.5), (300, 13.5)),
        label=(44, 134), fill=212, mouth=300, cap=(284, 306, 17), glass=(0.80, 0.90, 0.78),
    ),
    # a wide-mouthed bottle for juice
    Shape(
        ((0, 40), (4, 44), (10, 46), (58, 46), (64, 44.5), (168, 44.5), (174, 46), (196, 46), (222, 40),
         (242, 29), (254, 22), (256, 20), (257, 24), (262, 24), (263, 19), (280, 19)),
        label=(66, 166), fill=232, mouth=280, cap=(264, 288, 23), glass=(0.94, 0.95, 0.95),
    ),
)
# fmt: on


@dataclass(frozen=True, slots=True)
class Flavour:
    """What is in the bottle and the colours that go with it, BGR."""

    through: Color
    """What the whole thickness lets through."""
    body: Color
    """What the liquid itself gives back."""
    ink: Color
    cap: Color


FLAVOURS = (
    Flavour((0.90, 0.90, 0.88), (6, 5, 4), (170, 90, 30), (190, 110, 40)),  # water
    Flavour((0.05, 0.07, 0.16), (8, 10, 22), (40, 35, 190), (35, 30, 180)),  # cola
    Flavour((0.04, 0.10, 0.16), (25, 120, 205), (30, 120, 230), (40, 130, 225)),  # orange
    Flavour((0.25, 0.68, 0.86), (10, 45, 60), (60, 140, 70), (70, 150, 60)),  # apple
    Flavour((0.30, 0.80, 0.45), (20, 60, 35), (50, 130, 40), (225, 225, 225)),  # woodruff
    Flavour((0.28, 0.16, 0.74), (30, 20, 90), (120, 40, 150), (60, 60, 65)),  # raspberry
)
_NEXT_FLAVOUR = 5  # no common factor with their number, so that every flavour has its turn


class Product:
    """What one seed's line fills: one shape, a flavour a batch."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        draw = rng(seed, 2)
        self.shape = SHAPES[int(draw.integers(len(SHAPES)))]
        v, w = zip(*self.shape.outline, strict=True)
        steps = np.arange(0, self.shape.mouth + 0.5, 0.5, dtype=np.float32)
        outline = np.interp(steps, v, w).astype(np.float32)[None]
        self._outline = cv2.GaussianBlur(outline, (9, 1), 1.6, borderType=cv2.BORDER_REPLICATE)[0]
        self._heights = steps
        self._first_flavour = int(draw.integers(len(FLAVOURS)))
        self._labels: dict[int, Plane] = {}

    def half_width(self, v: Plane) -> Plane:
        """Of the outline at heights ``v``."""
        width: Plane = np.interp(v, self._heights, self._outline).astype(np.float32)
        return width

    def flavour(self, batch: int) -> Flavour:
        """Neighbouring batches differ."""
        return FLAVOURS[self._kind(batch)]

    def label(self, batch: int) -> Plane:
        """(height, LABEL_AROUND, 3) BGR: the flat print of a batch."""
        kind = self._kind(batch)
        if kind not in self._labels:
            low, high = self.shape.label
            draw = rng(self.seed, 3, kind)
            self._labels[kind] = printed_label(draw, int(high - low), LABEL_AROUND, FLAVOURS[kind].ink)
        return self._labels[kind]

    def _kind(self, batch: int) -> int:
        return (self._first_flavour + batch * _NEXT_FLAVOUR) % len(FLAVOURS)
