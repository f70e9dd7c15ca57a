"""Which boxes can suppress which: those of a class that share columns and rows."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from edge_infer.decoders.boxes import Boxes

MOST_PAIRS = 1 << 17
_AT_ONCE = 1 << 13


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
    if total > MOST_PAIRS:
        return None
    y1, y2 = y1[order], y2[order]
    until = each.cumsum()
    better, worse = [np.zeros(0, np.intp)], [np.zeros(0, np.intp)]
    # a few thousand pairs at a time: those that share columns are many, those that share rows too are few
    cuts = np.searchsorted(until, np.arange(_AT_ONCE, total, _AT_ONCE)).tolist()
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
