"""Exports with NMS inside: each box has one score and one class, in network pixels."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from edge_infer.decoders.head import Rows, conclude, finite
from edge_infer.decoders.rows import listed, matrix, numbered, refuse_uneven
from edge_infer.errors import ModelError
from edge_infer.findings import Findings
from edge_infer.geometry import Transform
from edge_infer.model.card import ModelCard
from edge_infer.model.outputs import Kept, Selected, kept_boxes, plain, selected_boxes
from edge_infer.tensor import Tensor, TensorSpec

_COLUMNS = 7
_SCORE_BEFORE_CLASS = "flat_predictions"


class NmsInside:
    """Chooses by the outputs.

    - boxes x1, y1, x2, y2, scores, classes and how many count (TensorRT's EfficientNMS, super-gradients);
      without a count all do (torchvision); a fifth column of the boxes may hold the score (mmdeploy, Geti);
    - rows of picture, x1, y1, x2, y2, class, score (YOLOv7 for ONNX Runtime; in super-gradients'
      flat_predictions the score comes before the class);
    - every box and score, and the indices that ONNX's NonMaxSuppression selected.
    """

    def __init__(self, card: ModelCard, outputs: tuple[TensorSpec, ...]) -> None:
        self._card = card
        self._reader: _Kept | _Rows | _Selected
        selected, kept = selected_boxes(outputs), kept_boxes(outputs)
        if len(outputs) == 1:
            self._reader = _Rows(card, outputs[0])
        elif selected is not None:
            self._reader = _Selected(selected)
        elif kept is not None:
            self._reader = _Kept(card, kept)
        else:
            raise ModelError(
                f"{card.network}: the decoder {card.decoder} finds no boxes, scores and classes",
                hint="correct decoder in the model card",
            )

    def decode(self, outputs: Mapping[str, Tensor], transform: Transform) -> Findings:
        """A row whose class has no label is dropped, and said."""
        rows = self._reader.rows(outputs)
        usable = finite(rows)
        candidates, warnings = numbered(
            self._card, lambda found: rows[found, :4].astype(np.float64), rows[:, 4], rows[:, 5], usable
        )
        return conclude(self._card, transform, candidates, usable, suppress=False, warnings=warnings)


class _Kept:
    """Reads x1, y1, x2, y2, score, class of those that count."""

    def __init__(self, card: ModelCard, kept: Kept) -> None:
        self._card = card
        self._kept = kept

    def rows(self, outputs: Mapping[str, Tensor]) -> Rows:
        kept = self._kept
        boxes = matrix(outputs[kept.boxes.name])
        count = len(boxes)
        scores = boxes[:, 4] if kept.scores is None else listed(outputs[kept.scores.name], count)
        classes = listed(outputs[kept.classes.name], count)
        refuse_uneven(self._card, boxes, scores, classes)
        rows = np.column_stack([boxes[:, :4], scores, classes])
        # what lies behind is whatever was in the memory before
        return rows if kept.count is None else rows[: self._valid(outputs[kept.count.name], count)]

    def _valid(self, tensor: Tensor, most: int) -> int:
        told = float(tensor.ravel()[0])
        if not 0 <= told <= most or told != int(told):
            raise ModelError(
                f"{self._card.network}: the network counts {told:g} boxes, it has room for {most}",
                hint="export it again",
            )
        return int(told)


class _Rows:
    """Reads rows of picture, box, class and score."""

    def __init__(self, card: ModelCard, output: TensorSpec) -> None:
        self._card = card
        self._name = output.name
        score_first = plain(output.name).endswith(_SCORE_BEFORE_CLASS)
        self._columns = [1, 2, 3, 4, 5, 6, 0] if score_first else [1, 2, 3, 4, 6, 5, 0]

    def rows(self, outputs: Mapping[str, Tensor]) -> Rows:
        rows = matrix(outputs[self._name])
        if rows.shape[1] != _COLUMNS:
            raise ModelError(
                f"{self._card.network}: the network answered rows of {rows.shape[1]} values, "
                f"the decoder {self._card.decoder} needs {_COLUMNS}",
                hint="correct decoder in the model card",
            )
        # of a batch the first picture is ours; a NaN there is kept to be counted
        return rows[~(rows[:, 0] >= 1)][:, self._columns]


class _Selected:
    """Reads the boxes that NonMaxSuppression names."""

    def __init__(self, selected: Selected) -> None:
        self._selected = selected

    def rows(self, outputs: Mapping[str, Tensor]) -> Rows:
        selected = self._selected
        indices = np.asarray(outputs[selected.indices.name], np.intp)
        # padded with -1 where their number is fixed
        _, classes, rows = indices[(indices[:, 0] == 0) & (indices[:, 2] >= 0)].T
        boxes, scores = matrix(outputs[selected.boxes.name]), matrix(outputs[selected.scores.name])
        return np.column_stack([boxes[rows], scores[classes, rows], classes]).astype(np.float32)
