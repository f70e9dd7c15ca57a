"""Every decoder against slow loops that read the head as its family documents it, and what no head may do."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edge_infer.decoders import DECODERS, Decoder
from edge_infer.errors import ModelError
from edge_infer.findings import Detections, Findings
from edge_infer.geometry import Transform, letterbox
from edge_infer.model.card import InputCard, ModelCard
from edge_infer.registry import resolve
from edge_infer.tensor import Tensor, TensorSpec

ROWS = ["yolov5", "yolov8", "yolo-end2end", "yolox", "yolox-raw"]
LABELS = ("cap", "tear", "foreign object")
SIZE = (96, 160)
FRAME = (501, 299)
CELLS = 12 * 20 + 6 * 10 + 3 * 5
TRANSFORM = letterbox(*FRAME, SIZE[1], SIZE[0], "center").transform((0, 0, *FRAME), *FRAME)

Found = tuple[str, float, list[float]]
Rows = NDArray[np.float32]


def _card(decoder: str, labels: Sequence[str] = LABELS, **changes: Any) -> ModelCard:
    card = ModelCard("test", Path("test.onnx"), "0", "detect", decoder, tuple(labels), InputCard(SIZE))
    return replace(card, **changes)


def _decoder(card: ModelCard, *shapes: tuple[int | None, ...]) -> Decoder:
    outputs = tuple(TensorSpec(f"output{index}", shape, "float32") for index, shape in enumerate(shapes))
    decoder: Decoder = resolve(DECODERS, card.decoder)(card, outputs)
    return decoder


def _decode(card: ModelCard, tensor: Tensor) -> Findings:
    return _decoder(card, tensor.shape).decode({"output0": tensor}, TRANSFORM)


def _detections(findings: Findings) -> Detections:
    assert findings.detections is not None
    return findings.detections


# slow readings of one row: centre, size and class scores, in network pixels


def _read_v8(row: list[float], _: int) -> tuple[list[float], list[float]]:
    return row[:4], row[4:]


def _read_v5(row: list[float], _: int) -> tuple[list[float], list[float]]:
    return row[:4], [row[4] * score for score in row[5:]]


def _read_yolox_raw(row: list[float], index: int) -> tuple[list[float], list[float]]:
    for stride in (8, 16, 32):
        columns, lines = SIZE[1] // stride, SIZE[0] // stride
        if index < columns * lines:
            break
        index -= columns * lines
    x, y, w, h = row[:4]
    box = [
        (x + index % columns) * stride,
        (y + index // columns) * stride,
        math.exp(w) * stride,
        math.exp(h) * stride,
    ]
    return box, [row[4] * score for score in row[5:]]


_READ = {"yolov8": _read_v8, "yolov5": _read_v5, "yolox": _read_v5, "yolox-raw": _read_yolox_raw}


def _overlap(a: list[float], b: list[float]) -> float:
    width, height = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    both = max(width, 0) * max(height, 0)
    return both / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - both)


def _in_frame(box: list[float], transform: Transform = TRANSFORM) -> list[float]:
    width, height = FRAME
    x = [min(max((side - transform.shift_x) / transform.scale_x, 0), width) for side in box[::2]]
    y = [min(max((side - transform.shift_y) / transform.scale_y, 0), height) for side in box[1::2]]
    return [x[0], y[0], x[1], y[1]]


def _slowly(card: ModelCard, rows: Rows) -> list[Found]:
    found = []
    for index, row in enumerate(rows.tolist()):
        (x, y, w, h), scores = _READ[card.decoder](row, index)
        best = max(range(len(scores)), key=scores.__getitem__)
        if scores[best] >= card.score_threshold:
            found.append((scores[best], best, [x - w / 2, y - h / 2, x + w / 2, y + h / 2]))
    found.sort(key=lambda one: -one[0])
    kept: list[tuple[float, int, list[float]]] = []
    for one in found:
        if all(other[1] != one[1] or _overlap(other[2], one[2]) <= card.nms_iou for other in kept):
            kept.append(one)
    framed = [(card.labels[best], score, _in_frame(box)) for score, best, box in kept[: card.max_detections]]
    return [one for one in framed if one[2][2] > one[2][0] and one[2][3] > one[2][1]]


def _some_rows(seed: int, decoder: str, count: int = CELLS, classes: int = 3) -> Rows:
    """A noisy head: most rows see nothing, some crowds of rows see the same object."""
    draw = np.random.default_rng(seed)
    before = 4 if decoder == "yolov8" else 5
    rows = np.empty((count, before + classes), np.float32)
    if decoder == "yolox-raw":
        rows[:, :4] = draw.normal(0, 1, (count, 4))
        rows[:, 2:4] *= 0.5
    else:
        rows[:, :2] = draw.uniform((-5, -5), (SIZE[1] + 5, SIZE[0] + 5), (count, 2))
        rows[:, 2:4] = draw.uniform(4, 60, (count, 2))
        for crowd in range(8):
            members = slice(20 * crowd, 20 * crowd + 12)
            rows[members, :4] = rows[20 * crowd, :4] + draw.normal(0, 1.5, (12, 4))
            rows[members, 2:4] = np.abs(rows[members, 2:4]) + 1
    rows[:, 4:] = draw.uniform(0, 0.5 if decoder == "yolov8" else 1, (count, before + classes - 4)) ** 2
    rows[draw.integers(0, count, 40), 4 + draw.integers(0, before + classes - 4, 40)] = draw.uniform(
        0.5, 1, 40
    )
    return rows


def _assert_same(findings: Findings, expected: list[Found], atol: float = 2e-3) -> None:
    detections = _detections(findings)
    assert [one.label for one in detections] == [label for label, _, _ in expected]
    np.testing.assert_allclose(detections.scores, [score for _, score, _ in expected], rtol=1e-5)
    np.testing.assert_allclose(
        detections.boxes.reshape(-1, 4), [box for *_, box in expected], atol=atol, rtol=1e-5
    )
    assert all(
        detections.labels[i] == LABELS[class_id] for i, class_id in enumerate(detections.class_ids.tolist())
    )


@pytest.mark.parametrize("decoder", ["yolov8", "yolov5", "yolox", "yolox-raw"])
def test_a_head_is_read_as_slow_loops_read_it(decoder: str) -> None:
    seen = 0
    for seed in range(8):
        card = _card(decoder, score_threshold=0.2 + 0.02 * seed, nms_iou=0.3 + 0.05 * seed)
        rows = _some_rows(seed, decoder)
        tensor = np.ascontiguousarray(rows.T)[None] if decoder == "yolov8" else rows[None]
        before = tensor.copy()
        expected = _slowly(card, rows)
        seen += len(expected)
        _assert_same(_decode(card, tensor), expected)
        np.testing.assert_array_equal(tensor, before)
    assert seen > 80


@pytest.mark.parametrize("decoder", ["yolov8", "yolov5"])
def test_a_head_is_read_in_either_layout(decoder: str) -> None:
    rows = _some_rows(3, decoder)
    expected = _slowly(_card(decoder), rows)
    for tensor in (rows[None], np.ascontiguousarray(rows.T)[None]):
        _assert_same(_decode(_card(decoder), tensor), expected)


def test_free_sizes_are_settled_by_what_the_network_answers() -> None:
    rows = _some_rows(4, "yolov8")
    decoder = _decoder(_card("yolov8"), (1, None, None))
    for tensor in (rows[None], np.ascontiguousarray(rows.T)[None]):
        _assert_same(decoder.decode({"output0": tensor}, TRANSFORM), _slowly(_card("yolov8"), rows))
    with pytest.raises(ModelError, match="1x9x315"):
        decoder.decode({"output0": np.zeros((1, 9, CELLS), np.float32)}, TRANSFORM)


def _end_to_end(*rows: tuple[float, ...]) -> Tensor:
    return np.array([rows], np.float32)


def test_end_to_end_rows_are_corners_score_and_class() -> None:
    tensor = _end_to_end(
        (10, 20, 50, 60, 0.9, 2), (10, 20, 50, 60, 0.3, 0), (11, 20, 50, 60, 0.8, 2), (1, 2, 3, 4, 0.2, 1)
    )
    card = _card("yolo-end2end")
    expected: list[Found] = [
        ("foreign object", 0.9, _in_frame([10, 20, 50, 60])),
        ("foreign object", 0.8, _in_frame([11, 20, 50, 60])),
        ("cap", 0.3, _in_frame([10, 20, 50, 60])),
    ]
    _assert_same(_decode(card, tensor), expected)


def test_an_end_to_end_row_of_a_class_without_label_is_dropped_and_said() -> None:
    tensor = _end_to_end(
        (10, 20, 50, 60, 0.9, 3),
        (10, 20, 50, 60, 0.8, -1),
        (10, 20, 50, 60, 0.7, 0.5),
        (10, 20, 50, 60, 0.6, 1),
    )
    findings = _decode(_card("yolo-end2end"), tensor)
    assert _detections(findings).labels == ("tear",)
    assert findings.warnings == ("3 rows name classes (-1, 0.5, 3) beyond the 3 labels",)
    assert findings.undefined is None


@pytest.mark.parametrize("decoder", ROWS)
def test_float16_answers_give_float32_findings(decoder: str) -> None:
    rows = (
        np.array([[10, 20, 50, 60, 0.9, 2], [11, 20, 50, 60, 0.7, 1]], np.float32)
        if decoder == "yolo-end2end"
        else _some_rows(5, decoder)
    )
    half = rows.astype(np.float16)[None]
    if decoder == "yolov8":
        half = np.ascontiguousarray(half.transpose(0, 2, 1))
    card = _card(decoder)
    detections, same = _detections(_decode(card, half)), _detections(_decode(card, half.astype(np.float32)))
    assert len(detections) > 0
    assert {detections.boxes.dtype, detections.scores.dtype} == {np.dtype(np.float32)}
    np.testing.assert_array_equal(detections.boxes, same.boxes)
    np.testing.assert_array_equal(detections.scores, same.scores)


def _sure_rows(decoder: str) -> Rows:
    """Four objects that do not overlap, then rows that see nothing."""
    count = 8 if decoder != "yolox-raw" else CELLS
    rows = np.zeros((count, {"yolov8": 7, "yolo-end2end": 6}.get(decoder, 8)), np.float32)
    for index in range(4):
        x = 20 + 35 * index
        if decoder == "yolo-end2end":
            rows[index] = (x - 10, 40, x + 10, 60, 0.9 - 0.1 * index, index % 3)
        elif decoder == "yolox-raw":
            rows[index, :4] = (4 * index, 5, 0.5, 0.5)
        else:
            rows[index, :4] = (x, 50, 20, 20)
        if decoder == "yolov8":
            rows[index, 4 + index % 3] = 0.9 - 0.1 * index
        elif decoder != "yolo-end2end":
            rows[index, 4] = 1
            rows[index, 5 + index % 3] = 0.9 - 0.1 * index
    return rows


def _as_tensor(decoder: str, rows: Rows) -> Tensor:
    return np.ascontiguousarray(rows.T)[None] if decoder == "yolov8" else rows[None].copy()


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("decoder", ROWS)
def test_a_row_that_is_not_finite_is_dropped_and_counted(decoder: str, bad: float) -> None:
    rows = _sure_rows(decoder)
    whole = _detections(_decode(_card(decoder), _as_tensor(decoder, rows)))
    assert len(whole) == 4
    for column in range(rows.shape[1]):
        broken = rows.copy()
        broken[1, column] = bad
        broken[6, column] = bad
        findings = _decode(_card(decoder), _as_tensor(decoder, broken))
        detections = _detections(findings)
        assert findings.nan_rows == 2
        assert findings.undefined is None
        assert f"2 of {len(rows)} rows" in findings.warnings[0]
        np.testing.assert_array_equal(detections.boxes, whole.boxes[[0, 2, 3]])
        np.testing.assert_array_equal(detections.scores, whole.scores[[0, 2, 3]])


@pytest.mark.parametrize("decoder", ROWS)
def test_an_answer_of_nothing_but_nan_is_undefined(decoder: str) -> None:
    rows = _sure_rows(decoder)
    score = 4
    for columns in (slice(None), slice(score, score + 1)):
        broken = rows.copy()
        broken[:, columns] = math.nan
        findings = _decode(_card(decoder), _as_tensor(decoder, broken))
        assert findings.undefined == "nan"
        assert findings.nan_rows == len(rows)
        assert len(_detections(findings)) == 0
        assert "not finite" in findings.warnings[0]


def test_a_yolox_size_that_overflows_counts_as_not_finite() -> None:
    rows = _sure_rows("yolox-raw")
    rows[0, 2] = 200
    findings = _decode(_card("yolox-raw"), rows[None])
    assert findings.nan_rows == 1
    assert len(_detections(findings)) == 3


@pytest.mark.parametrize("decoder", ROWS)
def test_finite_boxes_of_any_size_end_at_the_frame(decoder: str) -> None:
    rows = _sure_rows(decoder)
    rows[0, :4] = (-3e38, -3e38, 3e38, 3e38) if decoder == "yolo-end2end" else (80, 48, 80, 80)
    if decoder not in ("yolo-end2end", "yolox-raw"):
        rows[0, 2:4] = 3e38
    boxes = _detections(_decode(_card(decoder), _as_tensor(decoder, rows))).boxes
    assert boxes[0].tolist() == [0, 0, *FRAME]


@pytest.mark.parametrize("decoder", ROWS)
def test_a_box_that_lies_wholly_in_the_padding_is_no_object(decoder: str) -> None:
    rows = _sure_rows(decoder)
    if decoder == "yolo-end2end":
        rows[0, :4] = (10, -40, 30, -5)
    else:
        rows[0, :4] = (20, -30, 20, 20) if decoder != "yolox-raw" else (2, -30, 0, 0)
    detections = _detections(_decode(_card(decoder), _as_tensor(decoder, rows)))
    assert len(detections) == 3
    assert detections.scores[0] == pytest.approx(0.8)


@pytest.mark.parametrize("decoder", ROWS)
def test_a_score_that_is_no_probability_is_refused(decoder: str) -> None:
    rows = _sure_rows(decoder)
    rows[0, 4] = 3.2
    with pytest.raises(ModelError, match="no probability"):
        _decode(_card(decoder), _as_tensor(decoder, rows))


@pytest.mark.parametrize("column", [4, 5])
@pytest.mark.parametrize("decoder", ROWS)
def test_logits_of_which_none_is_above_one_are_refused_too(decoder: str, column: int) -> None:
    rows = _sure_rows(decoder)
    if decoder == "yolo-end2end":
        rows[5, 4] = -4.2
    elif column == 4 and decoder != "yolov8":
        rows[5:, 4] = -4.2
    else:
        rows[1 if decoder != "yolov8" else 5, column - (decoder == "yolov8") :] = -4.2
    with pytest.raises(ModelError, match=r"-4.2, which is no probability"):
        _decode(_card(decoder), _as_tensor(decoder, rows))


def test_rows_that_an_exporter_filled_up_with_minus_one_are_no_logits() -> None:
    rows = _sure_rows("yolo-end2end")
    rows[5:] = -1
    assert len(_detections(_decode(_card("yolo-end2end"), rows[None]))) == 4


@pytest.mark.parametrize("decoder", ["yolov8", "yolov5", "yolox", "yolo-end2end"])
def test_boxes_in_fractions_are_refused_and_not_found_in_one_pixel(decoder: str) -> None:
    rows = _sure_rows(decoder)
    rows[:, :4] /= (SIZE[1], SIZE[0], SIZE[1], SIZE[0])
    with pytest.raises(ModelError, match="in fractions of the picture"):
        _decode(_card(decoder), _as_tensor(decoder, rows))


@pytest.mark.parametrize("decoder", ["yolov8", "yolov5", "yolox", "yolo-end2end"])
def test_a_tiny_box_beside_others_or_elsewhere_is_no_fraction(decoder: str) -> None:
    rows = _sure_rows(decoder)
    rows[3, :4] = (0.2, 0.2, 0.9, 0.9)
    assert len(_detections(_decode(_card(decoder), _as_tensor(decoder, rows)))) == 4
    rows[:3] = 0
    rows[3, :4] = (40.1, 40.1, 40.9, 40.9) if decoder == "yolo-end2end" else (40.5, 40.5, 0.8, 0.8)
    assert len(_detections(_decode(_card(decoder), _as_tensor(decoder, rows)))) == 1


def test_a_tiny_box_that_was_worked_out_from_a_grid_is_no_fraction() -> None:
    rows = _sure_rows("yolox-raw")
    rows[1:4] = 0
    rows[0, :4] = (0.06, 0.06, -2.5, -2.5)
    assert len(_detections(_decode(_card("yolox-raw"), rows[None]))) == 1


def test_yolox_grids_are_those_of_the_part_that_a_centre_crop_leaves() -> None:
    tensor = _sure_rows("yolox-raw")[None]
    cut = InputCard((128, 192), resize="center_crop", crop=SIZE)
    plain, cropped = (
        _detections(_decode(_card("yolox-raw", input=each), tensor)) for each in (InputCard(SIZE), cut)
    )
    np.testing.assert_array_equal(cropped.boxes, plain.boxes)


@pytest.mark.parametrize("decoder", ROWS)
def test_a_quantised_score_just_above_one_is_one(decoder: str) -> None:
    rows = _sure_rows(decoder)
    rows[0, 4:] = (1.003, 0) if decoder == "yolo-end2end" else (1.003, *[1.0, 0, 0][: rows.shape[1] - 5])
    assert _detections(_decode(_card(decoder), _as_tensor(decoder, rows))).scores[0] == 1


@pytest.mark.parametrize("decoder", ROWS)
def test_a_score_at_the_threshold_is_above_it(decoder: str) -> None:
    # as min_score of a rule
    rows = _sure_rows(decoder)
    rows[rows > 0.85] = np.where(rows[rows > 0.85] == np.float32(0.9), np.float32(0.5), rows[rows > 0.85])
    tensor = _as_tensor(decoder, rows)
    assert len(_detections(_decode(_card(decoder, score_threshold=0.5), tensor))) == 4
    assert len(_detections(_decode(_card(decoder, score_threshold=0.5001), tensor))) == 3


@pytest.mark.parametrize("decoder", ROWS)
def test_only_the_best_are_kept_best_first(decoder: str) -> None:
    tensor = _as_tensor(
        decoder, _sure_rows(decoder)[::-1].copy() if decoder != "yolox-raw" else _sure_rows(decoder)
    )
    detections = _detections(_decode(_card(decoder, max_detections=2), tensor))
    np.testing.assert_allclose(detections.scores, [0.9, 0.8])
    assert detections.labels == ("cap", "tear")


@pytest.mark.parametrize("decoder", ["yolov8", "yolov5", "yolox", "yolox-raw"])
def test_a_head_with_other_classes_than_labels_is_refused_with_both_numbers(decoder: str) -> None:
    before = 4 if decoder == "yolov8" else 5
    shape = (1, before + 3, CELLS) if decoder == "yolov8" else (1, CELLS, before + 3)
    for labels in (("a", "b"), ("a", "b", "c", "d", "e")):
        with pytest.raises(ModelError, match=rf"3 classes, the card names {len(labels)} labels"):
            _decoder(_card(decoder, labels), shape)


def test_a_raw_head_of_two_classes_is_not_read_as_end_to_end_rows() -> None:
    with pytest.raises(ModelError, match="1x6x8400"):
        _decoder(_card("yolo-end2end", ("a", "b")), (1, 6, 8400))


def test_the_output_with_the_rows_is_found_among_others() -> None:
    rows = _some_rows(1, "yolov5")
    decoder = _decoder(_card("yolov5"), (1, 3, 12, 20, 8), rows[None].shape, (1, 3, 6, 10, 8))
    _assert_same(decoder.decode({"output1": rows[None]}, TRANSFORM), _slowly(_card("yolov5"), rows))
    with pytest.raises(ModelError, match="2 of the network's fit"):
        _decoder(_card("yolov5"), rows[None].shape, rows[None].shape)


def test_yolox_grids_that_do_not_fit_the_input_are_refused_with_both_numbers() -> None:
    with pytest.raises(ModelError, match=f"3549 rows.*{CELLS}"):
        _decoder(_card("yolox-raw"), (1, 3549, 8))
    decoder = _decoder(_card("yolox-raw"), (1, None, 8))
    with pytest.raises(ModelError, match=f"3549 rows.*{CELLS}"):
        decoder.decode({"output0": np.zeros((1, 3549, 8), np.float32)}, TRANSFORM)


@pytest.mark.parametrize("decoder", ["yolov8", "yolov5", "yolox", "yolo-end2end"])
def test_an_answer_without_rows_is_a_finding_of_nothing(decoder: str) -> None:
    rows = _sure_rows(decoder)[:0]
    for dtype in (np.float32, np.float16):
        findings = _decode(_card(decoder), _as_tensor(decoder, rows).astype(dtype))
        assert (len(_detections(findings)), findings.nan_rows, findings.undefined) == (0, 0, None)


@pytest.mark.parametrize("decoder", ROWS)
def test_of_a_batch_the_first_picture_is_ours(decoder: str) -> None:
    rows = _sure_rows(decoder)
    one = _as_tensor(decoder, rows)
    both = np.concatenate([one, np.zeros_like(one)])
    np.testing.assert_array_equal(
        _detections(_decode(_card(decoder), both)).boxes, _detections(_decode(_card(decoder), one)).boxes
    )


def test_the_best_candidates_survive_a_threshold_of_nothing() -> None:
    rows = _some_rows(2, "yolov8", 5000)
    card = _card("yolov8", score_threshold=0.0)
    detections = _detections(_decode(card, np.ascontiguousarray(rows.T)[None]))
    assert detections.scores[0] == rows[:, 4:].max()
    assert len(detections) <= card.max_detections
