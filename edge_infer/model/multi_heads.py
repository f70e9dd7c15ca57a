"""Detection heads of several outputs, or of one that is no plain (1, rows, columns)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from edge_infer.model.anchors import anchor_mistake, grid_columns, is_grids
from edge_infer.model.head import Head, Unclear, grid_cells, shapes
from edge_infer.model.outputs import (
    ORIGINAL_SIZE,
    TF_NAMES,
    TFLITE_NAME,
    by_stride,
    called,
    is_whole,
    kept_boxes,
    pair,
    plain,
    selected_boxes,
)
from edge_infer.tensor import TensorSpec

ULTRAFACE_STRIDES = {8: 3, 16: 2, 32: 2, 64: 3}
"""Stride -> anchors a cell."""
FASTESTDET_STRIDE = 16
QUERIES = ("detr", "rtdetr", "rfdetr")
"""Boxes and class logits a query."""
NMS_COLUMNS = 7
"""Of rows of one object: picture, box, class, score; SSD has them in another order."""
NANODET_SIDES = 32
"""Four sides, each spread over eight distances."""
_YUNET = {"cls": 1, "obj": 1, "bbox": 4}


@dataclass(frozen=True, slots=True)
class Seen:
    """What a network shows of itself."""

    outputs: Sequence[TensorSpec]
    size: tuple[int, int]
    """height, width of its input."""
    inputs: tuple[str, ...] = ()
    """Names of inputs beside the picture."""
    anchors: tuple[tuple[float, ...], ...] = ()
    """Of the card."""


def possible_heads(seen: Seen) -> list[Head]:
    """Every reading that names, shapes and types allow by themselves."""
    outputs = seen.outputs
    for decoder in ("yunet", "nanodet", "ssd", "tf-detection"):
        head = _READ[decoder](seen)
        if head is not None:
            return [head]
    if asks_for_size(seen):
        return [Head("rtdetr", None)]
    head = _nms(seen)
    if head is not None:
        return [head]
    heads = []
    for decoder in QUERIES:
        found = pair(decoder, outputs)
        if found is not None and found.named:
            heads += [head for head in [_READ[decoder](seen)] if head]
    return heads or [head for head in (_ultraface(seen), _yolo_nas(seen)) if head]


def read_as(decoder: str, seen: Seen) -> Head | Unclear:
    """What the head is if it is read by this decoder, as the card says."""
    if decoder == "yolov5-raw":
        return _yolov5_raw(seen)
    head = _READ[decoder](seen)
    if head is not None:
        return head
    return Unclear(
        f"the decoder {decoder} wants {_WANTS[decoder]}, the network's outputs are {shapes(seen.outputs)}"
    )


def any_size(outputs: Sequence[TensorSpec]) -> tuple[int, int] | None:
    """height, width to feed to a network that resizes pictures itself, as TensorFlow's detectors do."""
    return (640, 640) if _tf_detection(Seen(outputs, (0, 0))) else None


def asks_for_size(seen: Seen) -> bool:
    """Whether this is RT-DETR or D-FINE as they export themselves."""
    return ORIGINAL_SIZE in map(plain, seen.inputs) and kept_boxes(seen.outputs) is not None


