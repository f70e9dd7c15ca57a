"""What detection heads share: finding their output, refusing what does not fit, ending in findings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from edge_infer.decoders.boxes import MOST_CANDIDATES, Boxes, best_first, corners, nms
from edge_infer.errors import ModelError
from edge_infer.findings import Detections, Findings
from edge_infer.geometry import Transform
from edge_infer.model.card import ModelCard
from edge_infer.tensor import Tensor, TensorSpec

Rows = NDArray[np.floating]
"""(N, columns), float32 or float16: one for each place where the network looks for an object."""

Layout = Literal["columns first", "rows first"]

# a quantised sigmoid may end a little above 1
_HIGHEST_SCORE = 1.01
_LOWEST_SCORE = -0.01
# below every threshold
_NOT_FINITE = -1
# boxes in fractions reach a little beyond the picture, those that are turned or offsets in a cell farther
_FRACTIONS_END = 4
# no box reaches so many pictures far: pixels were read as fractions
_FARTHEST = 20
# numbers of one sign stand in the order of their bits; those of the infinite ones and of NaN come last
_BITS = {np.dtype(np.float32): (np.uint32, 0x7F800000), np.dtype(np.float16): (np.uint16, 0x7C00)}


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
        """A view of the network's answer, except where it is neither float32 nor float16."""
        tensor = outputs[self.name]
        # a network with a fixed batch answers several pictures, ours is the first
        matrix = tensor[0] if tensor.ndim == 3 else tensor
        if matrix.dtype not in _BITS:
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


def finite(*parts: NDArray[np.floating]) -> NDArray[np.bool_]:
    """(N,) of (N, columns) each: False for rows of which a part holds a NaN or an infinite number.

    (..., N) of (..., N, columns).
    """
    usable = np.ones(parts[0].shape[:-1], np.bool_)
    for part in parts:
        each = np.isfinite(part)
        if not each.all():
            usable &= each.all(axis=-1)
    return usable


def highest(
    card: ModelCard, rows: Rows, first: int, count: int
) -> tuple[NDArray[np.float32], NDArray[np.bool_] | None]:
    """(N,) the highest of ``count`` scores from column ``first`` on, and whether the row is ``finite``.

    Where it is not, the score is -1; None: all are. ModelError where the highest of a row is below 0.
    """
    columns = rows.T
    by_class, others = columns[first : first + count], (columns[:first], columns[first + count :])
    kind, infinite = _BITS[rows.dtype]
    # one look at the scores tells both: most of a head is scores
    bits = by_class.view(kind).max(axis=0)
    scores = bits.view(rows.dtype).astype(np.float32, copy=False)
    # from there on one of a row's scores is not finite, or below 0
    if bits.max(initial=0) < infinite and all(np.isfinite(part).all() for part in others if part.size):
        return scores, None
    usable = finite(*(part.T for part in others))
    doubtful = np.flatnonzero(bits >= infinite)
    exact = by_class[:, doubtful]
    usable[doubtful] &= np.isfinite(exact).all(axis=0)
    scores[doubtful] = exact.max(axis=0)
    scores[~usable] = _NOT_FINITE
    refuse_logits(card, scores, usable)
    return scores, usable


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """Rows above the score threshold, best first."""

    boxes: Boxes
    """(N, 4) x1, y1, x2, y2 in network pixels."""
    scores: NDArray[np.float32]
    """(N,)"""
    class_ids: NDArray[np.intp]
    """(N,)"""
    rows: NDArray[np.intp]
    """(N,) where they stand in the network's output."""
    above: int
    """How many rows are above the threshold; of more than are looked at only the best are here."""


Place = Callable[[NDArray[np.intp]], Boxes]
"""x1, y1, x2, y2 in network pixels of these rows, asked only of those that count."""
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
    near = boxes.max(initial=0) <= _FRACTIONS_END and boxes.min(initial=0) >= -_FRACTIONS_END
    # an empty box at the corner is none of these
    if near and len(boxes) and (boxes != np.rint(boxes)).any():
        raise ModelError(
            f"{card.network}: the network gives boxes in fractions of the picture or of its cells, "
            f"the decoder {card.decoder} reads pixels",
            hint="correct decoder in the model card",
        )


