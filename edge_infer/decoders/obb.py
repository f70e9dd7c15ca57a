"""Oriented boxes: a box head whose rows also say by which angle the box is turned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from edge_infer.decoders.boxes import MOST_CANDIDATES, Boxes, best_first
from edge_infer.decoders.head import Candidates, Output, Rows, conclude, finite
from edge_infer.decoders.placing import FARTHEST, points_to_frame
from edge_infer.decoders.yolo import best_class
from edge_infer.decoders.yolo_end2end import final_rows
from edge_infer.findings import Detections, Findings
from edge_infer.geometry import Transform
from edge_infer.model.card import ModelCard
from edge_infer.tensor import Tensor, TensorSpec

Turned = NDArray[np.float64]
"""(N, 5) cx, cy, w, h in network pixels and the angle of the width's side, radians, clockwise."""

_TINY = 1e-7


class YoloV8Obb:
    """v8, v11, v12, raw v26: (1, 4 + classes + 1, rows); the angle is last."""

    def __init__(self, card: ModelCard, outputs: tuple[TensorSpec, ...]) -> None:
        self._card = card
        self._output = Output(
            card, outputs, before=4, classes=len(card.labels), after=1,
            layouts=("columns first", "rows first"),
        )  # fmt: skip

    def decode(self, outputs: Mapping[str, Tensor], transform: Transform) -> Findings:
        """Score = the best class; of boxes of one class that overlap as distributions the best stays."""
        rows = self._output.rows(outputs)
        usable = finite(rows)
        found = best_class(self._card, rows, usable)
        order = best_first(found.scores, MOST_CANDIDATES)
        turned = _turned(rows, found.rows[order])
        stay = order[_not_suppressed(turned, found.class_ids[order], self._card.nms_iou)]
        left = Candidates(found.boxes[stay], found.scores[stay], found.class_ids[stay], found.rows[stay])
        return _conclude(self._card, transform, left, rows, usable)


class YoloEnd2EndObb:
    """v26 with nms=False, exports with NMS inside: (1, rows, 7): cx, cy, w, h, score, class, angle."""

    def __init__(self, card: ModelCard, outputs: tuple[TensorSpec, ...]) -> None:
        self._card = card
        self._output = Output(card, outputs, before=6, classes=0, after=1, layouts=("rows first",))

    def decode(self, outputs: Mapping[str, Tensor], transform: Transform) -> Findings:
        """A row whose class has no label is dropped, and said."""
        rows = self._output.rows(outputs)
        usable = finite(rows)
        found, warnings = final_rows(self._card, rows, usable)
        return _conclude(self._card, transform, found, rows, usable, warnings=warnings)


def _conclude(
    card: ModelCard,
    transform: Transform,
    found: Candidates,
    rows: Rows,
    usable: NDArray[np.bool_],
    *,
    warnings: tuple[str, ...] = (),
) -> Findings:
    upright = _upright(corners_of(_turned(rows, found.rows)))
    candidates = replace(found, boxes=upright)

    def more(detections: Detections, which: NDArray[np.intp], _: Boxes) -> Detections:
        corners = points_to_frame(corners_of(_turned(rows, which)), transform)
        side = corners[:, 1] - corners[:, 0]
        angles = np.arctan2(side[:, 1], side[:, 0])
        return replace(detections, corners=corners.astype(np.float32), angles=angles.astype(np.float32))

    return conclude(card, transform, candidates, usable, suppress=False, warnings=warnings, more=more)


def _turned(rows: Rows, which: NDArray[np.intp]) -> Turned:
    found = rows[which].astype(np.float64)
    boxes = np.clip(found[:, :4], -FARTHEST, FARTHEST)
    return np.concatenate([boxes, found[:, -1:]], axis=1)


def corners_of(turned: Turned) -> NDArray[np.float64]:
    """(N, 4, 2) x, y: the first to the second is the width's side, then on around the box."""
    width, height, angle = turned[:, 2], turned[:, 3], turned[:, 4]
    along = np.stack([np.cos(angle), np.sin(angle)], axis=1) * (width / 2)[:, None]
    across = np.stack([-np.sin(angle), np.cos(angle)], axis=1) * (height / 2)[:, None]
    center = turned[:, :2]
    return np.stack(
        [center - along - across, center + along - across, center + along + across, center - along + across],
        axis=1,
    )


def _upright(corners: NDArray[np.float64]) -> Boxes:
    return np.concatenate([corners.min(axis=1), corners.max(axis=1)], axis=1)


def _not_suppressed(turned: Turned, class_ids: NDArray[np.intp], threshold: float) -> NDArray[np.intp]:
    """Which stay of boxes that come best first.

    As the exporter does it: a box that is itself suppressed still suppresses others.
    """
    overlap = np.triu(probabilistic_iou(turned), k=1) >= threshold
    overlap &= class_ids[:, None] == class_ids
    # a threshold of 0 must not let what lies below the diagonal count
    overlap &= np.triu(np.ones_like(overlap), k=1)
    return np.flatnonzero(~overlap.any(axis=0))


def probabilistic_iou(turned: Turned) -> NDArray[np.float64]:
    """(N, N) overlap of every two boxes, each as a normal distribution (arXiv 2106.06072): 1 - Hellinger."""
    width, height, angle = turned[:, 2] ** 2 / 12, turned[:, 3] ** 2 / 12, turned[:, 4]
    cos, sin = np.cos(angle), np.sin(angle)
    # each box's covariance: xx, yy, xy
    xx = width * cos**2 + height * sin**2
    yy = width * sin**2 + height * cos**2
    xy = (width - height) * cos * sin
    both_xx, both_yy, both_xy = (each[:, None] + each for each in (xx, yy, xy))
    dx, dy = (center[:, None] - center for center in (turned[:, 0], turned[:, 1]))
    mixed = both_xx * both_yy - both_xy**2
    apart = (both_xx * dy**2 + both_yy * dx**2 - 2 * both_xy * dx * dy) / (mixed + _TINY) / 4
    own = np.maximum(xx * yy - xy**2, 0)
    shape = np.log(np.maximum(mixed, 0) / (4 * np.sqrt(own[:, None] * own) + _TINY) + _TINY) / 2
    distance = np.clip(apart + shape, _TINY, 100)
    return np.asarray(1 - np.sqrt(1 - np.exp(-distance) + _TINY))
