"""YOLO heads with a box and class scores a row, in network pixels, before NMS."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from edge_infer.decoders.boxes import MOST_CANDIDATES, best_first, corners
from edge_infer.decoders.head import Candidates, Output, Rows, conclude, finite, objects, refuse_logits
from edge_infer.findings import Findings
from edge_infer.geometry import Transform
from edge_infer.model.card import ModelCard
from edge_infer.tensor import Tensor, TensorSpec


def best_class(card: ModelCard, rows: Rows, usable: NDArray[np.bool_]) -> Candidates:
    """Score = the best class, from column 4 on; what follows the classes belongs to the task."""
    by_class = rows.T[4 : 4 + len(card.labels)]
    scores = by_class.max(axis=0)
    refuse_logits(card, scores, usable)
    found = np.flatnonzero((scores >= card.score_threshold) & usable)
    # the class is asked only of those that count
    found = found[best_first(scores[found], MOST_CANDIDATES)]
    class_ids = by_class[:, found].argmax(axis=0)
    return Candidates(corners(rows[found, :4]), scores[found], class_ids, found)


class YoloV8:
    """v6, v8, v9, v11, v12 and raw v26: cx, cy, w, h, then a score a class; (1, 4 + classes, rows)."""

    def __init__(self, card: ModelCard, outputs: tuple[TensorSpec, ...]) -> None:
        self._card = card
        self._output = Output(
            card, outputs, before=4, classes=len(card.labels), layouts=("columns first", "rows first")
        )

    def decode(self, outputs: Mapping[str, Tensor], transform: Transform) -> Findings:
        """Score = the best class."""
        rows = self._output.rows(outputs)
        usable = finite(rows)
        return conclude(self._card, transform, best_class(self._card, rows, usable), usable)


class YoloV5:
    """v3, v5 and v7: cx, cy, w, h, objectness, then a score a class; (1, rows, 5 + classes)."""

    def __init__(self, card: ModelCard, outputs: tuple[TensorSpec, ...]) -> None:
        self._card = card
        self._output = Output(
            card, outputs, before=5, classes=len(card.labels), layouts=("rows first", "columns first")
        )

    def decode(self, outputs: Mapping[str, Tensor], transform: Transform) -> Findings:
        """Score = objectness x the best class."""
        rows = self._output.rows(outputs)
        usable = finite(rows)
        candidates = objects(self._card, rows[:, :4], rows, usable)
        return conclude(self._card, transform, candidates, usable)
