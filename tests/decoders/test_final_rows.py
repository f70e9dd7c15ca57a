"""Heads that have chosen their boxes themselves: NMS inside, SSD, TensorFlow, RT-DETR."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edge_infer.decoders import DECODERS
from edge_infer.errors import ModelError
from edge_infer.findings import Findings
from edge_infer.geometry import stretch
from edge_infer.model.card import InputCard, ModelCard
from edge_infer.registry import resolve
from edge_infer.tensor import Tensor, TensorSpec

LABELS = ("cap", "tear", "foreign object")
HEIGHT, WIDTH = 100, 200
# a frame twice as wide and three times as high as the network's input
TRANSFORM = stretch(WIDTH, HEIGHT).transform((0, 0, 400, 300), 400, 300)
BOXES = np.array([[10, 20, 50, 60], [70, 10, 90, 30], [100, 50, 180, 90]], np.float32)
SCORES = np.array([0.9, 0.8, 0.7], np.float32)
CLASSES = np.array([2, 0, 1])
EXPECTED: list[tuple[str, float, list[float]]] = [
    ("foreign object", 0.9, [20, 60, 100, 180]),
    ("cap", 0.8, [140, 30, 180, 90]),
    ("tear", 0.7, [200, 150, 360, 270]),
]
Outputs = dict[str, Tensor]


def _card(decoder: str, **changes: Any) -> ModelCard:
    card = ModelCard("test", Path("test.onnx"), "0", "detect", decoder, LABELS, InputCard((HEIGHT, WIDTH)))
    return replace(card, **changes)


def _decode(card: ModelCard, outputs: Outputs) -> Findings:
    specs = tuple(TensorSpec(name, tensor.shape, tensor.dtype.name) for name, tensor in outputs.items())
    findings: Findings = resolve(DECODERS, card.decoder)(card, specs).decode(outputs, TRANSFORM)
    return findings


def _found(findings: Findings) -> list[tuple[str, float, list[float]]]:
    assert findings.detections is not None
    return [(one.label, one.score, list(one.box)) for one in findings.detections]


def _assert_expected(
    findings: Findings, expected: Sequence[tuple[str, float, list[float]]] = EXPECTED
) -> None:
    found = _found(findings)
    assert [label for label, _, _ in found] == [label for label, _, _ in expected]
    for (_, score, box), (_, wanted, where) in zip(found, expected, strict=True):
        assert score == pytest.approx(wanted)
        assert box == pytest.approx(where, abs=1e-3)


def _padded(values: NDArray[Any], junk: float, room: int = 10) -> NDArray[Any]:
    """(1, room, ...) with what was in the memory before behind the values."""
    padded = np.full((1, room, *values.shape[1:]), junk, values.dtype)
    padded[0, : len(values)] = values
    return padded


def _four(names: Sequence[str], count: Tensor | None = None, classes: str = "int32") -> Outputs:
    number = np.array([[3]], np.int32) if count is None else count
    tensors = (number, _padded(BOXES, 42), _padded(SCORES, 0.99), _padded(CLASSES.astype(classes), 0))
    return dict(zip(names, tensors, strict=True))


EFFICIENT = ("num_dets", "det_boxes", "det_scores", "det_classes")


@pytest.mark.parametrize(
    "outputs",
    [
        _four(EFFICIENT),
        _four(("num_detections", "detection_boxes", "detection_scores", "detection_classes")),
        _four(("num_predictions", "pred_boxes", "pred_scores", "pred_classes"), np.array([[3]]), "int64"),
        _four(("num_detections", "nmsed_boxes", "nmsed_scores", "nmsed_classes"), classes="float32"),
        _four(("graph2_1", "graph2_2", "graph2_3", "graph2_4"), np.array([[3]]), "int64"),
        dict(reversed(_four(EFFICIENT, np.array([3])).items())),
        {"labels": CLASSES[None], "dets": np.column_stack([BOXES, SCORES])[None]},
        {"boxes": np.column_stack([BOXES, SCORES]), "labels": CLASSES},
        {"boxes": BOXES, "labels": CLASSES, "scores": SCORES},
        {"scores": SCORES[:, None], "boxes": BOXES, "classes": CLASSES[:, None]},
    ],
    ids=[
        "efficientnms", "efficientnms-plugin", "super-gradients", "batchednms", "unnamed", "reversed",
        "mmdeploy", "geti", "torchvision", "columns",
    ],
)  # fmt: skip
def test_boxes_scores_and_classes_are_read_and_only_as_many_as_count(outputs: Outputs) -> None:
    _assert_expected(_decode(_card("nms"), outputs))


def test_no_box_that_counts_is_a_finding_of_nothing_whatever_lies_behind() -> None:
    findings = _decode(_card("nms"), _four(EFFICIENT, np.array([[0]], np.int32)))
    assert (_found(findings), findings.undefined, findings.nan_rows) == ([], None, 0)


def test_nan_behind_those_that_count_is_no_news_and_before_it_is() -> None:
    outputs = _four(EFFICIENT)
    outputs["det_scores"][0, 5] = math.nan
    assert _decode(_card("nms"), outputs).nan_rows == 0
    outputs["det_boxes"][0, 1, 2] = math.nan
    findings = _decode(_card("nms"), outputs)
    assert findings.nan_rows == 1
    _assert_expected(findings, [EXPECTED[0], EXPECTED[2]])
    outputs["det_boxes"][:] = math.nan
    assert _decode(_card("nms"), outputs).undefined == "nan"


@pytest.mark.parametrize("count", [11, -1, math.nan, 2.5])
def test_a_count_beyond_the_room_is_refused(count: float) -> None:
    with pytest.raises(ModelError, match="room for 10"):
        _decode(_card("nms"), _four(EFFICIENT, np.array([[count]], np.float32)))


def test_a_class_without_label_is_dropped_and_said() -> None:
    outputs = _four(EFFICIENT)
    outputs["det_classes"][0, 0] = 7
    findings = _decode(_card("nms"), outputs)
    _assert_expected(findings, EXPECTED[1:])
    assert findings.warnings == ("1 rows name classes (7) beyond the 3 labels",)


def test_a_background_class_shifts_the_labels_and_is_no_finding() -> None:
    outputs = {"boxes": BOXES, "labels": CLASSES + 1, "scores": SCORES}
    _assert_expected(_decode(_card("nms", background="first"), outputs))
    outputs["labels"] = np.array([0, 1, 2])
    findings = _decode(_card("nms", background="first"), outputs)
    assert [label for label, _, _ in _found(findings)] == ["cap", "tear"]
    assert findings.warnings == ()


def test_boxes_in_fractions_are_refused_and_not_found_in_one_pixel() -> None:
    outputs = {"boxes": BOXES / 200, "labels": CLASSES, "scores": SCORES}
    with pytest.raises(ModelError, match="in fractions of the picture"):
        _decode(_card("nms"), outputs)
    rows = np.column_stack([BOXES / 200, SCORES, CLASSES])[None].astype(np.float32)
    with pytest.raises(ModelError, match="in fractions of the picture"):
        _decode(_card("yolo-end2end"), {"output0": rows})


def test_boxes_in_pixels_are_refused_where_fractions_are_read() -> None:
    rows = np.zeros((1, 1, 3, 7), np.float32)
    rows[0, 0] = np.column_stack([[0, 0, 0], CLASSES + 1, SCORES, BOXES])
    with pytest.raises(ModelError, match="boxes in pixels"):
        _decode(_card("ssd", background="first"), {"detections": rows})


def test_an_empty_box_at_the_corner_is_no_box_in_fractions() -> None:
    rows = np.array([[[0, 0, 0, 0, 0.9, 1]]], np.float32)
    assert _found(_decode(_card("yolo-end2end"), {"output0": rows})) == []


def _rows(order: str, picture: Sequence[int] = (0, 0, 0)) -> Tensor:
    last = (CLASSES, SCORES) if order == "class, score" else (SCORES, CLASSES)
    return np.column_stack([picture, BOXES, *last]).astype(np.float32)


@pytest.mark.parametrize("name", ["output", "graph2_flat_predictions"])
def test_rows_of_picture_box_class_and_score_are_read_as_their_exporter_orders_them(name: str) -> None:
    rows = _rows("score, class" if name.startswith("graph") else "class, score")
    _assert_expected(_decode(_card("nms"), {name: rows}))
    _assert_expected(_decode(_card("nms"), {name: rows[None]}))


def test_rows_of_other_pictures_of_the_batch_are_not_ours() -> None:
    rows = _rows("class, score", (0, 1, 0))
    _assert_expected(_decode(_card("nms"), {"output": rows}), [EXPECTED[0], EXPECTED[2]])


def test_rows_that_are_not_finite_are_counted() -> None:
    rows = _rows("class, score")
    rows[1, 0] = math.nan
    findings = _decode(_card("nms"), {"output": rows})
    assert findings.nan_rows == 1
    _assert_expected(findings, [EXPECTED[0], EXPECTED[2]])


def test_no_rows_are_a_finding_of_nothing() -> None:
    assert _found(_decode(_card("nms"), {"output": np.zeros((0, 7), np.float32)})) == []


def test_what_nonmaxsuppression_selected_is_looked_up() -> None:
    boxes = np.tile(np.array([0, 0, 60, 60], np.float32), (1, 6, 1))
    scores = np.full((1, 3, 6), 0.95, np.float32)
    boxes[0, [4, 1, 3]] = BOXES
    scores[0, CLASSES, [4, 1, 3]] = SCORES
    indices = np.array([[0, 2, 4], [0, 0, 1], [0, 1, 3], [1, 0, 0], [-1, -1, -1]])
    findings = _decode(_card("nms"), {"selected": indices, "scores": scores, "boxes": boxes})
    _assert_expected(findings)
    assert findings.warnings == ()


def test_outputs_that_do_not_belong_together_are_refused() -> None:
    outputs = {"boxes": BOXES, "labels": CLASSES, "scores": SCORES[:2]}
    with pytest.raises(ModelError, match="row by row, it answered 3, 2, 3 rows"):
        _decode(_card("nms"), outputs)


# SSD


def _ssd(*, room: int = 8) -> Tensor:
    rows = np.zeros((1, 1, room, 7), np.float32)
    fractions = BOXES / [WIDTH, HEIGHT, WIDTH, HEIGHT]
    rows[0, 0, :3] = np.column_stack([[0, 0, 0], CLASSES + 1, SCORES, fractions])
    # the end, then what was in the memory before
    rows[0, 0, 3] = (-1, 0, 0, 0, 0, 0, 0)
    rows[0, 0, 4:] = (0, 1, 0.98, 0.1, 0.1, 0.9, 0.9)
    return rows


def test_ssd_rows_end_at_the_mark_and_their_first_class_is_background() -> None:
    _assert_expected(_decode(_card("ssd", background="first"), {"detection_out": _ssd()}))


def test_an_ssd_answer_that_ends_at_once_is_a_finding_of_nothing() -> None:
    rows = _ssd()
    rows[0, 0, 0, 0] = -1
    findings = _decode(_card("ssd", background="first"), {"detection_out": rows})
    assert (_found(findings), findings.undefined) == ([], None)


def test_ssd_without_a_mark_counts_every_row() -> None:
    rows = _ssd()[:, :, :3]
    _assert_expected(_decode(_card("ssd", background="first"), {"detection_out": rows}))


def test_an_ssd_row_of_background_is_no_finding() -> None:
    rows = _ssd()
    rows[0, 0, 0, 1] = 0
    findings = _decode(_card("ssd", background="first"), {"detection_out": rows})
    _assert_expected(findings, EXPECTED[1:])
    assert findings.warnings == ()


def test_ssd_classes_count_from_0_where_the_card_says_that_none_is_background() -> None:
    rows = _ssd()
    rows[0, 0, :3, 1] -= 1
    _assert_expected(_decode(_card("ssd"), {"detection_out": rows}))


# TensorFlow


def _tf(first: int, names: Sequence[str]) -> Outputs:
    fractions = (BOXES / [WIDTH, HEIGHT, WIDTH, HEIGHT])[:, [1, 0, 3, 2]].astype(np.float32)
    tensors = (
        _padded(fractions, 0.4), _padded((CLASSES + first).astype(np.float32), 1), _padded(SCORES, 0.99),
        np.array([3], np.float32),
    )  # fmt: skip
    return dict(zip(names, tensors, strict=True))


def test_tensorflow_boxes_have_y_first_in_fractions_and_classes_from_1() -> None:
    names = ("detection_boxes:0", "detection_classes:0", "detection_scores:0", "num_detections:0")
    outputs = _tf(1, names) | {"raw_detection_boxes": np.zeros((1, 1917, 4), np.float32)}
    _assert_expected(_decode(_card("tf-detection", background="first"), outputs))


def test_tflite_outputs_are_told_by_their_number_and_classes_count_from_0() -> None:
    name = "TFLite_Detection_PostProcess"
    outputs = _tf(0, (name, f"{name}:1", f"{name}:2", f"{name}:3"))
    _assert_expected(_decode(_card("tf-detection"), dict(reversed(outputs.items()))))


# RT-DETR


def test_rtdetr_as_it_exports_itself_answers_in_pixels_of_the_size_it_was_told() -> None:
    outputs = {"labels": CLASSES[None], "boxes": BOXES[None], "scores": SCORES[None]}
    _assert_expected(_decode(_card("rtdetr"), outputs))


def _queries(*columns: NDArray[Any]) -> Tensor:
    size = np.array([WIDTH, HEIGHT])
    middle, side = (BOXES[:, :2] + BOXES[:, 2:]) / 2 / size, (BOXES[:, 2:] - BOXES[:, :2]) / size
    return np.column_stack([middle, side, *columns])[None].astype(np.float32)


def test_rtdetr_rows_of_ultralytics_end_in_score_and_class_or_older_ones_in_a_score_a_class() -> None:
    _assert_expected(_decode(_card("rtdetr"), {"output0": _queries(SCORES, CLASSES)}))
    by_class = np.zeros((3, 3))
    by_class[np.arange(3), CLASSES] = SCORES
    _assert_expected(_decode(_card("rtdetr"), {"output0": _queries(by_class)}))


def test_rtdetr_rows_of_six_whose_last_is_no_class_are_refused() -> None:
    two = _queries(np.array([[0.9, 0.1], [0.2, 0.8], [0.7, 0.1]]))
    with pytest.raises(ModelError, match="no class numbers but scores"):
        _decode(_card("rtdetr", labels=("cap", "tear")), {"output0": two})