def middle_and_size(rows: Rows) -> Place:
    """Boxes as cx, cy, w, h in columns 0..3."""
    return lambda found: corners(rows[found, :4])


def best_class(card: ModelCard, rows: Rows) -> tuple[Candidates, NDArray[np.bool_] | None]:
    """Score = the best class, from column 4 on; what follows the classes belongs to the task.

    And which rows are finite; None: all are.
    """
    scores, usable = highest(card, rows, 4, len(card.labels))
    (found,) = (scores >= card.score_threshold).nonzero()
    above = len(found)
    found = found[best_first(scores[found], MOST_CANDIDATES)]
    class_ids = rows.T[4 : 4 + len(card.labels), found].argmax(axis=0)
    return Candidates(middle_and_size(rows)(found), scores[found], class_ids, found, above), usable


def left_out(card: ModelCard, candidates: Candidates, stay: int) -> tuple[str, ...]:
    """What is said where others than the best might have stayed too; ``stay``: how many of the best did."""
    looked_at = len(candidates.scores)
    if candidates.above <= looked_at or stay >= card.max_detections:
        return ()
    cut = f"only the best {looked_at} of {candidates.above} boxes above the score threshold were looked at"
    return (f"{cut}; raise score_threshold in the model card",)


def objects(card: ModelCard, rows: Rows, usable: NDArray[np.bool_], place: Place) -> Candidates:
    """Score = objectness (column 4) x best class (from column 5)."""
    objectness = rows[:, 4].astype(np.float32)
    refuse_logits(card, objectness, usable)
    # no class score is above 1, so few rows are left to look at
    found = np.flatnonzero((objectness >= card.score_threshold) & usable)
    by_class = rows[found, 5 : 5 + len(card.labels)].astype(np.float32, copy=False)
    best = by_class.max(axis=1)
    refuse_logits(card, best, usable[found])
    scores = objectness[found] * best
    above = np.flatnonzero(scores >= card.score_threshold)
    kept = above[best_first(scores[above], MOST_CANDIDATES)]
    class_ids = by_class[kept].argmax(axis=1)
    found = found[kept]
    return Candidates(place(found), scores[kept], class_ids, found, len(above))


def conclude(
    card: ModelCard,
    transform: Transform,
    candidates: Candidates,
    usable: NDArray[np.bool_] | None,
    *,
    suppress: bool = True,
    told_in: Literal["pixels", "fractions", "grids"] = "pixels",
    warnings: tuple[str, ...] = (),
    more: More | None = None,
) -> Findings:
    """The best boxes, in frame pixels. ``usable``: for every row, whether it is finite; None: all are.

    ``told_in``: what the network itself gives: pixels of its input, fractions of it, or offsets in grids.
    A box of which nothing lies in the picture (in the padding, without area) is no object: dropped.
    ModelError where a score is no probability, or all boxes are fractions where pixels should be.
    """
    nan_rows, undefined = 0, None
    if usable is not None and (nan_rows := int(usable.size - np.count_nonzero(usable))):
        warnings += (f"{nan_rows} of {usable.size} rows of the network's output are not finite numbers",)
        undefined = "nan" if nan_rows == usable.size else None
    if not len(candidates.scores):
        # what most pictures show
        nothing = Detections.none()
        found = nothing if more is None else more(nothing, candidates.rows, candidates.boxes)
        return Findings(found, nan_rows, undefined, warnings)
    stay: slice | NDArray[np.intp] = slice(card.max_detections)
    if candidates.scores[0] > _HIGHEST_SCORE:
        raise _no_probability(card, float(candidates.scores[0]))
    if suppress:
        stay = nms(candidates.boxes, candidates.class_ids, card.nms_iou, card.max_detections)
        warnings += left_out(card, candidates, len(stay))
    boxes = candidates.boxes[stay]
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
    real = (in_frame[:, 2:] > in_frame[:, :2]).all(axis=1)
    class_ids = candidates.class_ids[stay][real]
    detections = Detections(
        in_frame[real],
        np.minimum(candidates.scores[stay][real], 1),
        class_ids.astype(np.int32),
        tuple(card.labels[class_id] for class_id in class_ids.tolist()),
    )
    if more is not None:
        detections = more(detections, candidates.rows[stay][real], boxes[real])
    return Findings(detections, nan_rows, undefined, warnings)
