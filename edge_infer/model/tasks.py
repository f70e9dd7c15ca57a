"""Tells what a network is for, and the head of every task but plain boxes; or says why not."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from edge_infer.model.card import Background, Task
from edge_infer.model.head import Head, Unclear, grid_cells, shapes
from edge_infer.model.told import Told
from edge_infer.tensor import TensorSpec

WHOLE_PICTURE = ("classify", "semantic", "anomaly")
"""Tasks that have one decoder each, of the same name."""

DECODERS_OF: dict[Task, tuple[str, ...]] = {
    "segment": ("yolov8", "yolov5", "yolo-end2end"),
    "obb": ("yolov8", "yolo-end2end"),
    "pose": ("yolov8", "yolo-end2end"),
    "classify": ("classify",),
    "semantic": ("semantic",),
    "anomaly": ("anomaly",),
}
"""Every task but detect, and which decoders have it."""

TASKS: tuple[Task, ...] = ("detect", *DECODERS_OF)
"""What can be judged."""

_ANOMALIB = frozenset({"anomaly_map", "pred_score"})
_ANCHORS_A_CELL = 3
_BEFORE = {"yolov8": 4, "yolov5": 5, "yolo-end2end": 6}
_SSD_COLUMNS = 7
_COARSEST = 8
"""A map of classes has at least one value for so many pixels each way; a grid of boxes has fewer."""


@dataclass(frozen=True, slots=True)
class TaskHead(Head):
    """What the outputs of a network for another task than boxes are."""

    keypoints: tuple[int, int] | None = None
    """How many, and how many numbers each."""
    guess: str | None = None
    """What is one, as a sentence without an end."""


def tell_task(
    outputs: Sequence[TensorSpec], size: tuple[int, int], classes: int | None
) -> Task | Unclear | None:
    """By names and shapes alone; None: boxes, if anything. ``classes`` as for heads."""
    if any(spec.name in _ANOMALIB for spec in outputs):
        return "anomaly"
    ranks = sorted(len(spec.shape) for spec in outputs)
    if (
        ranks == [3, 4]
        and _prototypes(outputs) is not None
        and _readings("segment", outputs, size, Told(), None)
    ):
        return "segment"
    return _by_one(outputs[0], size, classes) if len(outputs) == 1 else None


def _by_one(output: TensorSpec, size: tuple[int, int], classes: int | None) -> Task | Unclear | None:
    shape, is_float = output.shape, output.dtype.startswith("float")
    if len(shape) == 2 and is_float and (shape[1] or 0) > 1:
        # rows of detections, as many as there are, look like a batch of seven classes
        return "classify" if shape != (None, _SSD_COLUMNS) or classes == _SSD_COLUMNS else None
    if len(shape) == 4 and is_float and shape[2:] == (1, 1):
        return "classify"
    fine = all((side or 0) * _COARSEST >= whole for side, whole in zip(shape[-2:], size, strict=False))
    if len(shape) == 3 and not is_float and fine:
        return "semantic"
    if len(shape) == 4 and is_float and fine and shape[3] != _SSD_COLUMNS:
        if shape[1] == 1:
            return Unclear(
                f"the network's output ({shapes([output])}) may be the map of an anomaly network without "
                "its metadata.json, or where the only class is"
            )
        return "semantic"
    return None


def tell_task_head(
    task: Task,
    outputs: Sequence[TensorSpec],
    size: tuple[int, int],
    told: Told,
    *,
    classes: int | None,
    written: str | None = None,
    background: Background = "none",
) -> TaskHead | Unclear:
    """``classes``: how many the labels name, background counted; ``written``: the card's decoder."""
    if written is not None and written not in DECODERS_OF[task]:
        return Unclear(f"the decoder {written} has no {task} networks", DECODERS_OF[task])
    if task == "classify":
        return _classifier(outputs)
    if task == "semantic":
        return _class_map(outputs, background)
    return _rows_head(task, outputs, size, told, classes=classes, written=written)


def _rows_head(
    task: Task,
    outputs: Sequence[TensorSpec],
    size: tuple[int, int],
    told: Told,
    *,
    classes: int | None,
    written: str | None,
) -> TaskHead | Unclear:
    readings = _readings(task, outputs, size, told, written)
    heads = [
        _with_extra(task, decoder, rest, _extra(task, outputs, told), classes) for decoder, rest in readings
    ]
    known = [head for head in heads if head is not None]
    fitting = [head for head in known if classes is None or head.classes in (None, classes)]
    candidates = fitting or known
    if len(candidates) == 1:
        return candidates[0]
    where = f"the network's outputs ({shapes(outputs)}) and an input of {size[0]}x{size[1]}"
    if not candidates:
        without_count = task == "pose" and told.keypoints is None and classes is None
        needs = "; how many key points there are is told by kpt_shape or by labels" if without_count else ""
        return Unclear(f"{where} fit no {task} head that is known{needs}")
    names = tuple(head.decoder for head in candidates)
    return Unclear(f"{where} fit several decoders: {', '.join(names)}", names)


