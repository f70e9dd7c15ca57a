"""Boxes: two ways to write them, how much they overlap, and one box an object."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

MOST_CANDIDATES = 1000
"""Only the best so many go into NMS: a very low threshold then costs 3 ms instead of 200."""

_FIRST_BLOCK, _LARGEST_BLOCK = 8, 64
_MOST_PAIRS, _PAIRS_AT_ONCE = 1 << 17, 1 << 13

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
    rows = np.arange(len(scores))
    if 0 < most < len(scores):
        # a sort of all would take longer than what comes after it
        least = np.partition(scores, len(scores) - most)[len(scores) - most]
        rows = np.flatnonzero(scores >= least)
    return rows[np.argsort(-scores[rows], kind="stable")[:most]]


def nms(boxes: Boxes, class_ids: NDArray[np.intp], threshold: float, most: int) -> NDArray[np.intp]:
    """Which of these x1, y1, x2, y2 stay, best first: no two of a class with an IoU above the threshold.

    The boxes come best first.
    """
    stay: list[int] = []
    left = np.arange(len(boxes))
    size, tried = _FIRST_BLOCK, 2 * len(boxes)
    while left.size and len(stay) < most:
        pairs = None
        # tried again when half of them have gone
        if 2 * left.size <= tried:
            pairs, tried = rivals(boxes[left], class_ids[left]), left.size
        if pairs is not None:
            better, worse = pairs
            above = _iou_of_pairs(boxes[left[better]], boxes[left[worse]]) > threshold
            stay += left[_unbeaten(len(left), better[above], worse[above])].tolist()
            break
        # with so many rivals, as of one large object, the best few leave little of the others
        block = left[:size]
        size = min(2 * size, _LARGEST_BLOCK)
        same = (iou(boxes[block], boxes[left]) > threshold) & (class_ids[block, None] == class_ids[left])
        gone = np.zeros(len(left), np.bool_)
        for row, index in enumerate(block.tolist()):
            if not gone[row]:
                stay.append(index)
                gone |= same[row]
        gone[: len(block)] = True
        left = left[~gone]
    return np.array(stay[:most], np.intp)


def _unbeaten(count: int, better: NDArray[np.intp], worse: NDArray[np.intp]) -> NDArray[np.intp]:
    """Those of ``count`` that no better one, itself unbeaten, beats."""
    gone = np.zeros(count, np.bool_)
    while better.size:
        # whoever has nobody better left stays, and its rivals go
        stays = np.ones(count, np.bool_)
        stays[worse] = False
        gone[worse[stays[better]]] = True
        left = ~(gone[better] | gone[worse])
        better, worse = better[left], worse[left]
    return np.flatnonzero(~gone)


def rivals(boxes: Boxes, class_ids: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.intp]] | None:
    """The better and the worse of every two of a class that share columns and rows; None: too many."""
    count = len(boxes)
    x1, y1, x2, y2 = boxes.T
    by_left = np.argsort(x1)
    lefts = x1[by_left]
    # whole numbers: class, then the place from the left
    place = class_ids * (count + 1)
    own = place.copy()
    own[by_left] += np.arange(count)
    order = np.argsort(own)
    ends = np.searchsorted(own[order], (place + np.searchsorted(lefts, x2))[order])
    # with whom a box shares columns: those that start in it
    each = np.maximum(ends - np.arange(1, count + 1), 0)
    total = int(each.sum())
    if total > _MOST_PAIRS:
        return None
    y1, y2 = y1[order], y2[order]
    until = each.cumsum()
    better, worse = [np.zeros(0, np.intp)], [np.zeros(0, np.intp)]
    # a few thousand pairs at a time: those that share columns are many, those that share rows too are few
    cuts = np.searchsorted(until, np.arange(_PAIRS_AT_ONCE, total, _PAIRS_AT_ONCE)).tolist()
    for start, stop in pairwise([0, *cuts, count]):
        some = each[start:stop]
        first = np.repeat(np.arange(start, stop), some)
        # of each the first partner stands behind it
        second = np.arange(len(first)) + np.repeat(
            np.arange(start + 1, stop + 1) - some.cumsum() + some, some
        )
        rows = np.flatnonzero((y1[first] < y2[second]) & (y1[second] < y2[first]))
        one, other = order[first[rows]], order[second[rows]]
        better.append(np.minimum(one, other))
        worse.append(np.maximum(one, other))
    return np.concatenate(better), np.concatenate(worse)


def _iou_of_pairs(a: Boxes, b: Boxes) -> NDArray[np.float64]:
    """(N,) of a[i] and b[i]."""
    sides = np.minimum(a[:, 2:], b[:, 2:]) - np.maximum(a[:, :2], b[:, :2])
    both = np.maximum(sides[:, 0], 0) * np.maximum(sides[:, 1], 0)
    union = area(a) + area(b) - both
    return np.asarray(np.divide(both, union, out=np.zeros_like(both), where=union > 0))
