"""Masks against a slow reading at the frame's own pixels."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edge_infer.errors import ModelError
from edge_infer.findings import Detections, Findings
from edge_infer.geometry import letterbox
from edge_infer.model.card import InputCard
from tests.support.tasks import FRAME, SIZE, TRANSFORM, card, decode

COUNT = 5
"""Prototypes; exporters write 32."""
PLANES = (SIZE[0] // 4, SIZE[1] // 4)
CELLS = 12 * 20 + 6 * 10 + 3 * 5
BOXES = ((40.0, 30.0, 44.0, 28.0), (110.0, 60.0, 50.0, 40.0), (20.0, 80.0, 24.0, 30.0))
"""cx, cy, w, h in network pixels; the last reaches below the picture."""


def _prototypes() -> NDArray[np.float32]:
    rng = np.random.default_rng(3)
    coarse = rng.normal(size=(COUNT, 6, 10)).astype(np.float32)
    return np.kron(coarse, np.ones((4, 4), np.float32))[None]


def _weights() -> NDArray[np.float32]:
    return np.random.default_rng(5).normal(size=(len(BOXES), COUNT)).astype(np.float32)


def _answers(decoder: str, boxes: Any = BOXES, weights: Any = None) -> dict[str, NDArray[Any]]:
    """Three objects of classes 0, 1, 0 with scores .9 .8 .7, as each family writes them."""
    weights = _weights() if weights is None else weights
    rows = []
    for index, (cx, cy, w, h) in enumerate(boxes):
        score, class_id = 0.9 - index / 10, index % 2
        scores = [score, 0.01] if class_id == 0 else [0.01, score]
        if decoder == "yolov8":
            row = [cx, cy, w, h, *scores]
        elif decoder == "yolov5":
            row = [cx, cy, w, h, 1.0, *scores]
        else:
            row = [cx - w / 2, cy - h / 2, cx + w / 2, cy + h / 2, score, class_id]
        rows.append([*row, *weights[index].tolist()])
    total = {"yolov8": CELLS, "yolov5": 3 * CELLS, "yolo-end2end": 300}[decoder]
    matrix = np.zeros((total, len(rows[0])), np.float32)
    matrix[: len(rows)] = rows
    if decoder == "yolov8":
        matrix = np.ascontiguousarray(matrix.T)
    return {"output0": matrix[None], "output1": _prototypes()}


def _slow_mask(index: int, boxes: Any = BOXES) -> NDArray[np.bool_]:
    """The weighted sum at the middle of every pixel of the frame, above 0 and in the box."""
    mixed = sum(weight * plane for weight, plane in zip(_weights()[index], _prototypes()[0], strict=True))
    cx, cy, w, h = boxes[index]
    mask = np.zeros((FRAME[1], FRAME[0]), np.bool_)
    rows, columns = PLANES
    for y in range(FRAME[1]):
        for x in range(FRAME[0]):
            nx = (x + 0.5) * TRANSFORM.scale_x + TRANSFORM.shift_x
            ny = (y + 0.5) * TRANSFORM.scale_y + TRANSFORM.shift_y
            if abs(nx - cx) > w / 2 or abs(ny - cy) > h / 2:
                continue
            px, py = nx / 4 - 0.5, ny / 4 - 0.5
            x0, y0 = math.floor(px), math.floor(py)
            value = 0.0
            for dx, dy in ((0, 0), (1, 0), (0, 1), (1, 1)):
                share = (1 - abs(px - x0 - dx)) * (1 - abs(py - y0 - dy))
                value += share * mixed[min(max(y0 + dy, 0), rows - 1), min(max(x0 + dx, 0), columns - 1)]
            mask[y, x] = value > 0
    return mask


def _detections(findings: Findings) -> Detections:
    assert findings.detections is not None
    return findings.detections


@pytest.mark.parametrize("decoder", ["yolov8", "yolov5", "yolo-end2end"])
def test_masks_lie_in_the_frame_as_a_slow_reading_at_its_pixels_has_them(decoder: str) -> None:
    found = _detections(decode(card("segment", decoder), _answers(decoder)))
    assert found.labels == ("cap", "tear", "cap")
    np.testing.assert_allclose(found.scores, [0.9, 0.8, 0.7], atol=1e-6)
    assert found.masks is not None
    for index, mask in enumerate(found.masks):
        drawn = mask.on_frame(*FRAME, outside=-1) > 0
        slow = _slow_mask(index)
        assert (drawn & slow).sum() / (drawn | slow).sum() > 0.995
        assert mask.area == drawn.sum()


def test_the_outputs_may_come_in_any_order() -> None:
    answers = _answers("yolov8")
    swapped = dict(reversed(answers.items()))
    one, other = (_detections(decode(card("segment", "yolov8"), each)) for each in (answers, swapped))
    np.testing.assert_array_equal(one.boxes, other.boxes)
    assert one.masks is not None
    assert other.masks is not None
    np.testing.assert_array_equal(one.masks[0].values, other.masks[0].values)


def test_an_object_whose_mask_is_empty_is_no_object() -> None:
    weights = _weights()
    weights[1] = 0
    found = _detections(decode(card("segment", "yolov8"), _answers("yolov8", weights=weights)))
    assert found.labels == ("cap", "cap")
    assert found.masks is not None
    assert len(found.masks) == 2


def test_an_object_whose_mask_lies_in_the_padding_is_no_object() -> None:
    wide = (640, 192)
    # 24 lines of padding above and below
    transform = letterbox(*wide, SIZE[1], SIZE[0], "center").transform((0, 0, *wide), *wide)
    answers = _answers("yolov8", ((80.0, 17.0, 60.0, 26.0),), np.eye(1, COUNT, dtype=np.float32))
    planes = answers["output1"]
    for lines, found in ((20, 0), (28, 1)):
        planes[0, 0] = np.where(np.arange(PLANES[0])[:, None] < lines // 4, 1, -1)
        assert len(_detections(decode(card("segment", "yolov8"), answers, transform))) == found


def test_masks_stay_small_until_they_are_asked_for() -> None:
    big = (8000, 6000)
    transform = letterbox(*big, SIZE[1], SIZE[0], "center").transform((0, 0, *big), *big)
    found = _detections(decode(card("segment", "yolov8"), _answers("yolov8"), transform))
    assert found.masks is not None
    assert sum(mask.values.nbytes for mask in found.masks) < 4 * PLANES[0] * PLANES[1] * 4


def test_masks_made_of_nan_are_undefined_and_not_a_picture_without_objects() -> None:
    answers = _answers("yolov8")
    answers["output1"][0, 2, 3, 3] = math.nan
    findings = decode(card("segment", "yolov8"), answers)
    assert findings.undefined == "nan"
    assert "not finite" in findings.warnings[0]


def test_a_row_with_a_weight_that_is_no_number_is_dropped_and_counted() -> None:
    answers = _answers("yolov8")
    answers["output0"][0, -1, 1] = math.nan
    findings = decode(card("segment", "yolov8"), answers)
    assert findings.nan_rows == 1
    assert _detections(findings).labels == ("cap", "cap")


def test_a_picture_with_nothing_in_it_has_no_masks() -> None:
    answers = _answers("yolov8")
    answers["output0"][:] = 0
    found = _detections(decode(card("segment", "yolov8"), answers))
    assert len(found) == 0
    assert found.masks == ()


def test_boxes_at_every_edge_have_masks_that_end_there() -> None:
    boxes = ((0.0, 0.0, 60.0, 90.0), (160.0, 96.0, 60.0, 90.0), (80.0, 48.0, 4000.0, 4000.0))
    weights = np.ones((3, COUNT), np.float32)
    answers = _answers("yolov8", boxes, weights)
    answers["output1"][:] = 1
    found = _detections(decode(card("segment", "yolov8"), answers))
    assert found.masks is not None
    for box, mask in zip(found.boxes, found.masks, strict=True):
        ys, xs = np.nonzero(mask.on_frame(*FRAME, outside=-1) > 0)
        assert (xs.min(), ys.min(), xs.max() + 1, ys.max() + 1) == pytest.approx(tuple(box), abs=1)


def test_without_one_output_of_prototypes_it_is_refused() -> None:
    answers = _answers("yolov8")
    del answers["output1"]
    with pytest.raises(ModelError, match="0 of its outputs have four dimensions"):
        decode(card("segment", "yolov8"), answers)
    with pytest.raises(ModelError, match="rows of 12 values"):
        decode(card("segment", "yolov8", ("a", "b", "c")), _answers("yolov8"))


def test_with_a_centre_crop_masks_lie_where_the_network_saw_them() -> None:
    cut = InputCard((192, 256), resize="center_crop", crop=SIZE)
    plain, cropped = (
        _detections(decode(card("segment", "yolov8", input=picture), _answers("yolov8")))
        for picture in (InputCard(SIZE), cut)
    )
    assert plain.masks is not None
    assert cropped.masks is not None
    for one, other in zip(plain.masks, cropped.masks, strict=True):
        np.testing.assert_array_equal(one.on_frame(*FRAME), other.on_frame(*FRAME))


@pytest.mark.parametrize("decoder", ["yolov8", "yolov5", "yolo-end2end"])
def test_boxes_in_fractions_are_refused_and_not_found_in_one_pixel(decoder: str) -> None:
    answers = _answers(decoder, np.array(BOXES) / [SIZE[1], SIZE[0], SIZE[1], SIZE[0]])
    with pytest.raises(ModelError, match="in fractions of the picture"):
        decode(card("segment", decoder), answers)
