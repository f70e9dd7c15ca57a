"""FastestDet: one grid; objectness, an offset from the cell, a size of the picture, and class scores."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from edge_infer.decoders.boxes import Boxes, corners
from edge_infer.decoders.head import conclude, finite
from edge_infer.decoders.rows import best_classes, sigmoid, to_pixels, without_background
from edge_infer.errors import ModelError
from edge_infer.findings import Findings
from edge_infer.geometry import Transform
from edge_infer.model.card import ModelCard
from edge_infer.tensor import Tensor, TensorSpec


class FastestDet:
    """(1, 5 + classes, height / 16, width / 16)."""

    def __init__(self, card: ModelCard, outputs: tuple[TensorSpec, ...]) -> None:
        if len(outputs) != 1 or len(outputs[0].shape) != 4:
            raise ModelError(
                f"{card.network}: the decoder fastestdet needs one output of four dimensions",
                hint="correct decoder in the model card",
            )
        self._card = card
        self._name = outputs[0].name

    def decode(self, outputs: Mapping[str, Tensor], transform: Transform) -> Findings:
        """Score = objectness x the best class."""
        card = self._card
        grid = np.asarray(outputs[self._name][0], np.float32)
        channels, height, width = grid.shape
        rows = grid.reshape(channels, -1).T
        usable = finite(rows)

        def place(found: NDArray[np.intp]) -> Boxes:
            told = rows[found]
            y, x = np.divmod(found, width)
            middle = (np.tanh(told[:, 1:3]) + np.stack([x, y], axis=1)) / (width, height)
            boxes = np.concatenate([middle, sigmoid(told[:, 3:5])], axis=1)
            return to_pixels(card, corners(boxes))

        by_class = without_background(card, rows[:, 5:]) * rows[:, :1]
        candidates = best_classes(card, by_class, usable, place)
        return conclude(card, transform, candidates, usable, told_in="grids")
