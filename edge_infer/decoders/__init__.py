"""Decoders turn a network's tensors into findings in pixels of the source frame."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from edge_infer.findings import Findings
from edge_infer.geometry import Transform
from edge_infer.model.card import ModelCard
from edge_infer.tensor import Tensor

DECODERS = {
    "yolov5": "edge_infer.decoders.yolo:YoloV5",
    "yolov8": "edge_infer.decoders.yolo:YoloV8",
    "yolo-end2end": "edge_infer.decoders.yolo_end2end:YoloEnd2End",
    "yolox": "edge_infer.decoders.yolox:YoloX",
    "yolox-raw": "edge_infer.decoders.yolox:YoloXRaw",
    "yolov5-raw": "edge_infer.decoders.yolo_raw:YoloV5Raw",
    "yolo-nas": "edge_infer.decoders.yolo_nas:YoloNas",
    "nms": "edge_infer.decoders.nms:NmsInside",
    "ssd": "edge_infer.decoders.ssd:Ssd",
    "tf-detection": "edge_infer.decoders.tf_detection:TfDetection",
    "detr": "edge_infer.decoders.detr:Detr",
    "rtdetr": "edge_infer.decoders.rtdetr:RtDetr",
    "rfdetr": "edge_infer.decoders.rfdetr:RfDetr",
    "nanodet": "edge_infer.decoders.nanodet:NanoDet",
    "fastestdet": "edge_infer.decoders.fastestdet:FastestDet",
    "yunet": "edge_infer.decoders.yunet:YuNet",
    "ultraface": "edge_infer.decoders.ultraface:UltraFace",
}
"""``decoder:`` of a model card -> its class, called with (card, outputs: tuple[TensorSpec, ...])."""

TASK_DECODERS = {
    "yolov8/segment": "edge_infer.decoders.segment:YoloV8Segment",
    "yolov5/segment": "edge_infer.decoders.segment:YoloV5Segment",
    "yolo-end2end/segment": "edge_infer.decoders.segment:YoloEnd2EndSegment",
    "yolov8/obb": "edge_infer.decoders.obb:YoloV8Obb",
    "yolo-end2end/obb": "edge_infer.decoders.obb:YoloEnd2EndObb",
    "yolov8/pose": "edge_infer.decoders.pose:YoloV8Pose",
    "yolo-end2end/pose": "edge_infer.decoders.pose:YoloEnd2EndPose",
    "classify/classify": "edge_infer.decoders.classify:Classify",
    "semantic/semantic": "edge_infer.decoders.semantic:Semantic",
    "anomaly/anomaly": "edge_infer.decoders.anomaly:AnomalyDecoder",
}
"""``decoder:`` and ``task:`` where that is not detect -> its class, called in the same way."""


def decoder_name(card: ModelCard) -> str:
    """Where the card's decoder stands in the tables."""
    return card.decoder if card.task == "detect" else f"{card.decoder}/{card.task}"


class Decoder(Protocol):
    """One head family. Stateless; any thread may call it."""

    def decode(self, outputs: Mapping[str, Tensor], transform: Transform) -> Findings:
        """``transform`` undoes exactly what preprocessing did to the frame.

        Rows that are not finite are dropped and counted; nothing but such rows is ``undefined="nan"``.
        ``outputs`` may be views of the runtime's memory: they are only read, and nothing of the findings
        shares memory with them, for the next frame writes over them.
        """
