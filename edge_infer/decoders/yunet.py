"""YuNet: faces; class and objectness, an offset in cells and a size as a logarithm, a stride each."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from edge_infer.decoders.boxes import corners
from edge_infer.decoders.head import conclude, finite
from edge_infer.decoders.rows import best_classes, matrix, refuse_uneven
from edge_infer.errors import ModelError
from edge_infer.findings import Findings
from edge_infer.geometry import Transform
from edge_infer.model.card import ModelCard
from edge_infer.model.outputs import by_stride
from edge_infer.tensor import Tensor, TensorSpec

_KINDS = ("cls", "obj", "bbox")


class YuNet:
    """cls_8, obj_8, bbox_8, kps_8 and so on; key points are not read."""

    def __init__(self, card: ModelCard, outputs: tuple[TensorSpec, ...]) -> None:
        self._card = card
        self._by_stride = [by_stride(outputs, kind) for kind in _KINDS]
        self._strides = tuple(self._by_stride[0])
        if not self._strides or any(tuple(group) != self._strides for group in self._by_stride):
            raise ModelError(
                f"{card.network}: the decoder yunet needs cls_8, obj_8, bbox_8 and so on",
                hint="correct decoder in the model card",
            )

    def decode(self, outputs: Mapping[str, Tensor], transform: Transform) -> Findings:
        """Score = root of class x objectness, as OpenCV has it."""
        card = self._card
        classes, objectness, places = (
            np.concatenate([matrix(outputs[group[stride].name]) for stride in self._strides])
            for group in self._by_stride
        )
        refuse_uneven(card, classes, objectness, places)
        cells = np.concatenate([self._cells(stride) for stride in self._strides])
        if len(cells) != len(places):
            height, width = card.input.network_size
            raise ModelError(
                f"{card.network}: the network answered {len(places)} rows, "
                f"the grids of a {height}x{width} input have {len(cells)}",
                hint="correct input.size in the model card",
            )
        # a size that overflows makes its row one that is not finite
        with np.errstate(over="ignore"):
            boxes = np.concatenate([cells[:, :2] + places[:, :2], np.exp(places[:, 2:])], 1) * cells[:, 2:]
        usable = finite(classes, objectness, boxes.astype(np.float32))
        scores = np.sqrt(np.clip(classes, 0, 1) * np.clip(objectness, 0, 1))
        candidates = best_classes(card, scores, usable, lambda found: corners(boxes[found]))
        return conclude(card, transform, candidates, usable, told_in="grids")

    def _cells(self, stride: int) -> Tensor:
        """(cells, 3): column, line, stride."""
        height, width = self._card.input.network_size
        y, x = np.mgrid[: height // stride, : width // stride].reshape(2, -1)
        return np.stack([x, y, np.full(x.size, stride)], axis=1).astype(np.float32)
