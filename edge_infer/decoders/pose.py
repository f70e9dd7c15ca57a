"""Key points: a box head whose rows also hold points, each with or without its visibility."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from edge_infer.decoders.boxes import Boxes
from edge_infer.decoders.head import More, Output, Rows, best_class, conclude, finite
from edge_infer.decoders.placing import points_to_frame
from edge_infer.decoders.yolo_end2end import final_rows
from edge_infer.errors import ModelError
from edge_infer.findings import Detections, Findings
from edge_infer.geometry import Transform
from edge_infer.model.card import ModelCard
from edge_infer.tensor import Tensor, TensorSpec


class YoloV8Pose:
    """v8, v11, v12, raw v26: (1, 4 + classes + points x 2 or 3, rows)."""

    def __init__(self, card: ModelCard, outputs: tuple[TensorSpec, ...]) -> None:
        self._card = card
        self._points, self._numbers = _shape(card)
        self._output = Output(
            card, outputs, before=4, classes=len(card.labels), after=self._points * self._numbers,
            layouts=("columns first", "rows first"),
        )  # fmt: skip

    def decode(self, outputs: Mapping[str, Tensor], transform: Transform) -> Findings:
        """Score = the best class."""
        rows = self._output.rows(outputs)
        candidates, usable = best_class(self._card, rows)
        more = _keypoints(rows, self._points, self._numbers, transform)
        return conclude(self._card, transform, candidates, usable, more=more)


class YoloEnd2EndPose:
    """v26 with nms=False, exports with NMS inside: (1, rows, 6 + points x 2 or 3)."""

    def __init__(self, card: ModelCard, outputs: tuple[TensorSpec, ...]) -> None:
        self._card = card
        self._points, self._numbers = _shape(card)
        after = self._points * self._numbers
        self._output = Output(card, outputs, before=6, classes=0, after=after, layouts=("rows first",))

    def decode(self, outputs: Mapping[str, Tensor], transform: Transform) -> Findings:
        """A row whose class has no label is dropped, and said."""
        rows = self._output.rows(outputs)
        usable = finite(rows)
        candidates, warnings = final_rows(self._card, rows, usable)
        more = _keypoints(rows, self._points, self._numbers, transform)
        return conclude(
            self._card, transform, candidates, usable, suppress=False, warnings=warnings, more=more
        )


def _shape(card: ModelCard) -> tuple[int, int]:
    if card.keypoints is None:
        raise ModelError(f"{card.network}: nothing says how many key points an object has")
    return card.keypoints


def _keypoints(rows: Rows, points: int, numbers: int, transform: Transform) -> More:
    def more(found: Detections, which: NDArray[np.intp], _: Boxes) -> Detections:
        told = rows[which, rows.shape[1] - points * numbers :].reshape(len(which), points, numbers)
        x1, y1, x2, y2 = transform.seen or (0, 0, transform.frame_width, transform.frame_height)
        # as boxes: what lies beyond is shown at the edge of what was looked at
        places = np.clip(points_to_frame(told[:, :, :2], transform), (x1, y1), (x2, y2))
        # a head without visibility shows every point
        visible = told[:, :, 2:] if numbers > 2 else np.ones((*told.shape[:2], 1))
        return replace(found, keypoints=np.concatenate([places, visible], axis=2).astype(np.float32))

    return more
