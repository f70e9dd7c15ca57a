"""Boxes: two ways to write them, how much they overlap, and one box an object."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

MOST_CANDIDATES = 1000
"""Only the best so many go into NMS: a very low threshold then costs 3 ms instead of 200."""

_BLOCK = 64

Boxes = NDArray[np.float64]
"""(N, 4); float64, so that no finite answer of a network overflows."""


def corners(boxes: NDArray[np.floating]) -> Boxes:
    """Centre x, centre y, width, height -> x1, y1, x2, y2."""
    center, half = boxes[:, :2].astype(np.float64), boxes[:, 2:].astype(np.float64) / 2
    return np.concatenate([center - half, center + half], axis=1)


def area(boxes: NDArray[np.floating]) -> NDArray[np.float64]:
    """(N,) of x1, y1, x2, y2; 0 where a corner lies on the wrong side."""
    x1, y1, x2, y2 = boxes.T.astype(np.float64)
    return np.asarray(np.maximum(x2 - x1, 0) * np.maximum(y2 - y1, 0))


def iou(a: Boxes, b: Boxes) -> NDArray[np.float64]:
    """(len(a), len(b)): intersection over union of every two x1, y1, x2, y2; 0 for boxes without area."""
    x1, y1, x2, y2 = a.T[:, :, None]
    width = np.minimum(x2, b[:, 2]) - np.maximum(x1, b[:, 0])
    height = np.minimum(y2, b[:, 3]) - np.maximum(y1, b[:, 1])
    both = np.maximum(width, 0) * np.maximum(height, 0)
    union = area(a)[:, None] + area(b) - both
    return np.asarray(np.divide(both, union, out=np.zeros_like(both), where=union > 0))


def best_first(scores: NDArray[np.float32], most: int) -> NDArray[np.intp]:
    """Rows by falling score, at most so many; of equal ones the first, so the answer is always the same."""
    return np.argsort(-scores, kind="stable")[:most]


def nms(boxes: Boxes, class_ids: NDArray[np.intp], threshold: float, most: int) -> NDArray[np.intp]:
    """Which of these x1, y1, x2, y2 stay, best first: no two of a class with an IoU above the threshold.

    The boxes come best first.
    """
    stay: list[int] = []
    left = np.arange(len(boxes))
    # A block of the best at a time: one matrix for all candidates would be large, a row each is slow.
    while left.size and len(stay) < most:
        block = left[:_BLOCK]
        same = (iou(boxes[block], boxes[left]) > threshold) & (class_ids[block, None] == class_ids[left])
        gone = np.zeros(len(left), np.bool_)
        for row, index in enumerate(block.tolist()):
            if not gone[row]:
                stay.append(index)
                gone |= same[row]
        gone[: len(block)] = True
        left = left[~gone]
    return np.array(stay[:most], np.intp)
