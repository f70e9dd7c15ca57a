"""UltraFace: faces; corners in fractions of the picture, and how probable background and a face are."""

from __future__ import annotations

from collections.abc import Mapping

from edge_infer.decoders.head import conclude, finite
from edge_infer.decoders.rows import best_classes, matrix, refuse_uneven, to_pixels, without_background
from edge_infer.errors import ModelError
from edge_infer.findings import Findings
from edge_infer.geometry import Transform
from edge_infer.model.card import ModelCard
from edge_infer.model.outputs import pair
from edge_infer.tensor import Tensor, TensorSpec


class UltraFace:
    """boxes (1, anchors, 4) x1, y1, x2, y2, decoded in the graph, and scores (1, anchors, 2)."""

    def __init__(self, card: ModelCard, outputs: tuple[TensorSpec, ...]) -> None:
        found = pair("ultraface", outputs)
        if found is None:
            raise ModelError(
                f"{card.network}: the decoder ultraface needs outputs called boxes and scores",
                hint="correct decoder in the model card",
            )
        self._card = card
        self._pair = found

    def decode(self, outputs: Mapping[str, Tensor], transform: Transform) -> Findings:
        """The first column of the scores is background."""
        card = self._card
        boxes, scores = matrix(outputs[self._pair.boxes.name]), matrix(outputs[self._pair.scores.name])
        refuse_uneven(card, boxes, scores)
        usable = finite(boxes, scores)
        by_class = without_background(card, scores)
        candidates = best_classes(card, by_class, usable, lambda found: to_pixels(card, boxes[found]))
        return conclude(card, transform, candidates, usable, told_in="fractions")
