"""What detection heads share: finding their output, refusing what does not fit, ending in findings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import cv2
import numpy as np
from numpy.typing import NDArray

from edge_infer.decoders.boxes import MOST_CANDIDATES, Boxes, area, best_first, corners, nms
from edge_infer.errors import ModelError
from edge_infer.findings import Detections, Findings
from edge_infer.geometry import Transform
from edge_infer.model.card import ModelCard
from edge_infer.tensor import Tensor, TensorSpec

Rows = NDArray[np.float32]
"""(N, columns): one for each place where the network looks for an object."""

Layout = Literal["columns first", "rows first"]

# a quantised sigmoid may end a little above 1
_HIGHEST_SCORE = 1.01
_LOWEST_SCORE = -0.01
# boxes in fractions reach a little beyond the picture, those that are turned or offsets in a cell farther
_FRACTIONS_END = 4
# no box reaches so many pictures far: pixels were read as fractions
_FARTHEST = 20
# every float16 by its bits: OpenCV looks a value up four times faster than numpy converts it
_HALF = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32)


class Output:
    """The one output that holds the rows, as (1, columns, rows) or (1, rows, columns)."""

    def __init__(
        self,
        card: ModelCard,
        outputs: Sequence[TensorSpec],
        *,
        before: int,
        classes: int,
        layouts: Sequence[Layout],
        after: int = 0,
    ) -> None:
        """A row has ``before`` values, then ``classes`` scores, then ``after`` values of its task.

        ``layouts``: those that this family is exported in; the first wins where several fit.
        ModelError where no output, or more than one, has such rows.
        """
        self._card = card
        self._columns = before + classes + after
        self._layouts = layouts
        fitting = [spec for spec in outputs if self._fits(spec.shape)]
        if len(fitting) != 1:
            raise ModelError(
                f"{card.network}: {self._misfit(outputs, before + after, classes, len(fitting))}",
                hint="correct labels or decoder in the model card",
            )
        self.name = fitting[0].name
        self.shape = fitting[0].shape

    def rows(self, outputs: Mapping[str, Tensor]) -> Rows:
        """A view of the network's answer, except where it is not float32."""
        tensor = outputs[self.name]
        # a network with a fixed batch answers several pictures, ours is the first
        matrix = tensor[0] if tensor.ndim == 3 else tensor
        if matrix.dtype == np.float16 and matrix.size:
            matrix = np.asarray(cv2.LUT(np.ascontiguousarray(matrix).view(np.uint16), _HALF))
        matrix = np.asarray(matrix, np.float32)
        for layout in self._layouts:
            if self._columns == matrix.shape[_columns_at(layout)]:
                return matrix.T if layout == "columns first" else matrix
        raise ModelError(
            f"{self._card.network}: the network answered {self.name} {_shown(tensor.shape)}, "
            f"the decoder {self._card.decoder} needs rows of {self._columns} values",
            hint="correct labels or decoder in the model card",
        )

    def _fits(self, shape: Sequence[int | None]) -> bool:
        sides = {shape[_columns_at(layout)] for layout in self._layouts} if len(shape) in (2, 3) else set()
        return bool(sides & {self._columns, None})

    def _misfit(self, outputs: Sequence[TensorSpec], before: int, classes: int, fitting: int) -> str:
        shapes = ", ".join(f"{spec.name} {_shown(spec.shape)}" for spec in outputs)
        sides = [side for side in outputs[0].shape[-2:] if side is not None]
        if classes and len(outputs) == 1 and len(outputs[0].shape) == 3 and min(sides, default=0) > before:
            return f"the head ({shapes}) has {min(sides) - before} classes, the card names {classes} labels"
        return (
            f"the decoder {self._card.decoder} needs one output with rows of {self._columns} values, "
            f"{fitting} of the network's fit: {shapes}"
        )


def _columns_at(layout: Layout) -> int:
    return -2 if layout == "columns first" else -1


def _shown(shape: Sequence[int | None]) -> str:
    return "x".join("?" if side is None else str(side) for side in shape)


def finite(rows: Rows) -> NDArray[np.bool_]:
    """(N,) False for rows that hold a NaN or an infinite number."""
    each = np.isfinite(rows)
    return np.ones(len(rows), np.bool_) if each.all() else np.asarray(each.all(axis=1), np.bool_)


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """Rows above the score threshold, in the network's order."""

    boxes: Boxes
    """(N, 4) x1, y1, x2, y2 in network pixels."""
    scores: NDArray[np.float32]
    """(N,)"""
    class_ids: NDArray[np.intp]
    """(N,)"""
    rows: NDArray[np.intp]
    """(N,) where they stand in the network's output."""


