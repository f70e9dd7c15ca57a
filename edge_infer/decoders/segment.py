"""Instance segmentation: a box head whose rows also say how to mix prototypes into the object's mask."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from edge_infer.decoders.boxes import Boxes
from edge_infer.decoders.head import Candidates, More, Output, Rows, conclude, finite, objects
from edge_infer.decoders.placing import place
from edge_infer.decoders.yolo import best_class
from edge_infer.decoders.yolo_end2end import final_rows
from edge_infer.errors import ModelError
from edge_infer.findings import Box, Detections, Findings, Grid
from edge_infer.geometry import Transform
from edge_infer.model.card import ModelCard
from edge_infer.tensor import Tensor, TensorSpec

Prototypes = NDArray[np.float32]
"""(count, h, w)"""


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
        prototypes = np.asarray(tensor[0], np.float32)
        rows = self._output.rows(outputs)
        usable = finite(rows)
        if not np.isfinite(prototypes).all():
            # every mask is made of them
            return Findings(
                None, len(rows), "nan", ("the masks' prototypes hold numbers that are not finite",)
            )
        candidates, suppress, warnings = self._candidates(rows, usable)
        more = _masks(rows[:, -len(prototypes) :], prototypes, self._card.input.network_size, transform)
        return conclude(
            self._card, transform, candidates, usable, suppress=suppress, warnings=warnings, more=more
        )

    def _candidates(self, rows: Rows, usable: NDArray[np.bool_]) -> tuple[Candidates, bool, tuple[str, ...]]:
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

    def _candidates(self, rows: Rows, usable: NDArray[np.bool_]) -> tuple[Candidates, bool, tuple[str, ...]]:
        return best_class(self._card, rows, usable), True, ()


class YoloV5Segment(_Segment):
    """v5 and v7: (1, rows, 5 + classes + prototypes) and (1, prototypes, h, w)."""

    def __init__(self, card: ModelCard, outputs: tuple[TensorSpec, ...]) -> None:
        name, count = _prototypes(card, outputs)
        output = Output(
            card, outputs, before=5, classes=len(card.labels), after=count,
            layouts=("rows first", "columns first"),
        )  # fmt: skip
        super().__init__(card, outputs, output, name)

    def _candidates(self, rows: Rows, usable: NDArray[np.bool_]) -> tuple[Candidates, bool, tuple[str, ...]]:
        scored = rows[:, : 5 + len(self._card.labels)]
        return objects(self._card, rows[:, :4], scored, usable), True, ()


class YoloEnd2EndSegment(_Segment):
    """v26 with nms=False, exports with NMS inside: (1, rows, 6 + prototypes) and (1, prototypes, h, w)."""

    def __init__(self, card: ModelCard, outputs: tuple[TensorSpec, ...]) -> None:
        name, count = _prototypes(card, outputs)
        output = Output(card, outputs, before=6, classes=0, after=count, layouts=("rows first",))
        super().__init__(card, outputs, output, name)

    def _candidates(self, rows: Rows, usable: NDArray[np.bool_]) -> tuple[Candidates, bool, tuple[str, ...]]:
        candidates, warnings = final_rows(self._card, rows, usable)
        return candidates, False, warnings


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
    def more(found: Detections, rows: NDArray[np.intp], boxes: Boxes) -> Detections:
        masks = [
            _mask(
                weights[row],
                prototypes,
                box,
                size,
                partial(place, transform=transform, inside=tuple(in_frame)),
            )
            for row, box, in_frame in zip(rows, boxes, found.boxes.tolist(), strict=True)
        ]
        filled = np.array([mask is not None for mask in masks], np.bool_)
        kept = Detections(
            found.boxes[filled],
            found.scores[filled],
            found.class_ids[filled],
            tuple(label for label, is_filled in zip(found.labels, filled, strict=True) if is_filled),
        )
        return replace(kept, masks=tuple(mask for mask in masks if mask is not None))

    return more


def _mask(
    weights: NDArray[np.float32],
    prototypes: Prototypes,
    box: NDArray[np.float64],
    size: tuple[int, int],
    placed: Callable[[NDArray[np.float32], Box], Grid],
) -> Grid | None:
    """Only the part around its box; None where nothing of it lies in the box."""
    _, rows, columns = prototypes.shape
    height, width = size
    # a value beyond each side, so that the mask's edge lies where it would without the cut
    x1, x2 = _span(box[0] * columns / width, box[2] * columns / width, columns)
    y1, y2 = _span(box[1] * rows / height, box[3] * rows / height, rows)
    mixed = np.tensordot(weights, prototypes[:, y1:y2, x1:x2], axes=1)
    covers = (x1 * width / columns, y1 * height / rows, x2 * width / columns, y2 * height / rows)
    positive = mixed > 0
    if not positive.any():
        return None
    mask = placed(np.asarray(mixed, np.float32), covers)
    # spread over the frame, which takes longer, only where what is above 0 may lie beside the box
    return mask if positive[2:-2, 2:-2].any() or mask.area else None


def _span(start: float, end: float, count: int) -> tuple[int, int]:
    first = min(max(math.floor(min(max(start, 0), count)) - 1, 0), count - 1)
    last = max(min(math.ceil(min(max(end, 0), count)) + 1, count), first + 1)
    return first, last
