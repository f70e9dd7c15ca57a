"""One answer of every decoder's network, with objects in it, for pictures of ``tasks.SIZE``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_infer.model.card import AnomalyCard, ModelCard
from tests.support.tasks import SIZE, card

HEIGHT, WIDTH = SIZE
CELLS = 12 * 20 + 6 * 10 + 3 * 5
ANCHORS = ((8, 10, 14, 12), (20, 18, 30, 28), (40, 44, 70, 60))
Outputs = dict[str, NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Head:
    """A model card and what its network answers."""

    card: ModelCard
    outputs: Outputs


def heads(seed: int = 1) -> dict[str, Head]:
    """By a name that starts with the decoder's, as ``decoder_name`` has it; the rest says what is special."""
    draw = np.random.default_rng(seed)
    every = {**_boxes(draw), **_queries(draw), **_grids(draw), **_final(draw), **_tasks(draw)}
    for name in [
        name for name, head in every.items() if name not in {"nms selected", "semantic/semantic ids"}
    ]:
        every[f"{name} float16"] = replace(every[name], outputs=_halved(every[name].outputs))
    return every


def _halved(outputs: Outputs) -> Outputs:
    return {
        name: each.astype(np.float16) if each.dtype == np.float32 else each for name, each in outputs.items()
    }


def _middles(draw: np.random.Generator, count: int) -> NDArray[Any]:
    """(N, 4) cx, cy, w, h"""
    return np.column_stack(
        [draw.uniform(10, (WIDTH - 10, HEIGHT - 10), (count, 2)), draw.uniform(6, 40, (count, 2))]
    )


def _corners(draw: np.random.Generator, count: int) -> NDArray[Any]:
    boxes = _middles(draw, count)
    return np.column_stack([boxes[:, :2] - boxes[:, 2:] / 2, boxes[:, :2] + boxes[:, 2:] / 2])


def _scores(draw: np.random.Generator, *shape: int) -> NDArray[Any]:
    return draw.uniform(0, 1, shape) ** 6


def _rows(*columns: NDArray[Any]) -> NDArray[np.float32]:
    """(1, N, all columns)"""
    return np.column_stack(columns)[None].astype(np.float32)