def _classifier(outputs: Sequence[TensorSpec]) -> TaskHead | Unclear:
    floats = class_scores(outputs)
    if len(floats) != 1:
        return Unclear(f"of the network's outputs ({shapes(outputs)}) not one alone holds class scores")
    sides = floats[0].shape[1:]
    return TaskHead("classify", None if None in sides else math.prod(side or 1 for side in sides))


def class_scores(outputs: Sequence[TensorSpec]) -> list[TensorSpec]:
    """All that may be the scores of a classifier."""
    return [spec for spec in outputs if spec.dtype.startswith("float") and _is_list(spec)]


def _is_list(spec: TensorSpec) -> bool:
    """(1, classes), with or without sides of one behind."""
    return len(spec.shape) >= 2 and all(side in (1, None) for side in spec.shape[2:])


def _class_map(outputs: Sequence[TensorSpec], background: Background) -> TaskHead | Unclear:
    output = outputs[0]
    is_float = output.dtype.startswith("float")
    if len(outputs) != 1 or len(output.shape) not in ((4,) if is_float else (3, 4)):
        return Unclear(f"the network's outputs ({shapes(outputs)}) are not one map of classes")
    if not is_float:
        return TaskHead("semantic", None)
    # one channel says "is it"; what is not is nothing
    channels = output.shape[1]
    return TaskHead("semantic", channels if channels != 1 else 1 + (background != "none"))


def _readings(
    task: Task, outputs: Sequence[TensorSpec], size: tuple[int, int], told: Told, written: str | None
) -> list[tuple[str, int]]:
    """Every decoder that can read the rows, and how many columns follow its box."""
    rows_of = [spec.shape for spec in outputs if len(spec.shape) == 3]
    if len(rows_of) != 1:
        return []
    _, first, last = rows_of[0]
    cells = grid_cells(size)
    anchors = {_ANCHORS_A_CELL * count for count in cells}
    final = bool(told.end2end or told.nms_inside)
    raw = told.exporter == "Ultralytics" and not final
    readings: list[tuple[str, int | None]] = []
    if written == "yolov8" or (written is None and not final and (last in cells or raw)):
        readings.append(("yolov8", last if written and first in cells and last not in cells else first))
    if written is None and not final and not raw and first in cells:
        readings.append(("yolov8", last))
    if written == "yolov5" or (written is None and not final and not raw and first in anchors):
        readings.append(("yolov5", last))
    unlike_a_grid = (
        not raw and first not in cells | anchors and last not in cells and (first or 0) > (last or 0)
    )
    if written == "yolo-end2end" or (written is None and (final or unlike_a_grid)):
        readings.append(("yolo-end2end", last))
    return [
        (decoder, columns - _BEFORE[decoder])
        for decoder, columns in readings
        if decoder in DECODERS_OF[task] and columns is not None and columns >= _BEFORE[decoder]
    ]


def _extra(task: Task, outputs: Sequence[TensorSpec], told: Told) -> int | tuple[int, int] | None:
    """Columns that belong to the task; for key points how many and how many numbers each."""
    if task == "obb":
        return 1
    return _prototypes(outputs) if task == "segment" else told.keypoints


def _with_extra(
    task: Task, decoder: str, rest: int, extra: int | tuple[int, int] | None, classes: int | None
) -> TaskHead | None:
    """``rest``: columns that follow the box. None where the task's own do not fit in."""
    final = decoder == "yolo-end2end"
    keypoints, guess = None, None
    if task == "pose":
        keypoints = extra if isinstance(extra, tuple) else None
        if keypoints is None:
            keypoints, guess = _keypoints(rest if final else rest - (classes or rest))
        extra = keypoints[0] * keypoints[1] if keypoints else None
    if not isinstance(extra, int) or (final and rest != extra) or (not final and rest <= extra):
        return None
    return TaskHead(decoder, None if final else rest - extra, keypoints=keypoints, guess=guess)


def _prototypes(outputs: Sequence[TensorSpec]) -> int | None:
    found = [spec.shape[1] for spec in outputs if len(spec.shape) == 4 and spec.dtype.startswith("float")]
    return found[0] if len(found) == 1 else None


def _keypoints(columns: int) -> tuple[tuple[int, int] | None, str | None]:
    """Where nothing but their number of columns tells."""
    if columns <= 0 or (columns % 3 and columns % 2):
        return None, None
    numbers = 2 if columns % 3 else 3
    guess = None
    if columns % 6 == 0:
        guess = (
            f"{columns} numbers may be {columns // 3} key points with or {columns // 2} without visibility"
        )
    return (columns // numbers, numbers), guess
