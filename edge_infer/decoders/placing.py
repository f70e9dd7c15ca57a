"""Where values lie in the frame that a network computed at its own, smaller resolution."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from edge_infer.findings import Box, Grid
from edge_infer.geometry import Transform
from edge_infer.model.card import InputCard

FARTHEST = 1e6
"""Pixels: nothing that a network says to lie beyond is drawn there, and every number stays one."""


def place(
    values: NDArray[np.float32],
    covers: Box,
    transform: Transform,
    inside: Box | None = None,
) -> Grid:
    """``values`` (h, w) cover that part of the network's input (x1, y1, x2, y2 in its pixels).

    ``inside``: frame pixels that they say something about; without it all that was looked at.
    """
    height, width = values.shape
    x1, y1, x2, y2 = covers
    by_x, by_y = width / (x2 - x1), height / (y2 - y1)
    return Grid(
        values,
        transform.scale_x * by_x,
        transform.scale_y * by_y,
        (transform.shift_x - x1) * by_x,
        (transform.shift_y - y1) * by_y,
        inside or seen_of(covers, transform),
    )


def seen_of(covers: Box, transform: Transform) -> Box:
    """The part of the frame that this part of the network's input shows."""
    x1, y1, x2, y2 = transform.boxes_to_frame(np.array([covers], np.float64))[0].tolist()
    return x1, y1, x2, y2


def points_to_frame(points: NDArray[np.floating], transform: Transform) -> NDArray[np.float64]:
    """(..., 2) x, y in network pixels -> frame pixels, not clipped to the frame."""
    shift = np.array([transform.shift_x, transform.shift_y])
    scale = np.array([transform.scale_x, transform.scale_y])
    return np.asarray(np.clip((points.astype(np.float64) - shift) / scale, -FARTHEST, FARTHEST))


def covered(card: InputCard) -> Box:
    """The part of the network's input, in its pixels, that the network's maps show."""
    height, width = card.network_size
    crop_height, crop_width = card.graph_crop or (height, width)
    # as torchvision cuts the middle out
    left, top = round((width - crop_width) / 2), round((height - crop_height) / 2)
    return left, top, left + crop_width, top + crop_height
