"""YOLO-NAS as super-gradients exports it without NMS: corners in network pixels, and class scores."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from edge_infer.decoders.head import conclude, finite
from edge_infer.decoders.rows import best_classes, matrix, refuse_uneven, without_background
from edge_infer.errors import ModelError
from edge_infer.findings import Findings
from edge_infer.geometry import Transform
from edge_infer.model.card import ModelCard
from edge_infer.model.outputs import Pair, pair
from edge_infer.tensor import Tensor, TensorSpec


class YoloNas:
    """Boxes (1, cells, 4) x1, y1, x2, y2 and scores (1, cells, classes), without objectness."""

    def __init__(self, card: ModelCard, outputs: tuple[TensorSpec, ...]) -> None:
        self._card = card
        self._pair = _pair(card, outputs)

    def decode(self, outputs: Mapping[str, Tensor], transform: Transform) -> Findings:
        """Score = the best class."""
        card = self._card
        boxes, scores = matrix(outputs[self._pair.boxes.name]), matrix(outputs[self._pair.scores.name])
        refuse_uneven(card, boxes, scores)
        by_class = without_background(card, scores)
        usable = finite(boxes, scores)
        candidates = best_classes(card, by_class, usable, lambda found: boxes[found].astype(np.float64))
        return conclude(card, transform, candidates, usable)


def _pair(card: ModelCard, outputs: tuple[TensorSpec, ...]) -> Pair:
    found = pair("yolo-nas", outputs)
    if found is None and len(outputs) == 2:
        # four classes: both are (1, cells, 4), and super-gradients writes the boxes first
        found = Pair(outputs[0], outputs[1], named=False)
    if found is None:
        raise ModelError(
            f"{card.network}: the decoder yolo-nas needs an output of boxes and one of scores",
            hint="correct decoder in the model card",
        )
    return found
