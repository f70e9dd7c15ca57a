"""The fixed structure of a station's picture: the edges that stay where they are while parts pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edge_infer.geometry import PixelBox
from edge_infer.imagehealth.sight import Gray, Sight

COLUMNS, ROWS = 6, 4
"""Of the grid that covers are looked for in."""
LEAST = 60
"""Edge pixels of a plan that are a structure."""
LEAST_OF_A_TILE = 12
"""Edge pixels of a tile that cannot all be chance."""
_OFTEN, _EXACTLY = 0.8, 0.3
"""In how many of the frames an edge was near a place, and just there."""
_WINDOW = (640, 360)


@dataclass(frozen=True, slots=True, eq=False)
class Structure:
    """Of one commissioned station."""

    edges: Gray
    """1 where a fixed edge is, in a plan's pixels."""
    tiles: tuple[int, ...]
    """Fewest pixels of it that had an edge near, in each tile, row by row."""
    window: PixelBox
    """Where most of it lies, pixels of the region: sharpness is measured there."""
    sharpest: float
    """Share of the window's pixels that are its sharp ones."""
    thumb: Gray
    """How light is distributed, the mean of all frames."""

    @property
    def usable_tiles(self) -> NDArray[np.intp]:
        """The tiles that parts never hid."""
        return np.flatnonzero(np.array(self.tiles) >= LEAST_OF_A_TILE)


def find(sights: Sequence[Sight]) -> Structure | None:
    """None where nothing stays where it is."""
    near = np.mean([sight.near_edges for sight in sights], axis=0)
    there = np.mean([sight.edges for sight in sights], axis=0)
    edges = ((near >= _OFTEN) & (there >= _EXACTLY)).astype(np.uint8)
    if int(edges.sum()) < LEAST:
        return None
    window, share = _densest(edges, sights[0].region)
    return Structure(
        edges=edges,
        tiles=tuple(np.min([counts(sight.around_edges & edges) for sight in sights], axis=0).tolist()),
        window=window,
        sharpest=share,
        thumb=np.mean([sight.thumb for sight in sights], axis=0).astype(np.uint8),
    )


def counts(edges: Gray) -> NDArray[np.int64]:
    """(ROWS * COLUMNS,) edge pixels in each tile."""
    height, width = edges.shape
    table = np.zeros((height + 1, width + 1), np.int64)
    table[1:, 1:] = edges.cumsum(0, np.int64).cumsum(1)
    xs = np.arange(COLUMNS + 1) * width // COLUMNS
    ys = np.arange(ROWS + 1) * height // ROWS
    sums = table[np.ix_(ys, xs)]
    sums = sums[1:, 1:] - sums[:-1, 1:] - sums[1:, :-1] + sums[:-1, :-1]
    return np.asarray(sums.ravel(), np.int64)


def _densest(edges: Gray, region: PixelBox) -> tuple[PixelBox, float]:
    """The window with most of the structure, and which share of its pixels that is at full resolution."""
    import cv2

    x1, y1, x2, y2 = region
    width, height = min(_WINDOW[0], x2 - x1), min(_WINDOW[1], y2 - y1)
    scale_x, scale_y = (x2 - x1) / edges.shape[1], (y2 - y1) / edges.shape[0]
    size = max(1, round(width / scale_x)), max(1, round(height / scale_y))
    sums = cv2.boxFilter(
        edges, cv2.CV_32F, size, anchor=(0, 0), normalize=False, borderType=cv2.BORDER_CONSTANT
    )
    row, column = np.unravel_index(int(sums.argmax()), sums.shape)
    left = min(round(int(column) * scale_x), x2 - x1 - width)
    top = min(round(int(row) * scale_y), y2 - y1 - height)
    # an edge of the plan is a line in the camera's picture: as many times longer, not wider
    pixels = float(sums.max()) * max(scale_x, scale_y)
    return (left, top, left + width, top + height), min(0.25, pixels / (width * height))
