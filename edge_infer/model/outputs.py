"""Outputs by name, shape and type: what tells a head and what decodes it agree on them here."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from edge_infer.tensor import TensorSpec

ORIGINAL_SIZE = "orig_target_sizes"
"""An input of RT-DETR and D-FINE: width, height of the picture that the boxes are given in."""

TF_NAMES = {"boxes": "detection_boxes", "classes": "detection_classes", "scores": "detection_scores"}
"""What TensorFlow's object detection API calls its outputs."""
TFLITE_NAME = "tflite_detection_postprocess"
"""The four outputs of TFLite's operation have this name, then :1, :2 and :3."""

_NAMES = {
    "detr": (("pred_boxes",), ("logits", "pred_logits")),
    "rtdetr": (("pred_boxes",), ("logits", "pred_logits")),
    "rfdetr": (("dets",), ("labels",)),
    "yolo-nas": (("pred_bboxes", "pred_boxes", "bboxes", "boxes"), ("pred_scores", "scores")),
    "ultraface": (("boxes",), ("scores",)),
}
"""Decoder -> what its exporters call the boxes and the scores."""
_COUNTS = ("num_dets", "num_detections", "num_predictions", "num_boxes", "valid_detections")
_BOXES = ("det_boxes", "detection_boxes", "pred_boxes", "nmsed_boxes", "boxes", "bboxes", "dets")
_SCORES = ("det_scores", "detection_scores", "pred_scores", "nmsed_scores", "scores")
_CLASSES = (
    "det_classes", "detection_classes", "pred_classes", "nmsed_classes", "classes", "labels", "class_ids",
)  # fmt: skip

SEVERAL = "an anomaly network must give one score, and a map of one channel, a picture"
"""What one with a score for normal beside the one for anomalous does not do."""
SEVERAL_HINT = "export it so that it gives how anomalous a picture is, without how normal it is"


def plain(name: str) -> str:
    """``StatefulPartitionedCall/detection_boxes:0`` -> ``detection_boxes``."""
    return name.rpartition("/")[2].partition(":")[0].lower()


def called(outputs: Sequence[TensorSpec], names: Collection[str]) -> TensorSpec | None:
    """The only output with one of these names."""
    found = [spec for spec in outputs if plain(spec.name) in names]
    return found[0] if len(found) == 1 else None


def is_whole(spec: TensorSpec) -> bool:
    """Whether it holds whole numbers."""
    return spec.dtype.lstrip("u").startswith("int")


@dataclass(frozen=True, slots=True)
class Pair:
    """The boxes of every row in one output, the scores of the same rows in another."""

    boxes: TensorSpec
    scores: TensorSpec
    named: bool
    """The exporter's names say which is which; else the shapes do."""


def pair(decoder: str, outputs: Sequence[TensorSpec]) -> Pair | None:
    """None where there are no such two, and where both could be the boxes and no name tells."""
    box_names, score_names = _NAMES[decoder]
    boxes, scores = called(outputs, box_names), called(outputs, score_names)
    if boxes is not None and scores is not None:
        return Pair(boxes, scores, named=True) if _are_rows(boxes, scores) else None
    if len(outputs) != 2:
        return None
    first, second = outputs
    if boxes is None and scores is None:
        # other networks end in three dimensions too; columns other than 4 cannot be boxes
        could_be = [spec for spec in outputs if spec.shape[-1:] in ((4,), (None,))]
        if len(could_be) != 1:
            return None
        boxes = could_be[0]
    if boxes is None:
        boxes = second if scores is first else first
    scores = second if boxes is first else first
    return Pair(boxes, scores, named=False) if _are_rows(boxes, scores) else None


def _are_rows(boxes: TensorSpec, scores: TensorSpec) -> bool:
    same = len(boxes.shape) == len(scores.shape) == 3 and not is_whole(scores)
    return same and boxes.shape[-1] in (4, None) and _same(boxes.shape[1], scores.shape[1])


def _same(a: int | None, b: int | None) -> bool:
    return a is None or b is None or a == b


@dataclass(frozen=True, slots=True)
class Kept:
    """Boxes that went through NMS or a top-k in the graph, each with one class."""

    boxes: TensorSpec
    """(1, N, 4) or (N, 4); with five columns the last is the score."""
    classes: TensorSpec
    """(1, N) or (N,)"""
    scores: TensorSpec | None
    count: TensorSpec | None
    """How many of the N count; None: all."""


