"""Heads of several outputs against slow loops that read them as each family documents it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edge_infer.decoders import DECODERS, Decoder
from edge_infer.errors import ModelError
from edge_infer.findings import Findings
from edge_infer.geometry import Transform, stretch
from edge_infer.model.card import InputCard, ModelCard
from edge_infer.registry import resolve
from edge_infer.tensor import Tensor, TensorSpec

LABELS = ("cap", "tear", "foreign object")
HEIGHT, WIDTH = 96, 160
FRAME = (501, 299)
TRANSFORM = stretch(WIDTH, HEIGHT).transform((0, 0, *FRAME), *FRAME)
ANCHORS = ((10.0, 13.0, 16.0, 30.0), (30.0, 61.0, 62.0, 45.0), (116.0, 90.0, 156.0, 198.0))

Outputs = dict[str, Tensor]
Raw = tuple[float, int, list[float]]
"""Score, class among the labels, x1, y1, x2, y2 in network pixels."""


def _card(decoder: str, labels: Sequence[str] = LABELS, **changes: Any) -> ModelCard:
    card = ModelCard(
        "test", Path("test.onnx"), "0", "detect", decoder, tuple(labels), InputCard((HEIGHT, WIDTH))
    )
    return replace(card, **changes)


def _decoder(card: ModelCard, outputs: Outputs) -> Decoder:
    specs = tuple(TensorSpec(name, tensor.shape, tensor.dtype.name) for name, tensor in outputs.items())
    decoder: Decoder = resolve(DECODERS, card.decoder)(card, specs)
    return decoder


def _decode(card: ModelCard, outputs: Outputs) -> Findings:
    return _decoder(card, outputs).decode(outputs, TRANSFORM)


def _found(card: ModelCard, outputs: Outputs) -> list[tuple[str, float, list[float]]]:
    detections = _decode(card, outputs).detections
    assert detections is not None
    return [(one.label, one.score, list(one.box)) for one in detections]


# what the families document, one row after the other


def _sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def _softmax(logits: Sequence[float]) -> list[float]:
    raised = [math.exp(one - max(logits)) for one in logits]
    return [one / sum(raised) for one in raised]


def _best(scores: Sequence[float]) -> tuple[float, int]:
    best = max(range(len(scores)), key=scores.__getitem__)
    return scores[best], best


def _middle(x: float, y: float, w: float, h: float) -> list[float]:
    return [x - w / 2, y - h / 2, x + w / 2, y + h / 2]


def _slow_yolov5_raw(_: ModelCard, outputs: Outputs) -> list[Raw]:
    found = []
    for stride, anchors in zip((8, 16, 32), ANCHORS, strict=True):
        (grid,) = [one[0] for one in outputs.values() if one.shape[2] == HEIGHT // stride]
        for anchor in range(2):
            for y in range(grid.shape[1]):
                for x in range(grid.shape[2]):
                    t = [_sigmoid(float(one)) for one in grid[anchor, y, x]]
                    score, best = _best([t[4] * one for one in t[5:]])
                    box = _middle(
                        (2 * t[0] - 0.5 + x) * stride,
                        (2 * t[1] - 0.5 + y) * stride,
                        (2 * t[2]) ** 2 * anchors[2 * anchor],
                        (2 * t[3]) ** 2 * anchors[2 * anchor + 1],
                    )
                    found.append((score, best, box))
    return found


def _slow_yolo_nas(_: ModelCard, outputs: Outputs) -> list[Raw]:
    rows = zip(outputs["boxes"][0].tolist(), outputs["scores"][0].tolist(), strict=True)
    return [(*_best(scores), box) for box, scores in rows]


def _slow_queries(
    outputs: Outputs, boxes: str, logits: str, read: Callable[[list[float]], list[float]]
) -> list[Raw]:
    found = []
    for (x, y, w, h), row in zip(outputs[boxes][0].tolist(), outputs[logits][0].tolist(), strict=True):
        box = _middle(x * WIDTH, y * HEIGHT, w * WIDTH, h * HEIGHT)
        found.append((*_best(read(row)), box))
    return found


def _slow_detr(_: ModelCard, outputs: Outputs) -> list[Raw]:
    return _slow_queries(outputs, "pred_boxes", "logits", lambda row: _softmax(row)[:-1])


def _slow_rfdetr(_: ModelCard, outputs: Outputs) -> list[Raw]:
    return _slow_queries(outputs, "dets", "labels", lambda row: [_sigmoid(one) for one in row[:-1]])


def _slow_rtdetr(_: ModelCard, outputs: Outputs) -> list[Raw]:
    return _slow_queries(outputs, "pred_boxes", "logits", lambda row: [_sigmoid(one) for one in row])


def _slow_fastestdet(_: ModelCard, outputs: Outputs) -> list[Raw]:
    grid = outputs["758"][0].astype(float)
    _, lines, columns = grid.shape
    found = []
    for y in range(lines):
        for x in range(columns):
            cell = grid[:, y, x].tolist()
            box = _middle(
                (x + math.tanh(cell[1])) / columns * WIDTH,
                (y + math.tanh(cell[2])) / lines * HEIGHT,
                _sigmoid(cell[3]) * WIDTH,
                _sigmoid(cell[4]) * HEIGHT,
            )
            found.append((*_best([cell[0] * one for one in cell[5:]]), box))
    return found


def _sides(spread: Sequence[float]) -> float:
    return sum(distance * share for distance, share in enumerate(_softmax(spread)))


def _slow_nanodet(_: ModelCard, outputs: Outputs) -> list[Raw]:
    found = []
    for stride in (8, 16, 32):
        scores, sides = outputs[f"cls_pred_stride_{stride}"][0], outputs[f"dis_pred_stride_{stride}"][0]
        for row in range(len(scores)):
            y, x = divmod(row, WIDTH // stride)
            middle = [x * stride + (stride - 1) / 2, y * stride + (stride - 1) / 2]
            left, top, right, bottom = (
                _sides(sides[row, 8 * side : 8 * side + 8].tolist()) * stride for side in range(4)
            )
            box = [middle[0] - left, middle[1] - top, middle[0] + right, middle[1] + bottom]
            found.append((*_best(scores[row].tolist()), box))
    return found


def _slow_yunet(_: ModelCard, outputs: Outputs) -> list[Raw]:
    found = []
    for stride in (8, 16, 32):
        for row in range(outputs[f"cls_{stride}"].shape[1]):
            y, x = divmod(row, WIDTH // stride)
            score = math.sqrt(outputs[f"cls_{stride}"][0, row, 0] * outputs[f"obj_{stride}"][0, row, 0])
            a, b, c, d = outputs[f"bbox_{stride}"][0, row].tolist()
            box = _middle((x + a) * stride, (y + b) * stride, math.exp(c) * stride, math.exp(d) * stride)
            found.append((score, 0, box))
    return found


def _slow_ultraface(_: ModelCard, outputs: Outputs) -> list[Raw]:
    rows = zip(outputs["boxes"][0].tolist(), outputs["scores"][0].tolist(), strict=True)
    return [(scores[1], 0, [a * WIDTH, b * HEIGHT, c * WIDTH, d * HEIGHT]) for (a, b, c, d), scores in rows]


# noisy answers: most rows see nothing


def _draw_grids(draw: np.random.Generator, strides: Sequence[int] = (32, 8, 16)) -> Outputs:
    outputs = {}
    for stride in strides:
        grid = draw.normal(0, 1.5, (1, 2, HEIGHT // stride, WIDTH // stride, 8)).astype(np.float32)
        grid[..., 4] -= 2
        outputs[f"grid{stride}"] = grid
    return outputs


def _corners(draw: np.random.Generator, rows: int, width: float, height: float) -> Tensor:
    boxes = draw.uniform(0, 1, (1, rows, 4)).astype(np.float32)
    boxes[..., 2:] = boxes[..., :2] + 0.1 + boxes[..., 2:] * 0.3
    crowd = boxes[:, :10] + draw.normal(0, 0.02, (1, 10, 4))
    boxes[:, 10:20] = np.concatenate([crowd[..., :2], np.maximum(crowd[..., 2:], crowd[..., :2] + 0.01)], -1)
    return boxes * np.array([width, height, width, height], np.float32)


def _draw_yolo_nas(draw: np.random.Generator) -> Outputs:
    scores = draw.uniform(0, 0.8, (1, 315, 3)).astype(np.float32) ** 2
    return {"scores": scores, "boxes": _corners(draw, 315, WIDTH, HEIGHT)}


def _draw_queries(draw: np.random.Generator, boxes: str, logits: str, columns: int) -> Outputs:
    values = draw.normal(-2, 2, (1, 100, columns)).astype(np.float32)
    places = draw.uniform(0.1, 0.9, (1, 100, 4)).astype(np.float32)
    return {logits: values, boxes: places}


def _draw_fastestdet(draw: np.random.Generator) -> Outputs:
    grid = draw.normal(0, 1, (1, 8, HEIGHT // 16, WIDTH // 16)).astype(np.float32)
    grid[:, [0, 5, 6, 7]] = draw.uniform(0, 1, (1, 4, HEIGHT // 16, WIDTH // 16))
    return {"758": grid}


def _draw_nanodet(draw: np.random.Generator) -> Outputs:
    outputs = {}
    for stride in (8, 16, 32):
        cells = HEIGHT // stride * (WIDTH // stride)
        outputs[f"dis_pred_stride_{stride}"] = draw.normal(0, 2, (1, cells, 32)).astype(np.float32)
        outputs[f"cls_pred_stride_{stride}"] = draw.uniform(0, 0.7, (1, cells, 3)).astype(np.float32) ** 2
    return outputs


def _draw_yunet(draw: np.random.Generator) -> Outputs:
    outputs: Outputs = {}
    for kind, columns in (("cls", 1), ("obj", 1), ("bbox", 4), ("kps", 10)):
        for stride in (8, 16, 32):
            cells = HEIGHT // stride * (WIDTH // stride)
            low = 0 if columns == 1 else -1
            outputs[f"{kind}_{stride}"] = draw.uniform(low, 0.9, (1, cells, columns)).astype(np.float32)
    return outputs


def _draw_ultraface(draw: np.random.Generator) -> Outputs:
    face = draw.uniform(0, 1, (1, 60, 1)).astype(np.float32) ** 3
    return {"scores": np.concatenate([1 - face, face], -1), "boxes": _corners(draw, 60, 1, 1)}


@dataclass(frozen=True, slots=True)
class Family:
    """One head, its noise and its documentation in loops."""

    card: ModelCard
    draw: Callable[[np.random.Generator], Outputs]
    slow: Callable[[ModelCard, Outputs], list[Raw]]
    suppress: bool = True


FACE = ("face",)
FAMILIES = {
    "yolov5-raw": Family(_card("yolov5-raw", anchors=ANCHORS), _draw_grids, _slow_yolov5_raw),
    "yolo-nas": Family(_card("yolo-nas"), _draw_yolo_nas, _slow_yolo_nas),
    "detr": Family(
        _card("detr", background="last"),
        lambda draw: _draw_queries(draw, "pred_boxes", "logits", 4), _slow_detr, suppress=False,
    ),
    "rtdetr": Family(
        _card("rtdetr"),
        lambda draw: _draw_queries(draw, "pred_boxes", "logits", 3), _slow_rtdetr, suppress=False,
    ),
    "rfdetr": Family(
        _card("rfdetr", background="last"),
        lambda draw: _draw_queries(draw, "dets", "labels", 4), _slow_rfdetr, suppress=False,
    ),
    "nanodet": Family(_card("nanodet"), _draw_nanodet, _slow_nanodet),
    "fastestdet": Family(_card("fastestdet"), _draw_fastestdet, _slow_fastestdet),
    "yunet": Family(_card("yunet", FACE), _draw_yunet, _slow_yunet),
    "ultraface": Family(_card("ultraface", FACE, background="first"), _draw_ultraface, _slow_ultraface),
}  # fmt: skip


def _overlap(a: list[float], b: list[float]) -> float:
    width, height = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    both = max(width, 0) * max(height, 0)
    return both / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - both)


def _in_frame(box: list[float], transform: Transform = TRANSFORM) -> list[float]:
    width, height = FRAME
    x = [min(max((side - transform.shift_x) / transform.scale_x, 0), width) for side in box[::2]]
    y = [min(max((side - transform.shift_y) / transform.scale_y, 0), height) for side in box[1::2]]
    return [x[0], y[0], x[1], y[1]]


def _expected(family: Family, card: ModelCard, outputs: Outputs) -> list[tuple[str, float, list[float]]]:
    rows = [row for row in family.slow(card, outputs) if row[0] >= card.score_threshold]
    rows.sort(key=lambda row: -row[0])
    kept: list[Raw] = []
    for row in rows:
        if not family.suppress or all(
            other[1] != row[1] or _overlap(other[2], row[2]) <= card.nms_iou for other in kept
        ):
            kept.append(row)
    framed = [(card.labels[best], score, _in_frame(box)) for score, best, box in kept]
    return [one for one in framed if one[2][2] > one[2][0] and one[2][3] > one[2][1]]


def _assert_same(
    found: list[tuple[str, float, list[float]]], expected: list[tuple[str, float, list[float]]]
) -> None:
    assert [label for label, _, _ in found] == [label for label, _, _ in expected]
    np.testing.assert_allclose([one[1] for one in found], [one[1] for one in expected], rtol=1e-4)
    boxes = np.array([one[2] for one in found]).reshape(-1, 4)
    np.testing.assert_allclose(boxes, np.array([one[2] for one in expected]).reshape(-1, 4), atol=5e-3)


@pytest.mark.parametrize("name", list(FAMILIES))
def test_a_head_is_read_as_slow_loops_read_it(name: str) -> None:
    family, seen = FAMILIES[name], 0
    for seed in range(6):
        card = replace(family.card, score_threshold=0.2 + 0.03 * seed, nms_iou=0.3 + 0.05 * seed)
        outputs = family.draw(np.random.default_rng(seed))
        before = {key: tensor.copy() for key, tensor in outputs.items()}
        expected = _expected(family, card, outputs)
        seen += len(expected)
        _assert_same(_found(card, outputs), expected)
        assert all((outputs[key] == before[key]).all() for key in before)
    assert seen > 20


@pytest.mark.parametrize("name", list(FAMILIES))
def test_the_order_of_the_outputs_changes_nothing(name: str) -> None:
    family = FAMILIES[name]
    outputs = family.draw(np.random.default_rng(1))
    turned = dict(reversed(outputs.items()))
    assert _found(family.card, turned) == _found(family.card, outputs)


@pytest.mark.parametrize("name", list(FAMILIES))
def test_of_a_batch_the_first_picture_is_ours(name: str) -> None:
    family = FAMILIES[name]
    outputs = family.draw(np.random.default_rng(2))
    other = family.draw(np.random.default_rng(3))
    both = {key: np.concatenate([tensor, other[key]]) for key, tensor in outputs.items()}
    assert _found(family.card, both) == _found(family.card, outputs)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("name", list(FAMILIES))
def test_a_row_that_is_not_finite_is_dropped_and_counted(name: str, bad: float) -> None:
    family = FAMILIES[name]
    outputs = family.draw(np.random.default_rng(4))
    whole = _found(family.card, outputs)
    for key, tensor in outputs.items():
        if key.startswith("kps"):
            continue
        broken = dict(outputs) | {key: tensor.copy()}
        # the first cell of the first row
        broken[key].reshape(-1)[0] = bad
        findings = _decode(family.card, broken)
        assert findings.nan_rows == 1
        assert findings.undefined is None
        assert "not finite" in findings.warnings[0]
        found = _found(family.card, broken)
        # a box that the broken row suppressed may come back
        assert len(whole) - 1 <= len(found) <= len(whole) + 1


@pytest.mark.parametrize("name", list(FAMILIES))
def test_an_answer_of_nothing_but_nan_is_undefined(name: str) -> None:
    family = FAMILIES[name]
    outputs = family.draw(np.random.default_rng(5))
    findings = _decode(family.card, {key: np.full_like(tensor, math.nan) for key, tensor in outputs.items()})
    assert findings.undefined == "nan"
    assert findings.detections is not None
    assert len(findings.detections) == 0


@pytest.mark.parametrize("name", ["yolo-nas", "detr", "rfdetr", "nanodet", "fastestdet"])
def test_other_classes_than_labels_are_refused_and_never_shifted(name: str) -> None:
    family = FAMILIES[name]
    outputs = family.draw(np.random.default_rng(6))
    with pytest.raises(ModelError, match="4 labels"):
        _decode(replace(family.card, labels=(*LABELS, "more")), outputs)


@pytest.mark.parametrize(
    ("name", "output"),
    [
        ("yolo-nas", "scores"), ("detr", "logits"), ("rfdetr", "dets"), ("nanodet", "dis_pred_stride_8"),
        ("yunet", "obj_16"), ("ultraface", "boxes"),
    ],
)  # fmt: skip
def test_outputs_that_do_not_belong_together_are_refused(name: str, output: str) -> None:
    family = FAMILIES[name]
    outputs = family.draw(np.random.default_rng(7))
    decoder = _decoder(family.card, outputs)
    with pytest.raises(ModelError, match="row by row"):
        decoder.decode(outputs | {output: outputs[output][:, 1:]}, TRANSFORM)


# YOLO v5 grids


def test_grids_with_the_anchors_among_their_channels_are_read_too() -> None:
    family = FAMILIES["yolov5-raw"]
    outputs = family.draw(np.random.default_rng(0))
    flat = {}
    for key, grid in outputs.items():
        _, count, height, width, columns = grid.shape
        flat[key] = np.ascontiguousarray(
            grid.transpose(0, 1, 4, 2, 3).reshape(1, count * columns, height, width)
        )
    assert _found(family.card, flat) == _found(family.card, outputs)


@pytest.mark.parametrize(
    ("anchors", "said"),
    [
        ((), "training configuration"),
        (ANCHORS[:2], "3 grids with 2 anchors each, the card has 2 [+] 2"),
        (tuple(one[:2] for one in ANCHORS), "3 grids with 2 anchors each, the card has 1 [+] 1 [+] 1"),
        (ANCHORS[::-1], "larger anchors before smaller ones"),
    ],
)
def test_anchors_that_do_not_fit_the_grids_are_refused(
    anchors: tuple[tuple[float, ...], ...], said: str
) -> None:
    outputs = _draw_grids(np.random.default_rng(0))
    with pytest.raises(ModelError, match=said):
        _decoder(_card("yolov5-raw", anchors=anchors), outputs)


def test_grids_that_do_not_divide_the_input_are_refused() -> None:
    outputs = _draw_grids(np.random.default_rng(0)) | {"grid8": np.zeros((1, 2, 11, 20, 8), np.float32)}
    with pytest.raises(ModelError, match="do not divide an input of 96x160"):
        _decoder(_card("yolov5-raw", anchors=ANCHORS), outputs)


# NanoDet-Plus


def test_yolo_nas_boxes_in_fractions_are_refused_and_not_found_in_one_pixel() -> None:
    outputs = _draw_yolo_nas(np.random.default_rng(1))
    outputs["boxes"] = outputs["boxes"] / np.array([WIDTH, HEIGHT, WIDTH, HEIGHT], np.float32)
    with pytest.raises(ModelError, match="in fractions of the picture"):
        _decode(_card("yolo-nas"), outputs)


def test_yolo_nas_logits_of_which_none_is_above_one_are_refused() -> None:
    outputs = _draw_yolo_nas(np.random.default_rng(1))
    outputs["scores"][0, 7] = -4.2
    with pytest.raises(ModelError, match=r"-4.2, which is no probability"):
        _decode(_card("yolo-nas"), outputs)


@pytest.mark.parametrize("name", ["yolov5-raw", "nanodet", "yunet"])
def test_grids_are_those_of_the_part_that_a_centre_crop_leaves(name: str) -> None:
    family = FAMILIES[name]
    outputs = family.draw(np.random.default_rng(2))
    plain = family.card
    cut = replace(plain, input=InputCard((128, 192), resize="center_crop", crop=(HEIGHT, WIDTH)))
    assert _found(cut, outputs) == _found(plain, outputs) != []


def test_nanodet_plus_counts_from_the_corner_of_a_cell_and_has_four_strides() -> None:
    cells = sum(-(-HEIGHT // stride) * -(-WIDTH // stride) for stride in (8, 16, 32, 64))
    rows = np.zeros((1, cells, 35), np.float32)
    rows[0, 21, 1] = 0.9
    # line 1, column 1 of the finest grid; one, two, three and four cells to its sides
    for side in range(4):
        rows[0, 21, 3 + 8 * side + side + 1] = 50
    ((label, score, box),) = _found(_card("nanodet"), {"output": rows})
    assert label == "tear"
    assert score == pytest.approx(0.9)
    assert box == pytest.approx(_in_frame([8 - 8, 8 - 16, 8 + 24, 8 + 32]), abs=1e-3)


# equal shapes


def test_boxes_and_logits_of_the_same_shape_are_told_apart_by_name() -> None:
    for seed in range(3):
        outputs = _draw_queries(np.random.default_rng(seed), "dets", "labels", 4)
        family = FAMILIES["rfdetr"]
        expected = _expected(family, family.card, outputs)
        assert expected
        for order in (("dets", "labels"), ("labels", "dets")):
            _assert_same(_found(family.card, {key: outputs[key] for key in order}), expected)


def test_without_names_equal_shapes_are_refused() -> None:
    outputs = {"a": np.zeros((1, 300, 4), np.float32), "b": np.zeros((1, 300, 4), np.float32)}
    with pytest.raises(ModelError, match="no output of boxes and one of logits"):
        _decoder(_card("rfdetr", background="last"), outputs)


def test_detr_logits_of_any_size_do_not_overflow() -> None:
    logits = np.array([[[3e38, -3e38, 0, -3e38], [-3e38, -3e38, -3e38, 3e38]]], np.float32)
    boxes = np.full((1, 2, 4), 0.5, np.float32)
    ((label, score, _),) = _found(_card("detr", background="last"), {"logits": logits, "pred_boxes": boxes})
    assert (label, score) == ("cap", 1)
