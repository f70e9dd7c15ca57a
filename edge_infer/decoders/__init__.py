"""Decoders turn a network's tensors into findings in pixels of the source frame."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from edge_infer.findings import Findings
from edge_infer.geometry import Transform
from edge_infer.tensor import Tensor

DECODERS = {
    "yolov5": "edge_infer.decoders.yolo:YoloV5",
    "yolov8": "edge_infer.decoders.yolo:YoloV8",
    "yolo-end2end": "edge_infer.decoders.yolo_end2end:YoloEnd2End",
    "yolox": "edge_infer.decoders.yolox:YoloX",
    "yolox-raw": "edge_infer.decoders.yolox:YoloXRaw",
}
"""``decoder:`` of a model card -> its class, called with (card, outputs: tuple[TensorSpec, ...])."""


class Decoder(Protocol):
    """One head family. Stateless; any thread may call it."""

    def decode(self, outputs: Mapping[str, Tensor], transform: Transform) -> Findings:
        """``transform`` undoes exactly what preprocessing did to the frame.

        Rows that are not finite are dropped and counted; nothing but such rows is ``undefined="nan"``.
        """
