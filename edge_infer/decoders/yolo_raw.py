"""YOLOv3, v5 and v7 exported without their last layer: a grid of logits a stride, decoded with anchors."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from edge_infer.decoders.boxes import MOST_CANDIDATES, best_first, corners
from edge_infer.decoders.head import Candidates, conclude, finite
from edge_infer.decoders.rows import logit, sigmoid
from edge_infer.errors import ModelError
from edge_infer.findings import Findings
from edge_infer.geometry import Transform
from edge_infer.model.anchors import anchor_mistake, stride_of
from edge_infer.model.card import ModelCard
from edge_infer.tensor import Tensor, TensorSpec


class YoloV5Raw:
    """(1, anchors, height, width, 5 + classes) or (1, anchors x (5 + classes), height, width) a stride.

    As Ultralytics decodes v3, v5 and v7: centre 2 sigmoid - 0.5 cells from its cell's corner, size
    (2 sigmoid)^2 of the anchor. Darknet's own v3 and v4 take exp of the size and are another family.
    """

    def __init__(self, card: ModelCard, outputs: tuple[TensorSpec, ...]) -> None:
        mistake = anchor_mistake(outputs, card.input.network_size, card.anchors)
        if mistake:
            raise ModelError(f"{card.network}: {mistake}", hint="correct anchors in the model card")
        self._card = card
        self._names = [spec.name for spec in outputs]
        self._columns = 5 + len(card.labels)

    def decode(self, outputs: Mapping[str, Tensor], transform: Transform) -> Findings:
        """Score = objectness x the best class."""
        card = self._card
        grids = [self._grid(name, outputs[name]) for name in self._names]
        # exporters differ in the order of their outputs; the card's first anchors are of the smallest stride
        grids.sort(key=lambda grid: -grid.shape[1])
        usable = [finite(grid) for grid in grids]
        # a sigmoid of everything would take longer than the network
        least = logit(card.score_threshold)
        likely = [
            np.nonzero(fine & (grid[..., 4] >= least)) for fine, grid in zip(usable, grids, strict=True)
        ]
        parts = zip(grids, card.anchors, likely, strict=True)
        places = np.concatenate([self._places(grid, anchors, where) for grid, anchors, where in parts])
        logits = np.concatenate([grid[where] for grid, where in zip(grids, likely, strict=True)])
        scores = sigmoid(logits[:, 4]) * sigmoid(logits[:, 5:].max(axis=1))
        found = np.flatnonzero(scores >= card.score_threshold)
        kept = found[best_first(scores[found], MOST_CANDIDATES)]
        rows = sigmoid(logits[kept])
        cell, anchor, stride = np.split(places[kept], [2, 4], axis=1)
        boxes = np.concatenate([(rows[:, :2] * 2 - 0.5 + cell) * stride, (rows[:, 2:4] * 2) ** 2 * anchor], 1)
        candidates = Candidates(corners(boxes), scores[kept], rows[:, 5:].argmax(axis=1), kept, len(found))
        every = np.concatenate([fine.ravel() for fine in usable])
        return conclude(card, transform, candidates, every, told_in="grids")

    def _grid(self, name: str, tensor: Tensor) -> NDArray[np.float32]:
        """(anchors, height, width, 5 + classes)"""
        grid = np.asarray(tensor[0], np.float32)
        anchors = len(self._card.anchors[0]) // 2
        if grid.ndim == 3 and len(grid) == anchors * self._columns:
            grid = grid.reshape(anchors, self._columns, *grid.shape[1:]).transpose(0, 2, 3, 1)
        if grid.ndim != 4 or (len(grid), grid.shape[3]) != (anchors, self._columns):
            raise ModelError(
                f"{self._card.network}: the network answered {name} {list(tensor.shape)}, the card's anchors "
                f"and labels want {anchors} anchors a cell and {self._columns} values an anchor",
                hint="correct anchors or labels in the model card",
            )
        return grid

    def _places(
        self, grid: NDArray[np.float32], anchors: tuple[float, ...], where: tuple[NDArray[np.intp], ...]
    ) -> NDArray[np.float32]:
        """(N, 5) column, line, anchor width, anchor height, stride.

        ``where``: of these anchors, lines and columns.
        """
        count, height, width, _ = grid.shape
        stride = stride_of(height, width, self._card.input.network_size)
        if stride is None:
            raise ModelError(
                f"{self._card.network}: a grid of {height}x{width} cells does not divide the input evenly",
                hint="correct input.size in the model card",
            )
        anchor, line, column = where
        sizes = np.array(anchors, np.float32).reshape(count, 2)[anchor]
        return np.column_stack([column, line, sizes, np.full(len(line), stride)]).astype(np.float32)