def ultraface_rows(size: tuple[int, int]) -> int:
    """Anchors of an input of this height, width."""
    height, width = size
    return sum(
        count * -(-height // stride) * -(-width // stride) for stride, count in ULTRAFACE_STRIDES.items()
    )


def _yolov5_raw(seen: Seen) -> Head | Unclear:
    outputs = seen.outputs
    where = f"the network's outputs ({shapes(outputs)})"
    if not is_grids(outputs):
        return Unclear(f"the decoder yolov5-raw wants a grid of anchors a stride, {where} are none")
    mistake = anchor_mistake(outputs, seen.size, seen.anchors)
    if mistake:
        return Unclear(
            f"{where} are raw anchor grids: {mistake}",
            ("yolov5-raw",),
            key="anchors",
            advice="say `anchors: [[10,13, 16,30, 33,23], [30,61, ...], ...]` as in the training "
            "configuration, a list a stride, the smallest stride first",
        )
    columns = grid_columns(outputs, seen.anchors)
    return Head("yolov5-raw", columns - 5)


def _yolo_nas(seen: Seen) -> Head | None:
    found = pair("yolo-nas", seen.outputs)
    if found is None:
        return None
    rows = found.boxes.shape[1]
    fits = rows is None or rows in grid_cells(seen.size)
    return Head("yolo-nas", found.scores.shape[2]) if fits else None


def _yolo_nas_in_order(seen: Seen) -> Head | None:
    head = _yolo_nas(seen)
    if head is not None or [spec.shape[2:] for spec in seen.outputs] != [(4,), (4,)]:
        return head
    return Head("yolo-nas", 4)


def _nms(seen: Seen) -> Head | None:
    outputs = seen.outputs
    if len(outputs) == 1:
        # one row an object: picture, box, class and score
        is_row = len(outputs[0].shape) == 2 and outputs[0].shape[1] == NMS_COLUMNS
        return Head("nms", None) if is_row else None
    selected = selected_boxes(outputs)
    if selected is not None:
        return Head("nms", selected.scores.shape[1])
    return Head("nms", None) if kept_boxes(outputs) is not None else None


def _nms_as_told(seen: Seen) -> Head | None:
    if len(seen.outputs) == 1 and seen.outputs[0].shape[-1:] == (NMS_COLUMNS,):
        return Head("nms", None)
    return _nms(seen)


def _ssd(seen: Seen) -> Head | None:
    if len(seen.outputs) != 1 or len(seen.outputs[0].shape) != 4:
        return None
    _, one, _, columns = seen.outputs[0].shape
    return Head("ssd", None, "first") if one in (1, None) and columns == NMS_COLUMNS else None


def _tf_detection(seen: Seen) -> Head | None:
    outputs = seen.outputs
    if len(outputs) == 4 and all(plain(spec.name) == TFLITE_NAME for spec in outputs):
        return Head("tf-detection", None)
    named = {part: called(outputs, (name,)) for part, name in TF_NAMES.items()}
    classes = named["classes"]
    # TensorRT's EfficientNMS has the same names; its classes are whole numbers and its boxes pixels
    if None in named.values() or classes is None or is_whole(classes):
        return None
    return Head("tf-detection", None, "first")


def _detr(seen: Seen) -> Head | None:
    found = pair("detr", seen.outputs)
    return Head("detr", found.scores.shape[2], "last") if found else None


def _rtdetr(seen: Seen) -> Head | None:
    if len(seen.outputs) == 1:
        shape = seen.outputs[0].shape
        if len(shape) != 3 or shape[2] is None or shape[2] < 5:
            return None
        # box, score and class; older exporters wrote a score a class
        return Head("rtdetr", None if shape[2] == 6 else shape[2] - 4)
    found = pair("rtdetr", seen.outputs)
    if found is not None:
        return Head("rtdetr", found.scores.shape[2])
    return Head("rtdetr", None) if asks_for_size(seen) else None


def _rfdetr(seen: Seen) -> Head | None:
    found = pair("rfdetr", seen.outputs)
    return Head("rfdetr", found.scores.shape[2], "last") if found else None


def _nanodet(seen: Seen) -> Head | None:
    outputs = seen.outputs
    if len(outputs) == 1:
        shape = outputs[0].shape
        fits = (
            len(shape) == 3
            and shape[2] is not None
            and shape[2] > NANODET_SIDES
            and shape[1] in grid_cells(seen.size)
        )
        return Head("nanodet", (shape[2] or 0) - NANODET_SIDES) if fits else None
    scores, sides = by_stride(outputs, "cls_pred_stride"), by_stride(outputs, "dis_pred_stride")
    if not scores or scores.keys() != sides.keys():
        return None
    return Head("nanodet", next(iter(scores.values())).shape[-1])


def _fastestdet(seen: Seen) -> Head | None:
    if len(seen.outputs) != 1 or len(seen.outputs[0].shape) != 4:
        return None
    _, channels, height, width = seen.outputs[0].shape
    cells = tuple(-(-side // FASTESTDET_STRIDE) for side in seen.size)
    fits = height in (cells[0], None) and width in (cells[1], None)
    return Head("fastestdet", channels - 5) if fits and channels is not None and channels > 5 else None


def _yunet(seen: Seen) -> Head | None:
    groups = [by_stride(seen.outputs, kind) for kind in _YUNET]
    if not groups[0] or any(group.keys() != groups[0].keys() for group in groups):
        return None
    fits = all(
        spec.shape[-1] == columns
        for group, columns in zip(groups, _YUNET.values(), strict=True)
        for spec in group.values()
    )
    return Head("yunet", 1) if fits else None


def _ultraface(seen: Seen) -> Head | None:
    found = pair("ultraface", seen.outputs)
    if found is None or found.scores.shape[2] != 2:
        return None
    fits = found.boxes.shape[1] == ultraface_rows(seen.size)
    return Head("ultraface", 2, "first") if fits else None


_READ: dict[str, Callable[[Seen], Head | None]] = {
    "yolo-nas": _yolo_nas_in_order,
    "nms": _nms_as_told,
    "ssd": _ssd,
    "tf-detection": _tf_detection,
    "detr": _detr,
    "rtdetr": _rtdetr,
    "rfdetr": _rfdetr,
    "nanodet": _nanodet,
    "fastestdet": _fastestdet,
    "yunet": _yunet,
    "ultraface": _ultraface,
}
_WANTS = {
    "yolo-nas": "boxes (1, cells, 4) and scores (1, cells, classes)",
    "nms": "boxes, scores and classes (and how many count), or rows of 7",
    "ssd": "one output (1, 1, N, 7)",
    "tf-detection": f"outputs called {', '.join(TF_NAMES.values())}",
    "detr": "outputs called logits and pred_boxes",
    "rtdetr": f"logits and pred_boxes, rows of 4 + classes, or labels, boxes and scores with {ORIGINAL_SIZE}",
    "rfdetr": "outputs called dets and labels",
    "nanodet": "cls_pred_stride_8, dis_pred_stride_8 ..., or rows of classes + 32",
    "fastestdet": f"one output (1, 5 + classes, height / {FASTESTDET_STRIDE}, width / {FASTESTDET_STRIDE})",
    "yunet": "outputs called cls_8, obj_8, bbox_8 and so on",
    "ultraface": "boxes (1, anchors, 4) and scores (1, anchors, 2) as many as the input's anchors",
}
MULTI = ("yolov5-raw", *_READ)
"""Decoders that are told here."""
