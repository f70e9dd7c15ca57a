"""End-to-end rows: x1, y1, x2, y2, score, class, in network pixels; nothing is left to suppress."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from edge_infer.decoders.head import Candidates, Output, Rows, conclude, finite
from edge_infer.decoders.rows import numbered
from edge_infer.findings import Findings
from edge_infer.geometry import Transform
from edge_infer.model.card import ModelCard
from edge_infer.tensor import Tensor, TensorSpec


class YoloEnd2End:
    """v10 and v26 with nms=False, and exports with NMS inside: (1, rows, 6)."""

    def __init__(self, card: ModelCard, outputs: tuple[TensorSpec, ...]) -> None:
        self._card = card
        self._output = Output(card, outputs, before=6, classes=0, layouts=("rows first",))

    def decode(self, outputs: Mapping[str, Tensor], transform: Transform) -> Findings:
        """A row whose class has no label is dropped, and said."""
        rows = self._output.rows(outputs)
        usable = finite(rows)
        candidates, warnings = final_rows(self._card, rows, usable)
        return conclude(self._card, transform, candidates, usable, suppress=False, warnings=warnings)


def final_rows(card: ModelCard, rows: Rows, usable: NDArray[np.bool_]) -> tuple[Candidates, tuple[str, ...]]:
    """Score and class of a row as it says; what follows them belongs to the task. And what was dropped."""
    scores = rows[:, 4].astype(np.float32)
    return numbered(card, lambda found: rows[found, :4].astype(np.float64), scores, rows[:, 5], usable)