def _turned(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.ascontiguousarray(rows.transpose(0, 2, 1))


def _boxes(draw: np.random.Generator) -> dict[str, Head]:
    v8 = _rows(_middles(draw, CELLS), _scores(draw, CELLS, 2))
    v5 = _rows(_middles(draw, 3 * CELLS), draw.uniform(0, 1, 3 * CELLS), _scores(draw, 3 * CELLS, 2))
    raw = _rows(draw.normal(0, 0.7, (CELLS, 4)), draw.uniform(0, 1, CELLS), _scores(draw, CELLS, 2))
    return {
        "yolov8": Head(card("detect", "yolov8"), {"output0": _turned(v8)}),
        "yolov8 rows first": Head(card("detect", "yolov8"), {"output0": v8}),
        "yolov5": Head(card("detect", "yolov5"), {"output0": v5}),
        "yolov5 columns first": Head(card("detect", "yolov5"), {"output0": _turned(v5)}),
        "yolox": Head(card("detect", "yolox"), {"output": v5[:, :CELLS].copy()}),
        "yolox-raw": Head(card("detect", "yolox-raw"), {"output": raw}),
        "yolo-nas": Head(
            card("detect", "yolo-nas"),
            {"boxes": _rows(_corners(draw, CELLS)), "scores": _rows(_scores(draw, CELLS, 2))},
        ),
        "ultraface": Head(
            card("detect", "ultraface", ("face",), background="first"),
            {
                "boxes": _rows(_corners(draw, 60) / [WIDTH, HEIGHT, WIDTH, HEIGHT]),
                "scores": _rows(1 - (face := _scores(draw, 60)), face),
            },
        ),
    }


def _queries(draw: np.random.Generator) -> dict[str, Head]:
    def pair(boxes: str, logits: str, columns: int) -> Outputs:
        fractions = _middles(draw, 50) / [WIDTH, HEIGHT, WIDTH, HEIGHT]
        return {boxes: _rows(fractions), logits: _rows(draw.normal(-2, 2, (50, columns)))}

    rows = _middles(draw, 50) / [WIDTH, HEIGHT, WIDTH, HEIGHT]
    return {
        "detr": Head(card("detect", "detr", background="last"), pair("pred_boxes", "logits", 3)),
        "rtdetr": Head(card("detect", "rtdetr"), pair("pred_boxes", "logits", 2)),
        "rtdetr rows": Head(
            card("detect", "rtdetr", ("a", "b", "c")), {"output0": _rows(rows, _scores(draw, 50, 3))}
        ),
        "rfdetr": Head(card("detect", "rfdetr", background="last"), pair("dets", "labels", 3)),
    }


def _by_stride(strides: Sequence[int], draw: Callable[[int, int], Outputs]) -> Outputs:
    outputs: Outputs = {}
    for stride in strides:
        outputs |= draw(stride, HEIGHT // stride * (WIDTH // stride))
    return outputs


def _grids(draw: np.random.Generator) -> dict[str, Head]:
    grids = {
        f"grid{stride}": draw.normal(0, 1.5, (1, 2, HEIGHT // stride, WIDTH // stride, 7)).astype(np.float32)
        for stride in (8, 16, 32)
    }
    channels = {
        name: np.ascontiguousarray(each.transpose(0, 1, 4, 2, 3).reshape(1, 14, *each.shape[2:4]))
        for name, each in grids.items()
    }
    fastest = draw.normal(0, 1, (1, 7, HEIGHT // 16, WIDTH // 16)).astype(np.float32)
    fastest[:, [0, 5, 6]] = draw.uniform(0, 1, (1, 3, HEIGHT // 16, WIDTH // 16))
    nanodet = _by_stride(
        (8, 16, 32),
        lambda stride, cells: {
            f"cls_pred_stride_{stride}": _rows(_scores(draw, cells, 2)),
            f"dis_pred_stride_{stride}": _rows(draw.normal(0, 2, (cells, 32))),
        },
    )
    yunet = _by_stride(
        (8, 16, 32),
        lambda stride, cells: {
            f"cls_{stride}": _rows(draw.uniform(0, 0.9, cells)),
            f"obj_{stride}": _rows(_scores(draw, cells)),
            f"bbox_{stride}": _rows(draw.normal(0, 0.7, (cells, 4))),
            f"kps_{stride}": _rows(draw.normal(0, 1, (cells, 10))),
        },
    )
    return {
        "yolov5-raw": Head(card("detect", "yolov5-raw", anchors=ANCHORS), grids),
        "yolov5-raw channels": Head(card("detect", "yolov5-raw", anchors=ANCHORS), channels),
        "fastestdet": Head(card("detect", "fastestdet"), {"758": fastest}),
        "nanodet": Head(card("detect", "nanodet"), nanodet),
        "yunet": Head(card("detect", "yunet", ("face",)), yunet),
    }


def _final(draw: np.random.Generator) -> dict[str, Head]:
    count = 20
    boxes, scores = _corners(draw, count).clip(0, HEIGHT), draw.uniform(0, 1, count)
    classes = draw.integers(0, 2, count)
    fractions = boxes / [WIDTH, HEIGHT, WIDTH, HEIGHT]
    picture = np.zeros(count)
    kept = {
        "num_dets": np.array([[count]], np.int32),
        "det_boxes": _rows(boxes),
        "det_scores": scores[None].astype(np.float32),
        "det_classes": classes[None].astype(np.int32),
    }
    chosen = np.stack([picture, classes, np.arange(count)], axis=1).astype(np.int64)
    by_class = np.stack([scores, scores])[None].astype(np.float32)
    tf = {
        "detection_boxes": _rows(fractions[:, [1, 0, 3, 2]]),
        "detection_classes": classes[None].astype(np.float32) + 1,
        "detection_scores": scores[None].astype(np.float32),
        "num_detections": np.array([count], np.float32),
    }
    return {
        "yolo-end2end": Head(card("detect", "yolo-end2end"), {"output0": _rows(boxes, scores, classes)}),
        "nms": Head(card("detect", "nms"), kept),
        "nms rows": Head(card("detect", "nms"), {"output": _rows(picture, boxes, classes, scores)[0]}),
        "nms selected": Head(
            card("detect", "nms"), {"selected": chosen, "scores": by_class, "boxes": _rows(boxes)}
        ),
        "ssd": Head(
            card("detect", "ssd", background="first"),
            {"out": _rows(picture, classes + 1, scores, fractions)[None]},
        ),
        "tf-detection": Head(card("detect", "tf-detection", background="first"), tf),
    }


def _tasks(draw: np.random.Generator) -> dict[str, Head]:
    found: dict[str, Head] = {}
    points: dict[str, Any] = {"keypoints": (3, 3)}
    for task, more, changes in (
        ("segment", draw.normal(0, 1, (3 * CELLS, 5)), {}),
        ("obb", draw.uniform(-1, 2, (3 * CELLS, 1)), {}),
        ("pose", draw.uniform(0, 90, (3 * CELLS, 9)), points),
    ):
        planes = {"output1": _planes(draw, 5)} if task == "segment" else {}
        boxes, scores = _middles(draw, CELLS), _scores(draw, CELLS, 2)
        v8 = _turned(_rows(boxes, scores, more[:CELLS]))
        found[f"yolov8/{task}"] = Head(card(task, "yolov8", **changes), {"output0": v8, **planes})
        if task == "segment":
            v5 = _rows(_middles(draw, 3 * CELLS), np.ones(3 * CELLS), _scores(draw, 3 * CELLS, 2), more)
            found["yolov5/segment"] = Head(card(task, "yolov5"), {"output0": v5, **planes})
        places = _middles(draw, 30) if task == "obb" else _corners(draw, 30)
        last = _rows(places, draw.uniform(0, 1, 30), draw.integers(0, 2, 30), more[:30])
        found[f"yolo-end2end/{task}"] = Head(
            card(task, "yolo-end2end", **changes), {"output0": last, **planes}
        )
    logits = _planes(draw, 3)
    likely = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    heat = np.abs(_planes(draw, 1) * 0.3).clip(0, 1)
    return found | {
        "classify/classify": Head(
            card("classify", "classify"), {"scores": draw.normal(0, 1, (1, 2)).astype(np.float32)}
        ),
        "semantic/semantic": Head(card("semantic", "semantic", background="first"), {"map": logits}),
        "semantic/semantic probabilities": Head(
            card("semantic", "semantic", ("a", "b", "c"), logits=False), {"map": likely}
        ),
        "semantic/semantic one channel": Head(
            card("semantic", "semantic", ("tear",), logits=True), {"map": _planes(draw, 1)}
        ),
        "semantic/semantic ids": Head(
            card("semantic", "semantic", ("a", "b", "c")), {"map": logits.argmax(axis=1).astype(np.int64)}
        ),
        "anomaly/anomaly": Head(
            card("anomaly", "anomaly", ()),
            {"pred_score": np.array([[0.8]], np.float32), "anomaly_map": heat},
        ),
        "anomaly/anomaly raw": Head(
            card("anomaly", "anomaly", (), anomaly=AnomalyCard(5, 2, 12)), {"anomaly_map": heat * 10 + 2}
        ),
        "anomaly/anomaly score": Head(
            card("anomaly", "anomaly", ()), {"pred_score": np.array([[0.8]], np.float32)}
        ),
    }


def _planes(draw: np.random.Generator, count: int) -> NDArray[np.float32]:
    """(1, count, h, w) in patches, so that there are regions."""
    coarse = draw.normal(0, 1, (1, count, HEIGHT // 16, WIDTH // 16)).astype(np.float32)
    return np.kron(coarse, np.ones((4, 4), np.float32))
