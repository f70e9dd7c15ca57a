"""Objects of one frame that can be compared with those of another answer."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import cv2
import numpy as np
from numpy.typing import NDArray

from edge_infer.findings import Box, Detection, Findings
from edge_infer.model.golden import iou

_SIDE = 256
"""Masks are compared on a grid of so many values a side, over both objects."""


@dataclass(frozen=True)
class Item:
    """One object; of semantic segmentation everything of one label."""

    label: tuple[int, str]
    score: float
    box: Box
    parts: tuple[Detection, ...]

    def overlap(self, other: Item) -> float:
        """IoU of the boxes: cheap, to find which one is the same."""
        return iou(self.box, other.box)

    @cached_property
    def _masks(self) -> bool:
        return all(part.mask is not None for part in self.parts)

    def mask(self, box: Box) -> NDArray[np.bool_]:
        """Of all parts, over ``box``, at ``_SIDE`` values a side."""
        x1, y1, x2, y2 = (round(side) for side in box)
        width, height = max(1, x2 - x1), max(1, y2 - y1)
        whole = np.zeros((_SIDE, _SIDE), bool)
        for part in self.parts:
            if part.mask is None:
                continue
            spread = part.mask.on_frame(x1 + width, y1 + height)[y1:, x1:] > 0
            whole |= cv2.resize(spread.astype(np.uint8), (_SIDE, _SIDE), interpolation=cv2.INTER_NEAREST) > 0
        return whole


def detections(findings: Findings) -> list[Item]:
    """One item an object."""
    return [Item((one.class_id, one.label), one.score, one.box, (one,)) for one in findings.detections or ()]


def items(findings: Findings, other: Findings) -> list[Item]:
    """One item a label: how many regions an area falls into is chance. Its box is that of both answers."""
    labels: dict[tuple[int, str], list[Detection]] = {}
    both: dict[tuple[int, str], list[Box]] = {}
    for one in findings.detections or ():
        labels.setdefault((one.class_id, one.label), []).append(one)
    for each in (*(findings.detections or ()), *(other.detections or ())):
        both.setdefault((each.class_id, each.label), []).append(each.box)
    return [
        Item(label, max(one.score for one in parts), _around(both[label]), tuple(parts))
        for label, parts in labels.items()
    ]


def overlap(one: Item, other: Item) -> float:
    """0..1: of the masks, else of the turned boxes, else of the boxes; of poses how near the points are."""
    if one._masks and other._masks:
        box = _around([one.box, other.box])
        a, b = one.mask(box), other.mask(box)
        either = int(np.count_nonzero(a | b))
        return int(np.count_nonzero(a & b)) / either if either else 1.0
    a_part, b_part = one.parts[0], other.parts[0]
    if a_part.corners and b_part.corners:
        return _turned(a_part.corners, b_part.corners)
    boxes = iou(one.box, other.box)
    if a_part.keypoints and b_part.keypoints:
        points, others = np.array(a_part.keypoints)[:, :2], np.array(b_part.keypoints)[:, :2]
        x1, y1, x2, y2 = one.box
        off = np.hypot(*(points - others).T) / max(1e-6, float(np.hypot(x2 - x1, y2 - y1)))
        return min(boxes, max(0.0, 1 - float(off.mean())))
    return boxes


def _around(boxes: list[Box]) -> Box:
    corners = np.array(boxes)
    x1, y1 = corners[:, :2].min(axis=0).tolist()
    x2, y2 = corners[:, 2:].max(axis=0).tolist()
    return max(0.0, x1), max(0.0, y1), x2, y2


def _turned(one: tuple[tuple[float, float], ...], other: tuple[tuple[float, float], ...]) -> float:
    a, b = np.array(one, np.float32), np.array(other, np.float32)
    both, _ = cv2.intersectConvexConvex(a, b)
    either = cv2.contourArea(a) + cv2.contourArea(b) - both
    return float(both / either) if either > 0 else 0.0
