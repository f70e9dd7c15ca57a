"""RT-DETR and D-FINE: as they export themselves, as transformers and as Ultralytics export them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from edge_infer.decoders.boxes import Boxes, corners
from edge_infer.decoders.detr import Queries
from edge_infer.decoders.head import conclude, finite
from edge_infer.decoders.nms import NmsInside
from edge_infer.decoders.rows import best_classes, matrix, numbered, to_pixels
from edge_infer.errors import ModelError
from edge_infer.findings import Findings
from edge_infer.geometry import Transform
from edge_infer.model.card import ModelCard
from edge_infer.model.outputs import pair
from edge_infer.tensor import Tensor, TensorSpec

_ROW = 6


class RtDetr:
    """Chooses by the outputs.

    - logits and pred_boxes: sigmoid, without background (transformers, and without postprocessor);
    - labels, boxes, scores: final, in pixels of the size fed as ``orig_target_sizes``, the network's own;
    - one output of rows: cx, cy, w, h in fractions, then a score a class, or score and class (Ultralytics).
    """

    def __init__(self, card: ModelCard, outputs: tuple[TensorSpec, ...]) -> None:
        self._reader: Queries | NmsInside | _Rows
        if len(outputs) == 1:
            self._reader = _Rows(card, outputs[0])
        elif pair("rtdetr", outputs) is not None:
            self._reader = Queries(card, outputs)
        else:
            self._reader = NmsInside(card, outputs)

    def decode(self, outputs: Mapping[str, Tensor], transform: Transform) -> Findings:
        """Nothing is left to suppress."""
        return self._reader.decode(outputs, transform)


class _Rows:
    def __init__(self, card: ModelCard, output: TensorSpec) -> None:
        self._card = card
        self._name = output.name

    def decode(self, outputs: Mapping[str, Tensor], transform: Transform) -> Findings:
        card = self._card
        rows = matrix(outputs[self._name])
        usable = finite(rows)

        def place(found: NDArray[np.intp]) -> Boxes:
            return to_pixels(card, corners(rows[found, :4]))

        warnings: tuple[str, ...] = ()
        if rows.shape[1] == _ROW:
            if (rows[usable, 5] != np.rint(rows[usable, 5])).any():
                raise ModelError(
                    f"{card.network}: the last of the {_ROW} values a row are no class numbers but scores",
                    hint="export it with Ultralytics 8.4 or newer, or with another number of classes",
                )
            candidates, warnings = numbered(card, place, rows[:, 4], rows[:, 5], usable)
        elif rows.shape[1] == 4 + len(card.labels):
            candidates = best_classes(card, rows[:, 4:], usable, place, card.max_detections)
        else:
            raise ModelError(
                f"{card.network}: the network answered rows of {rows.shape[1]} values, "
                f"the card names {len(card.labels)} labels",
                hint="correct labels or decoder in the model card",
            )
        return conclude(
            card, transform, candidates, usable, suppress=False, warnings=warnings, told_in="fractions"
        )
