"""Boxes: two ways to write them, their area, and one box an object."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

MOST_CANDIDATES = 1000
"""Only the best so many go into NMS: a very low threshold then costs 1 ms instead of 200."""

_FARTHEST = 1e6
"""Pixels: beyond them nothing overlaps, and numbers keep the digits that count."""

Boxes = NDArray[np.float64]
"""(N, 4); float64, so that no finite answer of a network overflows."""


def corners(boxes: NDArray[np.floating]) -> Boxes:
    """Centre x, centre y, width, height -> x1, y1, x2, y2."""
    placed = boxes.astype(np.float64)
    center, half = placed[:, :2], placed[:, 2:] / 2
    np.add(center, half, out=placed[:, 2:])
    center -= half
    return placed


def area(boxes: NDArray[np.floating]) -> NDArray[np.float64]:
    """(N,) of x1, y1, x2, y2; 0 where a corner lies on the wrong side."""
    x1, y1, x2, y2 = boxes.T.astype(np.float64)
    return np.asarray(np.maximum(x2 - x1, 0) * np.maximum(y2 - y1, 0))


def best_first(scores: NDArray[np.float32], most: int) -> NDArray[np.intp]:
    """Rows by falling score, at most so many; of equal ones the first, so the answer is always the same."""
    if not 0 < most < len(scores):
        return np.argsort(-scores, kind="stable")[:most]
    # a sort of all would take longer than what comes after it
    least = np.partition(scores, len(scores) - most)[len(scores) - most]
    rows = np.flatnonzero(scores >= least)
    return rows[np.argsort(-scores[rows], kind="stable")[:most]]


def nms(boxes: Boxes, class_ids: NDArray[np.intp], threshold: float, most: int) -> NDArray[np.intp]:
    """Which of these x1, y1, x2, y2 stay, best first: no two of a class with an IoU above the threshold.

    The boxes come best first.
    """
    if not len(boxes):
        return np.zeros(0, np.intp)
    # corner and size; one without area would suppress those of other classes
    placed = np.minimum(np.maximum(boxes, -_FARTHEST), _FARTHEST)
    placed[:, 2:] -= placed[:, :2]
    np.maximum(placed[:, 2:], 0, out=placed[:, 2:])
    # each class in a place of its own, so that nothing of two classes overlaps
    placed[:, 0] += class_ids * (2 * _FARTHEST + 1)
    ranks = np.arange(len(boxes), 0, -1, dtype=np.float32)
    # its annotations know lists only, which are slower
    kept: Any = cv2.dnn.NMSBoxes(placed, ranks, 0.0, threshold)  # type: ignore[arg-type]
    return np.asarray(kept[:most], np.intp)
