"""The DETR family: a box and class logits a query; nothing is left to suppress."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from edge_infer.decoders.boxes import Boxes, corners
from edge_infer.decoders.head import conclude, finite
from edge_infer.decoders.rows import (
    ROUNDING,
    best_classes,
    logit,
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
        usable = finite(boxes, logits)
        # of the few that can count: the softmax of all would take longer than what comes after it
        likely = np.flatnonzero(usable & self._likely(logits))
        by_class = without_background(card, self._probabilities(logits[likely]))

        def place(found: NDArray[np.intp]) -> Boxes:
            return to_pixels(card, corners(boxes[likely[found]]))

        every = np.ones(len(likely), np.bool_)
        candidates = best_classes(card, by_class, every, place, card.max_detections)
        return conclude(card, transform, candidates, usable, suppress=False, told_in="fractions")

    def _likely(self, logits: NDArray[np.float32]) -> NDArray[np.bool_]:
        """(N,) False where no class can reach the threshold."""
        best = without_background(self._card, logits).max(axis=1)
        return np.asarray(best >= logit(self._card.score_threshold))

    def _probabilities(self, logits: NDArray[np.float32]) -> NDArray[np.float32]:
        """A class is there or not, whatever the others are."""
        return sigmoid(logits)


class Detr(Queries):
    """Softmax over the classes and no-object, which is the last column."""

    def _likely(self, logits: NDArray[np.float32]) -> NDArray[np.bool_]:
        # the best class is at most as probable as it is likelier than no-object
        best = without_background(self._card, logits).max(axis=1).astype(np.float64)
        with np.errstate(invalid="ignore"):
            lead = best - logits.max(axis=1)
        sure = self._card.score_threshold - ROUNDING
        return np.asarray(lead >= (math.log(sure) if sure > 0 else -math.inf))

    def _probabilities(self, logits: NDArray[np.float32]) -> NDArray[np.float32]:
        # in float64 no difference of finite logits overflows
        wide = logits.astype(np.float64)
        raised = np.exp(wide - wide.max(axis=1, keepdims=True, initial=-np.inf))
        return np.asarray(raised / raised.sum(axis=1, keepdims=True), np.float32)
