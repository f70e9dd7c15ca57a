"""The DETR family: a box and class logits a query; nothing is left to suppress."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from edge_infer.decoders.boxes import corners
from edge_infer.decoders.head import conclude, finite
from edge_infer.decoders.rows import (
    best_classes,
    matrix,
    refuse_uneven,
    sigmoid,
    to_pixels,
    without_background,
)
from edge_infer.errors import ModelError
from edge_infer.findings import Findings
from edge_infer.geometry import Transform
from edge_infer.model.card import ModelCard
from edge_infer.model.outputs import pair
from edge_infer.tensor import Tensor, TensorSpec


class Queries:
    """Boxes (1, queries, 4) cx, cy, w, h in fractions of the picture, and logits (1, queries, classes)."""

    def __init__(self, card: ModelCard, outputs: tuple[TensorSpec, ...]) -> None:
        found = pair(card.decoder, outputs)
        if found is None:
            raise ModelError(
                f"{card.network}: the decoder {card.decoder} finds no output of boxes and one of logits",
                hint="correct decoder in the model card",
            )
        self._card = card
        self._pair = found

    def decode(self, outputs: Mapping[str, Tensor], transform: Transform) -> Findings:
        """Score = the best class that is not background."""
        card = self._card
        boxes, logits = matrix(outputs[self._pair.boxes.name]), matrix(outputs[self._pair.scores.name])
        refuse_uneven(card, boxes, logits)
        usable = finite(boxes) & finite(logits)
        scores = np.zeros_like(logits)
        scores[usable] = self._probabilities(logits[usable])
        by_class = without_background(card, scores)
        candidates = best_classes(card, to_pixels(card, corners(boxes)), by_class, usable)
        return conclude(card, transform, candidates, usable, suppress=False, told_in="fractions")

    def _probabilities(self, logits: NDArray[np.float32]) -> NDArray[np.float32]:
        """A class is there or not, whatever the others are."""
        return sigmoid(logits)


class Detr(Queries):
    """Softmax over the classes and no-object, which is the last column."""

    def _probabilities(self, logits: NDArray[np.float32]) -> NDArray[np.float32]:
        # in float64 no difference of finite logits overflows
        wide = logits.astype(np.float64)
        raised = np.exp(wide - wide.max(axis=1, keepdims=True, initial=-np.inf))
        return np.asarray(raised / raised.sum(axis=1, keepdims=True), np.float32)
