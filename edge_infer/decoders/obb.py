"""Oriented boxes: a box head whose rows also say by which angle the box is turned."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from edge_infer.decoders.boxes import Boxes
from edge_infer.decoders.head import Candidates, Output, Rows, best_class, conclude, finite, left_out
from edge_infer.decoders.placing import FARTHEST, points_to_frame
from edge_infer.decoders.rivals import rivals
from edge_infer.decoders.yolo_end2end import final_rows
from edge_infer.findings import Detections, Findings
from edge_infer.geometry import Transform
from edge_infer.model.card import ModelCard
from edge_infer.tensor import Tensor, TensorSpec

Turned = NDArray[np.float64]
"""(N, 5) cx, cy, w, h in network pixels and the angle of the width's side, radians, clockwise."""

_TINY = 1e-7
_BLOCK = 64
# areas, squared, and sides, squared, between which the numbers are good to 1 %
_SMALLEST = 1e-2
_LARGEST = 1e8


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
        found, usable = best_class(self._card, rows)
        stay = _not_suppressed(_turned(rows, found.rows), found.class_ids, self._card.nms_iou)
        left = replace(
            found, scores=found.scores[stay], class_ids=found.class_ids[stay], rows=found.rows[stay]
        )
        warnings = left_out(self._card, found, len(stay))
        return _conclude(self._card, transform, left, rows, usable, warnings=warnings)


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
    usable: NDArray[np.bool_] | None,
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
    gone = np.zeros(len(turned), np.bool_)

    def compare(better: NDArray[np.intp], worse: NDArray[np.intp]) -> None:
        gone[worse[probabilistic_iou(turned[better], turned[worse]) >= threshold]] = True

    center, reach = turned[:, :2], _reach(turned, threshold)[:, None]
    pairs = rivals(np.concatenate([center - reach, center + reach], axis=1), class_ids)
    if pairs is not None:
        compare(*pairs)
    else:
        # what is suppressed by the best need not be compared with the others
        for start in range(0, len(turned), _BLOCK):
            block, left = (
                np.arange(len(turned))[start : start + _BLOCK],
                start + np.flatnonzero(~gone[start:]),
            )
            better, worse = np.nonzero((class_ids[block, None] == class_ids[left]) & (block[:, None] < left))
            compare(block[better], left[worse])
    return np.flatnonzero(~gone)


def _reach(turned: Turned, threshold: float) -> NDArray[np.float64]:
    """(N,) pixels: boxes with middles farther apart than the sum of both overlap by less than the threshold.

    By the part of the distributions' distance that their middles alone make.
    """
    alike = 1 - (1 - threshold) ** 2
    # no distance counts as more than 100
    most = min(-math.log(alike), 100) if alike > 0 else 100
    sides = turned[:, 2:4] ** 2
    reach = 4 * (most + 0.1) * sides.max(axis=1, initial=0) / 12
    # where the numbers lose their digits nobody knows
    safe = (sides.prod(axis=1) > _SMALLEST) & (sides.max(axis=1, initial=0) < _LARGEST)
    return np.where(safe, np.sqrt(reach), np.inf)


def probabilistic_iou(a: Turned, b: Turned) -> NDArray[np.float64]:
    """(...) overlap of a[...] and b[...], boxes as normal distributions (arXiv 2106.06072): 1 - Hellinger."""
    (a_xx, a_yy, a_xy), (b_xx, b_yy, b_xy) = _covariance(a), _covariance(b)
    xx, yy, xy = a_xx + b_xx, a_yy + b_yy, a_xy + b_xy
    dx, dy = a[..., 0] - b[..., 0], a[..., 1] - b[..., 1]
    mixed = xx * yy - xy**2
    apart = (xx * dy**2 + yy * dx**2 - 2 * xy * dx * dy) / (mixed + _TINY) / 4
    own = np.maximum(a_xx * a_yy - a_xy**2, 0) * np.maximum(b_xx * b_yy - b_xy**2, 0)
    shape = np.log(np.maximum(mixed, 0) / (4 * np.sqrt(own) + _TINY) + _TINY) / 2
    distance = np.clip(apart + shape, _TINY, 100)
    return np.asarray(1 - np.sqrt(1 - np.exp(-distance) + _TINY))


def _covariance(turned: Turned) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """xx, yy, xy"""
    width, height, angle = turned[..., 2] ** 2 / 12, turned[..., 3] ** 2 / 12, turned[..., 4]
    cos, sin = np.cos(angle), np.sin(angle)
    return (
        width * cos**2 + height * sin**2,
        width * sin**2 + height * cos**2,
        (width - height) * cos * sin,
    )
