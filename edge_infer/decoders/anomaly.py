"""Anomaly networks: how far the whole picture is from normal, and where."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from edge_infer.decoders.placing import covered, place
from edge_infer.errors import ModelError
from edge_infer.findings import Anomaly, Box, Findings, Grid
from edge_infer.geometry import Transform
from edge_infer.model.card import ModelCard
from edge_infer.model.head import shapes
from edge_infer.model.outputs import SEVERAL, SEVERAL_HINT, anomaly_outputs, one_a_picture
from edge_infer.tensor import Tensor, TensorSpec

THRESHOLD = 0.5
"""Of a normalised score, and of the map: here the model's own threshold comes to lie."""

_SLACK = 0.01
Map = NDArray[np.float32]


class AnomalyDecoder:
    """anomalib v1 (a map, or a score) and v2 (pred_score, anomaly_map, pred_label, pred_mask)."""

    def __init__(self, card: ModelCard, outputs: tuple[TensorSpec, ...]) -> None:
        self._card = card
        score, heat = anomaly_outputs(outputs)
        self._score = None if score is None else score.name
        self._map = None if heat is None else heat.name
        self._refuse_several(outputs)
        if self._score is None and self._map is None:
            raise ModelError(
                f"{card.network}: none of its outputs is an anomaly score or map",
                hint="correct task or decoder in the model card",
            )

    def decode(self, outputs: Mapping[str, Tensor], transform: Transform) -> Findings:
        """A score or a map with a NaN is no answer; without a score the map's highest value is it."""
        # sides that the network leaves free are known only now
        self._refuse_several(
            [TensorSpec(name, each.shape, each.dtype.name) for name, each in outputs.items()]
        )
        heat = self._heat(outputs)
        raw = heat.max() if heat is not None else np.float32(math.nan)
        if self._score is not None:
            # a network with a fixed batch answers several pictures, ours is the first
            raw = np.float32(outputs[self._score].reshape(-1)[0])
        if not (np.isfinite(raw) and (heat is None or np.isfinite(heat).all())):
            warning = "the network's anomaly score or map holds numbers that are not finite"
            return Findings(nan_rows=1, undefined="nan", warnings=(warning,))
        score = self._normalised(raw)
        if heat is None:
            return Findings(anomaly=Anomaly(score, THRESHOLD))
        grid = place(self._normalised_map(heat), covered(self._card.input), transform)
        return Findings(anomaly=Anomaly(score, THRESHOLD, hot_box(grid, THRESHOLD), grid))

    def _refuse_several(self, outputs: Sequence[TensorSpec]) -> None:
        """Of [normal, anomalous] the first would say OK."""
        if not one_a_picture(outputs):
            raise ModelError(f"{self._card.network}: {SEVERAL} ({shapes(outputs)})", hint=SEVERAL_HINT)

    def _heat(self, outputs: Mapping[str, Tensor]) -> Map | None:
        if self._map is None:
            return None
        tensor = outputs[self._map]
        return np.asarray(tensor.reshape(-1, *tensor.shape[-2:])[0], np.float32)

    def _normalised(self, raw: np.float32) -> float:
        card = self._card.anomaly
        if card is None:
            if not -_SLACK <= raw <= 1 + _SLACK:
                raise ModelError(
                    f"{self._card.network}: the network gives an anomaly score of {raw:.4g}, "
                    "which does not lie in 0..1",
                    hint="say `anomaly: {threshold: ..., min: ..., max: ...}` in the model card",
                )
            return min(max(float(raw), 0.0), 1.0)
        # the network's threshold was a float32 too: at it a score must not fall below
        above = float(raw) - float(np.float32(card.threshold))
        return min(max(above / (card.max - card.min) + THRESHOLD, 0.0), 1.0)

    def _normalised_map(self, heat: Map) -> Map:
        card = self._card.anomaly
        if card is None:
            # the network's own memory is written over by the next frame
            return heat.copy()
        threshold, low, high = card.of_map
        above = (heat - np.float32(threshold)) / np.float32(high - low)
        return np.asarray(np.clip(above + np.float32(THRESHOLD), 0, 1), np.float32)


def at_threshold(anomaly: Anomaly, threshold: float) -> Anomaly:
    """The same picture judged by another threshold, 0..1: what is hot changes with it."""
    heat = anomaly.heat_map
    return Anomaly(anomaly.score, threshold, None if heat is None else hot_box(heat, threshold), heat)


def hot_box(heat: Grid, threshold: float) -> Box | None:
    """Around everything at or above the threshold, between the values too; None where nothing is."""
    x1, y1, x2, y2 = heat.inside
    height, width = heat.values.shape
    left, right = _cells(x1 * heat.scale_x + heat.shift_x, x2 * heat.scale_x + heat.shift_x, width)
    top, bottom = _cells(y1 * heat.scale_y + heat.shift_y, y2 * heat.scale_y + heat.shift_y, height)
    values = heat.values[top:bottom, left:right]
    if not (values >= threshold).any():
        return None
    first_x, last_x = _reach(values, threshold)
    first_y, last_y = _reach(values.T, threshold)
    return (
        max(x1, (first_x + left - heat.shift_x) / heat.scale_x),
        max(y1, (first_y + top - heat.shift_y) / heat.scale_y),
        min(x2, (last_x + left - heat.shift_x) / heat.scale_x),
        min(y2, (last_y + top - heat.shift_y) / heat.scale_y),
    )


def _cells(start: float, end: float, count: int) -> tuple[int, int]:
    """Those of which a part lies between the two."""
    return max(math.floor(start + 1e-6), 0), min(math.ceil(end - 1e-6), count)


def _reach(values: Map, threshold: float) -> tuple[float, float]:
    """From where to where columns are hot: where the line between two values crosses the threshold."""
    columns = np.flatnonzero((values >= threshold).any(axis=0))
    first, last = int(columns[0]), int(columns[-1])
    start, end = 0.0, float(values.shape[1])
    if first > 0:
        start = first + 0.5 - _into(values[:, first], values[:, first - 1], threshold)
    if last < values.shape[1] - 1:
        end = last + 0.5 + _into(values[:, last], values[:, last + 1], threshold)
    return start, end


def _into(hot: Map, cold: Map, threshold: float) -> float:
    """How far the hot part reaches towards the neighbours that are not, in values."""
    rows = hot >= threshold
    return float(((hot[rows] - threshold) / (hot[rows] - cold[rows])).max())
