"""YOLO heads with a box and class scores a row, in network pixels, before NMS."""

from __future__ import annotations

from collections.abc import Mapping

from edge_infer.decoders.head import Output, best_class, conclude, finite, middle_and_size, objects
from edge_infer.findings import Findings
from edge_infer.geometry import Transform
from edge_infer.model.card import ModelCard
from edge_infer.tensor import Tensor, TensorSpec


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
        candidates, usable = best_class(self._card, rows)
        return conclude(self._card, transform, candidates, usable)


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
        candidates = objects(self._card, rows, usable, middle_and_size(rows))
        return conclude(self._card, transform, candidates, usable)
