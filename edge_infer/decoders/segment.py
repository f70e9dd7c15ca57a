"""Instance segmentation: a box head whose rows also say how to mix prototypes into the object's mask."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from edge_infer.decoders.boxes import Boxes
from edge_infer.decoders.head import (
    Candidates,
    More,
    Output,
    Rows,
    best_class,
    conclude,
    finite,
    middle_and_size,
    objects,
)
from edge_infer.decoders.placing import place
from edge_infer.decoders.yolo_end2end import final_rows
from edge_infer.errors import ModelError
from edge_infer.findings import Detections, Findings, Grid
from edge_infer.geometry import Transform
from edge_infer.model.card import ModelCard
from edge_infer.tensor import Tensor, TensorSpec

Prototypes = NDArray[np.floating]
"""(count, h, w)"""
_Chosen = tuple[Candidates, NDArray[np.bool_] | None, bool, tuple[str, ...]]
"""Rows, which of all are finite (None: all), whether they are still to be suppressed, and warnings."""


class _Segment:
    """A row is box, scores and one weight a prototype; a mask is where the weighted sum is above 0."""

    def __init__(self, card: ModelCard, outputs: tuple[TensorSpec, ...], output: Output, name: str) -> None:
        self._card = card
        self._outputs = outputs
        self._output = output
        self._prototypes = name

    def decode(self, outputs: Mapping[str, Tensor], transform: Transform) -> Findings:
        """An object whose mask is empty is dropped."""
        tensor = outputs[self._prototypes]
        prototypes = tensor[0]
        rows = self._output.rows(outputs)
        if not np.isfinite(prototypes).all():
            # every mask is made of them
            return Findings(
                None, len(rows), "nan", ("the masks' prototypes hold numbers that are not finite",)
            )
        candidates, usable, suppress, warnings = self._candidates(rows)
        more = _masks(rows[:, -len(prototypes) :], prototypes, self._card.input.network_size, transform)
        return conclude(
            self._card, transform, candidates, usable, suppress=suppress, warnings=warnings, more=more
        )

    def _candidates(self, rows: Rows) -> _Chosen:
        raise NotImplementedError


class YoloV8Segment(_Segment):
    """v8, v9, v11, v12, raw v26: (1, 4 + classes + prototypes, rows) and (1, prototypes, h, w)."""

    def __init__(self, card: ModelCard, outputs: tuple[TensorSpec, ...]) -> None:
        name, count = _prototypes(card, outputs)
        output = Output(
            card, outputs, before=4, classes=len(card.labels), after=count,
            layouts=("columns first", "rows first"),
        )  # fmt: skip
        super().__init__(card, outputs, output, name)

    def _candidates(self, rows: Rows) -> _Chosen:
        candidates, usable = best_class(self._card, rows)
        return candidates, usable, True, ()


class YoloV5Segment(_Segment):
    """v5 and v7: (1, rows, 5 + classes + prototypes) and (1, prototypes, h, w)."""

    def __init__(self, card: ModelCard, outputs: tuple[TensorSpec, ...]) -> None:
        name, count = _prototypes(card, outputs)
        output = Output(
            card, outputs, before=5, classes=len(card.labels), after=count,
            layouts=("rows first", "columns first"),
        )  # fmt: skip
        super().__init__(card, outputs, output, name)

    def _candidates(self, rows: Rows) -> _Chosen:
        usable = finite(rows)
        return objects(self._card, rows, usable, middle_and_size(rows)), usable, True, ()


class YoloEnd2EndSegment(_Segment):
    """v26 with nms=False, exports with NMS inside: (1, rows, 6 + prototypes) and (1, prototypes, h, w)."""

    def __init__(self, card: ModelCard, outputs: tuple[TensorSpec, ...]) -> None:
        name, count = _prototypes(card, outputs)
        output = Output(card, outputs, before=6, classes=0, after=count, layouts=("rows first",))
        super().__init__(card, outputs, output, name)

    def _candidates(self, rows: Rows) -> _Chosen:
        usable = finite(rows)
        candidates, warnings = final_rows(self._card, rows, usable)
        return candidates, usable, False, warnings


def _prototypes(card: ModelCard, outputs: Sequence[TensorSpec]) -> tuple[str, int]:
    """The name of the output (1, prototypes, h, w), and how many."""
    fitting = [spec for spec in outputs if len(spec.shape) == 4]
    count = fitting[0].shape[1] if len(fitting) == 1 else None
    if count is None:
        raise ModelError(
            f"{card.network}: {len(fitting)} of its outputs have four dimensions, "
            "masks are made of exactly one with a known number of prototypes",
            hint="correct task in the model card",
        )
    return fitting[0].name, count


def _masks(weights: Rows, prototypes: Prototypes, size: tuple[int, int], transform: Transform) -> More:
    count, lines, columns = prototypes.shape
    height, width = size

    def more(found: Detections, rows: NDArray[np.intp], boxes: Boxes) -> Detections:
        masks: list[Grid] = []
        kept: list[int] = []
        parts = zip(
            weights[rows].astype(np.float32),
            _spans(boxes[:, 0::2] * columns / width, columns),
            _spans(boxes[:, 1::2] * lines / height, lines),
            found.boxes.tolist(),
            strict=True,
        )
        for index, (each, (x1, x2), (y1, y2), inside) in enumerate(parts):
            # only the part around its box
            part = prototypes[:, y1:y2, x1:x2].astype(np.float32, copy=False)
            values = (each @ part.reshape(count, -1)).reshape(y2 - y1, x2 - x1)
            covers = (x1 * width / columns, y1 * height / lines, x2 * width / columns, y2 * height / lines)
            mask = place(values, covers, transform, tuple(inside))
            if not _lies_beside(mask):
                masks.append(mask)
                kept.append(index)
        return replace(
            found,
            boxes=found.boxes[kept],
            scores=found.scores[kept],
            class_ids=found.class_ids[kept],
            labels=tuple(found.labels[index] for index in kept),
            masks=tuple(masks),
        )

    return more


def _lies_beside(mask: Grid) -> bool:
    """Whether nothing of it lies in the box, or only in what of the box is padding."""
    positive = mask.values > 0
    x1, y1, x2, y2 = mask.inside
    rows = _well_inside(y1 * mask.scale_y + mask.shift_y, y2 * mask.scale_y + mask.shift_y)
    columns = _well_inside(x1 * mask.scale_x + mask.shift_x, x2 * mask.scale_x + mask.shift_x)
    # spread over the frame, which takes longer, only where what is above 0 may lie beside the box
    return not positive[rows, columns].any() and (not positive.any() or mask.is_empty)


def _well_inside(start: float, end: float) -> slice:
    """Cells between the two, without those at the edge."""
    return slice(max(math.floor(start) + 1, 0), max(math.ceil(end) - 1, 0))


def _spans(sides: NDArray[np.float64], count: int) -> list[tuple[int, int]]:
    """(N, 2) from where to where in the prototypes -> their cells, and one beyond each side.

    So that the mask's edge lies where it would without the cut.
    """
    inside = np.clip(sides, 0, count)
    first = np.clip(np.floor(inside[:, 0]) - 1, 0, count - 1).astype(np.intp)
    last = np.maximum(np.minimum(np.ceil(inside[:, 1]) + 1, count), first + 1).astype(np.intp)
    return list(zip(first.tolist(), last.tolist(), strict=True))
