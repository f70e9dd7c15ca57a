"""SSD's DetectionOutput: picture, class, score and corners in fractions, ended by a row of picture -1."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from edge_infer.decoders.head import conclude, finite
from edge_infer.decoders.rows import numbered, to_pixels
from edge_infer.errors import ModelError
from edge_infer.findings import Findings
from edge_infer.geometry import Transform
from edge_infer.model.card import ModelCard
from edge_infer.tensor import Tensor, TensorSpec

_COLUMNS = 7


class Ssd:
    """(1, 1, N, 7); class 0 is background unless the card says otherwise."""

    def __init__(self, card: ModelCard, outputs: tuple[TensorSpec, ...]) -> None:
        fitting = [spec for spec in outputs if spec.shape[-1:] in ((_COLUMNS,), (None,))]
        if len(fitting) != 1:
            raise ModelError(
                f"{card.network}: the decoder ssd needs one output with rows of {_COLUMNS} values",
                hint="correct decoder in the model card",
            )
        self._card = card
        self._name = fitting[0].name

    def decode(self, outputs: Mapping[str, Tensor], transform: Transform) -> Findings:
        """Rows behind the end are what was in the memory before."""
        card = self._card
        tensor = outputs[self._name]
        if tensor.shape[-1] != _COLUMNS:
            raise ModelError(
                f"{card.network}: the network answered rows of {tensor.shape[-1]} values, "
                f"the decoder ssd needs {_COLUMNS}",
                hint="correct decoder in the model card",
            )
        rows = np.asarray(tensor, np.float32).reshape(-1, _COLUMNS)
        ends = np.flatnonzero(rows[:, 0] < 0)
        rows = rows[: ends[0]] if ends.size else rows
        # of a batch the first picture is ours; a NaN there must be counted
        rows = rows[~(rows[:, 0] >= 1)]
        usable = finite(rows)
        candidates, warnings = numbered(
            card, lambda found: to_pixels(card, rows[found, 3:7]), rows[:, 2], rows[:, 1], usable
        )
        return conclude(
            card, transform, candidates, usable, suppress=False, warnings=warnings, told_in="fractions"
        )
