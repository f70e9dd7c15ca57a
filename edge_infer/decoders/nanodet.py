"""NanoDet: the distances from a cell to the box's sides, each as a distribution over whole cells."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from edge_infer.decoders.boxes import Boxes
from edge_infer.decoders.head import conclude, finite
from edge_infer.decoders.rows import best_classes, matrix, refuse_uneven, without_background
from edge_infer.errors import ModelError
from edge_infer.findings import Findings
from edge_infer.geometry import Transform
from edge_infer.model.card import ModelCard
from edge_infer.model.outputs import by_stride
from edge_infer.tensor import Tensor, TensorSpec

_PLUS_STRIDES = (8, 16, 32, 64)
_STRIDES = (8, 16, 32)


class NanoDet:
    """A pair cls_pred_stride_8, dis_pred_stride_8 a stride, or rows of classes and sides in one output.

    A cell's point is the middle of its pixels; of NanoDet-Plus (strides to 64) it is the cell's corner.
    """

    def __init__(self, card: ModelCard, outputs: tuple[TensorSpec, ...]) -> None:
        self._card = card
        self._scores = by_stride(outputs, "cls_pred_stride")
        self._sides = by_stride(outputs, "dis_pred_stride")
        self._one = outputs[0].name if len(outputs) == 1 else None
        strides = tuple(self._scores)
        if self._one is None and (not strides or strides != tuple(self._sides)):
            raise ModelError(
                f"{card.network}: the decoder nanodet needs cls_pred_stride_8, dis_pred_stride_8 and so on",
                hint="correct decoder in the model card",
            )

    def decode(self, outputs: Mapping[str, Tensor], transform: Transform) -> Findings:
        """Score = the best class."""
        card = self._card
        if self._one is None:
            strides = tuple(self._scores)
            scores = np.concatenate([matrix(outputs[spec.name]) for spec in self._scores.values()])
            sides = np.concatenate([matrix(outputs[spec.name]) for spec in self._sides.values()])
            points = self._points(len(scores), (strides,))
        else:
            rows = matrix(outputs[self._one])
            scores, sides = np.split(rows, [len(card.labels)], axis=1)
            points = self._points(len(rows), (_STRIDES, _PLUS_STRIDES))
        refuse_uneven(card, scores, sides)
        by_class = without_background(card, scores)
        usable = finite(scores, sides)

        def place(found: NDArray[np.intp]) -> Boxes:
            # of the few that count: the softmax of all would take longer than the network
            return _boxes(points[found], self._distances(sides[found]))

        candidates = best_classes(card, by_class, usable, place)
        return conclude(card, transform, candidates, usable, told_in="grids")

    def _points(self, rows: int, possible: tuple[tuple[int, ...], ...]) -> NDArray[np.float64]:
        """(rows, 3): x, y, stride."""
        height, width = self._card.input.network_size
        counts = []
        for strides in possible:
            points = []
            for stride in strides:
                y, x = np.mgrid[: -(-height // stride), : -(-width // stride)].reshape(2, -1) * stride
                shift = 0.0 if strides == _PLUS_STRIDES else (stride - 1) / 2
                points.append(np.stack([x + shift, y + shift, np.full(x.size, stride)], axis=1))
            counts.append(sum(map(len, points)))
            if counts[-1] == rows:
                return np.concatenate(points)
        raise ModelError(
            f"{self._card.network}: the network answered {rows} rows, the grids of a {height}x{width} input "
            f"have {' or '.join(map(str, counts))}",
            hint="correct input.size or decoder in the model card",
        )

    def _distances(self, sides: NDArray[np.float32]) -> NDArray[np.float64]:
        """(N, 4) in cells: left, top, right, bottom."""
        if sides.shape[1] % 4 or sides.shape[1] < 8:
            raise ModelError(
                f"{self._card.network}: the network answered {sides.shape[1]} values for the four sides",
                hint="correct labels or decoder in the model card",
            )
        spread = sides.reshape(len(sides), 4, sides.shape[1] // 4).astype(np.float64)
        raised = np.exp(spread - spread.max(axis=2, keepdims=True, initial=-np.inf))
        share = raised / raised.sum(axis=2, keepdims=True)
        return np.asarray(share @ np.arange(spread.shape[2], dtype=np.float64))


def _boxes(points: NDArray[np.float64], distances: NDArray[np.float64]) -> NDArray[np.float64]:
    middle, reach = points[:, :2], distances * points[:, 2:]
    return np.concatenate([middle - reach[:, :2], middle + reach[:, 2:]], axis=1)
