"""YOLOX: cx, cy, w, h, objectness, then a score a class; with the grids decoded in the graph or left raw."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from edge_infer.decoders.boxes import corners
from edge_infer.decoders.head import Output, Rows, conclude, finite, middle_and_size, objects
from edge_infer.errors import ModelError
from edge_infer.findings import Findings
from edge_infer.geometry import Transform
from edge_infer.model.card import ModelCard
from edge_infer.tensor import Tensor, TensorSpec

# offsets and logarithms of sizes up to here give finite pixels
_OVERFLOWS_NEVER = 80
_STRIDES = ((8, 16, 32), (8, 16, 32, 64))


class YoloX:
    """Exported with --decode_in_inference: boxes in network pixels; (1, rows, 5 + classes)."""

    def __init__(self, card: ModelCard, outputs: tuple[TensorSpec, ...]) -> None:
        self._card = card
        self._output = _output(card, outputs)

    def decode(self, outputs: Mapping[str, Tensor], transform: Transform) -> Findings:
        """Score = objectness x the best class."""
        rows = self._output.rows(outputs)
        usable = finite(rows)
        candidates = objects(self._card, rows, usable, middle_and_size(rows))
        return conclude(self._card, transform, candidates, usable)


class YoloXRaw:
    """As YOLOX is exported by default: boxes relative to their grid cells, sizes as logarithms."""

    def __init__(self, card: ModelCard, outputs: tuple[TensorSpec, ...]) -> None:
        self._card = card
        self._output = _output(card, outputs)
        grids = [_grid(*card.input.network_size, strides) for strides in _STRIDES]
        self._grids = {len(grid): grid for grid in grids}
        rows = self._output.shape[-2]
        if rows is not None:
            self._grid(rows)

    def decode(self, outputs: Mapping[str, Tensor], transform: Transform) -> Findings:
        """Score = objectness x the best class."""
        rows = self._output.rows(outputs)
        grid = self._grid(len(rows))
        usable = finite(rows)
        # a size that overflows makes its row one that is not finite
        if not np.abs(rows[:, :4]).max(initial=0) < _OVERFLOWS_NEVER:
            with np.errstate(over="ignore", invalid="ignore"):
                usable &= finite(_boxes(rows, grid))
        candidates = objects(
            self._card, rows, usable, lambda found: corners(_boxes(rows[found], grid[found]))
        )
        return conclude(self._card, transform, candidates, usable, told_in="grids")

    def _grid(self, rows: int) -> NDArray[np.float32]:
        if rows not in self._grids:
            height, width = self._card.input.network_size
            raise ModelError(
                f"{self._card.network}: the output {self._output.name} has {rows} rows, "
                f"the grids of a {height}x{width} input have {' or '.join(map(str, self._grids))}",
                hint="correct input.size or decoder in the model card",
            )
        return self._grids[rows]


def _boxes(rows: Rows, grid: NDArray[np.float32]) -> NDArray[np.float32]:
    """(N, 4) cx, cy, w, h in network pixels."""
    told = rows[:, :4].astype(np.float32)
    return np.concatenate([told[:, :2] + grid[:, :2], np.exp(told[:, 2:])], axis=1) * grid[:, 2:]


def _output(card: ModelCard, outputs: tuple[TensorSpec, ...]) -> Output:
    return Output(card, outputs, before=5, classes=len(card.labels), layouts=("rows first",))


def _grid(height: int, width: int, strides: Sequence[int]) -> NDArray[np.float32]:
    """(rows, 3): column, row and stride of every cell, in the order of the output."""
    grids = []
    for stride in strides:
        y, x = np.mgrid[: height // stride, : width // stride]
        grids.append(np.stack([x.ravel(), y.ravel(), np.full(x.size, stride)], axis=1))
    return np.concatenate(grids).astype(np.float32)