More = Callable[[Detections, NDArray[np.intp], Boxes], Detections]
"""Adds what a task finds besides boxes to (detections, their rows, their boxes in network pixels)."""


def refuse_logits(card: ModelCard, scores: NDArray[np.float32], usable: NDArray[np.bool_]) -> None:
    """ModelError where a score, or the best of a row, is below 0: of logits few are above the threshold."""
    lowest = float(scores.min(initial=0, where=usable))
    if lowest < _LOWEST_SCORE:
        raise _no_probability(card, lowest)


def _no_probability(card: ModelCard, score: float) -> ModelError:
    return ModelError(
        f"{card.network}: the network gives a score of {score:.4g}, which is no probability",
        hint=f"it may end before its sigmoid or not be what the decoder {card.decoder} reads",
    )


def _refuse_fractions(card: ModelCard, boxes: Boxes) -> None:
    """ModelError where boxes that should be pixels all lie in the first one: they would find nothing."""
    # an empty box at the corner is none of these
    if len(boxes) and np.abs(boxes).max() <= _FRACTIONS_END and (boxes != np.rint(boxes)).any():
        raise ModelError(
            f"{card.network}: the network gives boxes in fractions of the picture or of its cells, "
            f"the decoder {card.decoder} reads pixels",
            hint="correct decoder in the model card",
        )


def objects(
    card: ModelCard, boxes: NDArray[np.floating], rows: Rows, usable: NDArray[np.bool_]
) -> Candidates:
    """Score = objectness (column 4) x best class (from column 5); ``boxes``: cx, cy, w, h of every row."""
    refuse_logits(card, rows[:, 4], usable)
    # no class score is above 1, so few rows are left to look at
    found = np.flatnonzero((rows[:, 4] >= card.score_threshold) & usable)
    by_class = rows[found, 5:]
    class_ids = by_class.argmax(axis=1)
    best = by_class[np.arange(len(found)), class_ids]
    refuse_logits(card, best, usable[found])
    scores = rows[found, 4] * best
    above = scores >= card.score_threshold
    return Candidates(corners(boxes[found[above]]), scores[above], class_ids[above], found[above])


def conclude(
    card: ModelCard,
    transform: Transform,
    candidates: Candidates,
    usable: NDArray[np.bool_],
    *,
    suppress: bool = True,
    told_in: Literal["pixels", "fractions", "grids"] = "pixels",
    warnings: tuple[str, ...] = (),
    more: More | None = None,
) -> Findings:
    """The best boxes, in frame pixels. ``usable``: for every row, whether it is finite.

    ``told_in``: what the network itself gives: pixels of its input, fractions of it, or offsets in grids.
    A box of which nothing lies in the picture (in the padding, without area) is no object: dropped.
    ModelError where a score is no probability, or all boxes are fractions where pixels should be.
    """
    nan_rows = int(usable.size - np.count_nonzero(usable))
    if nan_rows:
        warnings += (f"{nan_rows} of {usable.size} rows of the network's output are not finite numbers",)
    order = best_first(candidates.scores, MOST_CANDIDATES if suppress else card.max_detections)
    boxes, scores = candidates.boxes[order], candidates.scores[order]
    if len(scores) and scores[0] > _HIGHEST_SCORE:
        raise _no_probability(card, float(scores[0]))
    if suppress:
        stay = nms(boxes, candidates.class_ids[order], card.nms_iou, card.max_detections)
        boxes, scores, order = boxes[stay], scores[stay], order[stay]
    if told_in == "pixels":
        # before those in the padding go: fractions of a letterboxed picture lie there
        _refuse_fractions(card, boxes)
    elif (
        told_in == "fractions"
        and len(boxes)
        and np.abs(boxes).max() > _FARTHEST * max(card.input.network_size)
    ):
        raise ModelError(
            f"{card.network}: the network gives boxes in pixels, the decoder {card.decoder} reads fractions",
            hint="correct decoder in the model card",
        )
    in_frame = transform.boxes_to_frame(boxes)
    real = area(in_frame) > 0
    class_ids = candidates.class_ids[order]
    detections = Detections(
        in_frame[real],
        np.minimum(scores[real], 1),
        class_ids[real].astype(np.int32),
        tuple(card.labels[class_id] for class_id in class_ids[real].tolist()),
    )
    if more is not None:
        detections = more(detections, candidates.rows[order[real]], boxes[real])
    undefined = "nan" if usable.size and nan_rows == usable.size else None
    return Findings(detections, nan_rows, undefined, warnings)