def kept_boxes(outputs: Sequence[TensorSpec]) -> Kept | None:
    """By name, else by shape and type."""
    boxes, scores = called(outputs, _BOXES), called(outputs, _SCORES)
    classes, count = called(outputs, _CLASSES), called(outputs, _COUNTS)
    if boxes is None or classes is None or (scores is None and boxes.shape[-1:] != (5,)):
        unnamed = _kept_by_shape(outputs)
        if unnamed is None:
            return None
        boxes, classes, scores, count = unnamed.boxes, unnamed.classes, unnamed.scores, unnamed.count
    rows = len(boxes.shape) - 1
    fits = rows in (1, 2) and boxes.shape[-1] in ((4, None) if scores else (5,))
    each = [spec for spec in (classes, scores) if spec is not None]
    return (
        Kept(boxes, classes, scores, count) if fits and all(_is_list(spec, rows) for spec in each) else None
    )


def _is_list(spec: TensorSpec, dimensions: int) -> bool:
    # some exporters leave a column of one
    return len(spec.shape) == dimensions or (len(spec.shape) == dimensions + 1 and spec.shape[-1] == 1)


def _kept_by_shape(outputs: Sequence[TensorSpec]) -> Kept | None:
    whole = [spec for spec in outputs if is_whole(spec)]
    real = [spec for spec in outputs if not is_whole(spec)]
    boxes = [spec for spec in real if len(spec.shape) in (2, 3) and spec.shape[-1] in (4, 5)]
    if len(boxes) != 1:
        return None
    scores = [spec for spec in real if spec is not boxes[0]]
    counts = [spec for spec in whole if all(side == 1 for side in spec.shape)]
    classes = [spec for spec in whole if spec not in counts]
    if len(classes) != 1 or len(counts) > 1 or len(scores) > 1:
        return None
    return Kept(boxes[0], classes[0], scores[0] if scores else None, counts[0] if counts else None)


@dataclass(frozen=True, slots=True)
class Selected:
    """Every box, and ONNX's NonMaxSuppression beside them."""

    boxes: TensorSpec
    """(1, N, 4)"""
    scores: TensorSpec
    """(1, classes, N)"""
    indices: TensorSpec
    """(K, 3): picture, class, row"""


def selected_boxes(outputs: Sequence[TensorSpec]) -> Selected | None:
    """By shape and type, whatever their order and names."""
    indices = [spec for spec in outputs if is_whole(spec) and len(spec.shape) == 2 and spec.shape[1] == 3]
    rows = [spec for spec in outputs if not is_whole(spec) and len(spec.shape) == 3]
    boxes = [spec for spec in rows if spec.shape[2] == 4]
    if len(outputs) != 3 or len(indices) != 1 or len(rows) != 2 or len(boxes) != 1:
        return None
    scores = next(spec for spec in rows if spec is not boxes[0])
    return Selected(boxes[0], scores, indices[0]) if _same(boxes[0].shape[1], scores.shape[2]) else None


def by_stride(outputs: Sequence[TensorSpec], prefix: str) -> dict[int, TensorSpec]:
    """``cls_8``, ``cls_16`` -> {8: ..., 16: ...}, the smallest stride first."""
    found = {}
    for spec in outputs:
        match = re.fullmatch(rf"{prefix}_(\d+)", plain(spec.name))
        if match:
            found[int(match[1])] = spec
    return dict(sorted(found.items()))


def anomaly_outputs(outputs: Sequence[TensorSpec]) -> tuple[TensorSpec | None, TensorSpec | None]:
    """The score and the map; labels and masks are told by their type."""
    numbers = [spec for spec in outputs if spec.dtype.startswith("float")]
    by_name = {spec.name: spec for spec in numbers}
    scores = [spec for spec in numbers if len(spec.shape) <= 2]
    maps = [spec for spec in numbers if len(spec.shape) >= 3]
    score = by_name.get("pred_score") or (scores[0] if len(scores) == 1 else None)
    return score, by_name.get("anomaly_map") or (maps[0] if len(maps) == 1 else None)


def one_a_picture(outputs: Sequence[TensorSpec]) -> bool:
    """Whether no score or map of an anomaly network has a second class beside the anomalous one."""
    score, heat = anomaly_outputs(outputs)
    leading = [spec.shape for spec in (score,) if spec] + [spec.shape[:-2] for spec in (heat,) if spec]
    batches = {sides[0] for sides in leading if len(sides) > 1}
    for sides in leading:
        if any(side not in (1, None) for side in sides[1:]):
            return False
        # a lone side may hold classes: the other output has to say that so many are pictures
        if len(sides) == 1 and sides[0] not in {1, None, *batches}:
            return False
    return True
