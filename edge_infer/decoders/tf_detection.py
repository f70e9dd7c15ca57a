"""TensorFlow's object detection API: boxes, classes, scores and how many count; TFLite's too."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from edge_infer.decoders.head import conclude, finite
from edge_infer.decoders.rows import listed, matrix, numbered, refuse_uneven, to_pixels
from edge_infer.errors import ModelError
from edge_infer.findings import Findings
from edge_infer.geometry import Transform
from edge_infer.model.card import ModelCard
from edge_infer.model.outputs import TF_NAMES, TFLITE_NAME, called, plain
from edge_infer.tensor import Tensor, TensorSpec

_Y_FIRST = [1, 0, 3, 2]


class TfDetection:
    """Corners y1, x1, y2, x2 in fractions; classes count from 1 (0 is background), TFLite's from 0."""

    def __init__(self, card: ModelCard, outputs: tuple[TensorSpec, ...]) -> None:
        self._card = card
        if len(outputs) == 4 and all(plain(spec.name) == TFLITE_NAME for spec in outputs):
            # TFLite_Detection_PostProcess, :1, :2 and :3
            boxes, classes, scores, count = sorted(outputs, key=lambda spec: spec.name)
            self._names = {"boxes": boxes.name, "classes": classes.name, "scores": scores.name}
            self._count: str | None = count.name
            return
        self._names = {}
        for part, name in TF_NAMES.items():
            spec = called(outputs, (name,))
            if spec is None:
                raise ModelError(
                    f"{card.network}: the decoder tf-detection needs an output called {name}",
                    hint="correct decoder in the model card, or export it with the names of its outputs",
                )
            self._names[part] = spec.name
        counted = called(outputs, ("num_detections",))
        self._count = counted.name if counted else None

    def decode(self, outputs: Mapping[str, Tensor], transform: Transform) -> Findings:
        """Only as many rows as it counts are valid."""
        card = self._card
        boxes = matrix(outputs[self._names["boxes"]])
        scores = listed(outputs[self._names["scores"]], len(boxes))
        classes = listed(outputs[self._names["classes"]], len(boxes))
        refuse_uneven(card, boxes, scores, classes)
        rows = np.column_stack([boxes[:, _Y_FIRST], scores, classes])
        if self._count is not None:
            rows = rows[: self._valid(outputs[self._count], len(rows))]
        usable = finite(rows)
        candidates, warnings = numbered(
            card, lambda found: to_pixels(card, rows[found, :4]), rows[:, 4], rows[:, 5], usable
        )
        return conclude(
            card, transform, candidates, usable, suppress=False, warnings=warnings, told_in="fractions"
        )

    def _valid(self, tensor: Tensor, most: int) -> int:
        told = float(tensor.ravel()[0])
        if not 0 <= told <= most:
            raise ModelError(
                f"{self._card.network}: the network counts {told:g} boxes, it has room for {most}",
                hint="export it again",
            )
        return int(told)
