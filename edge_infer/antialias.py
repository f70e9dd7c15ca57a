"""Making a picture smaller as PIL and torchvision do: every pixel of it counts."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from edge_infer.geometry import Fit

_TOGETHER = 4
"""New lines that are made from one piece of the picture: as floats it fits in the processor's cache."""


class _Band(NamedTuple):
    """Neighbouring new lines, and the old ones that they are made of."""

    new: slice
    old: slice
    weights: NDArray[np.float32]
    """(new, old)"""


def antialiased(picture: NDArray[np.uint8], fit: Fit) -> NDArray[np.uint8]:
    """The part of the resized picture that lies in the network's input; (H, W, channels) or grey (H, W).

    A triangle as wide as one pixel of the result, in each direction.
    """
    height, width = picture.shape[:2]
    channels = picture.size // (height * width)
    rows, columns = fit.kept
    down = _bands(height, fit.height, rows.start, rows.stop)
    across = _bands(width, fit.width, columns.start, columns.stop)
    # what is cut off need not be made smaller first
    left, right = across[0].old.start, across[-1].old.stop
    lines = _mixed(picture[:, left:right].reshape(height, -1), down)
    turned = cv2.transpose(lines.reshape(-1, right - left, channels)).reshape(right - left, -1)
    both = _mixed(np.asarray(turned, np.uint8), across, left)
    resized = cv2.transpose(both.reshape(-1, len(lines), channels))
    return np.asarray(resized, np.uint8).reshape(*resized.shape[:2], *picture.shape[2:])


def _mixed(lines: NDArray[np.uint8], bands: tuple[_Band, ...], first: int = 0) -> NDArray[np.uint8]:
    """New lines; ``lines`` begin with the old one that is the ``first`` of all."""
    result = np.empty((bands[-1].new.stop, lines.shape[1]), np.uint8)
    piece = np.empty((max(band.weights.shape[1] for band in bands), lines.shape[1]), np.float32)
    for band in bands:
        old = piece[: band.weights.shape[1]]
        np.copyto(old, lines[band.old.start - first : band.old.stop - first])
        new = band.weights @ old
        # rounded in between as PIL does; floats would cost more in memory than in arithmetic
        result[band.new] = np.rint(new, out=new)
    return result


@lru_cache(maxsize=16)
def _bands(size: int, new_size: int, start: int, stop: int) -> tuple[_Band, ...]:
    """Of ``size`` old lines made ``new_size``; those from ``start`` to ``stop`` are wanted."""
    scale = size / new_size
    reach = max(scale, 1.0)
    bands = []
    for begin in range(start, stop, _TOGETHER):
        middles = (np.arange(begin, min(begin + _TOGETHER, stop)) + 0.5) * scale
        lowest, highest = np.maximum(middles - reach + 0.5, 0), np.minimum(middles + reach + 0.5, size)
        first, last = int(lowest[0]), int(highest[-1])
        old = np.arange(first, last)
        weights = np.maximum(0, 1 - np.abs((old - middles[:, None] + 0.5) / reach))
        weights[(old < lowest[:, None].astype(int)) | (old >= highest[:, None].astype(int))] = 0
        weights /= weights.sum(axis=1, keepdims=True)
        new = slice(begin - start, begin - start + len(middles))
        bands.append(_Band(new, slice(first, last), weights.astype(np.float32)))
    return tuple(bands)
