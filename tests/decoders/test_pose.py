"""Key points come back to the frame with their visibility."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edge_infer.errors import ModelError
from edge_infer.findings import Detections, Findings
from tests.support.tasks import FRAME, TRANSFORM, card, decode

CELLS = 12 * 20 + 6 * 10 + 3 * 5
POINTS = ((20.0, 22.0, 0.9), (60.0, 57.0, 0.1), (40.0, 40.0, 0.5))


def _answers(decoder: str, numbers: int = 3, points: Any = POINTS) -> dict[str, NDArray[Any]]:
    told = [value for point in points for value in point[:numbers]]
    if decoder == "yolo-end2end":
        matrix = np.zeros((300, 6 + len(told)), np.float32)
        matrix[0] = [20, 20, 60, 60, 0.9, 1, *told]
        return {"output0": matrix[None]}
    matrix = np.zeros((4 + 2 + len(told), CELLS), np.float32)
    matrix[:, 7] = [40, 40, 40, 40, 0.02, 0.9, *told]
    return {"output0": matrix[None]}


def _detections(findings: Findings) -> Detections:
    assert findings.detections is not None
    return findings.detections


def _in_frame(point: tuple[float, ...]) -> tuple[float, float]:
    return (
        (point[0] - TRANSFORM.shift_x) / TRANSFORM.scale_x,
        (point[1] - TRANSFORM.shift_y) / TRANSFORM.scale_y,
    )


@pytest.mark.parametrize("decoder", ["yolov8", "yolo-end2end"])
@pytest.mark.parametrize("numbers", [3, 2])
def test_points_are_right_in_the_frame_and_keep_their_visibility(decoder: str, numbers: int) -> None:
    model = card("pose", decoder, keypoints=(3, numbers))
    [one] = _detections(decode(model, _answers(decoder, numbers)))
    assert (one.label, one.class_id) == ("tear", 1)
    assert one.score == pytest.approx(0.9)
    assert one.keypoints is not None
    for got, point in zip(one.keypoints, POINTS, strict=True):
        assert got[:2] == pytest.approx(_in_frame(point), abs=0.01)
        # a head without visibility shows every point
        assert got[2] == pytest.approx(point[2] if numbers == 3 else 1)


def test_a_point_beyond_the_frame_is_shown_at_its_edge() -> None:
    [one] = _detections(
        decode(card("pose", "yolov8", keypoints=(3, 3)), _answers("yolov8", points=((-500, 3e38, 0.3),) * 3))
    )
    assert one.keypoints is not None
    assert one.keypoints[0] == pytest.approx((0, FRAME[1], 0.3))


def test_a_row_with_a_point_that_is_no_number_is_dropped_and_counted() -> None:
    answers = _answers("yolov8")
    answers["output0"][0, -2, 7] = math.inf
    findings = decode(card("pose", "yolov8", keypoints=(3, 3)), answers)
    assert findings.nan_rows == 1
    assert len(_detections(findings)) == 0


def test_a_card_that_does_not_say_how_many_points_there_are_is_refused() -> None:
    with pytest.raises(ModelError, match="how many key points"):
        decode(card("pose", "yolov8"), _answers("yolov8"))


@pytest.mark.parametrize("decoder", ["yolov8", "yolo-end2end"])
def test_boxes_in_fractions_are_refused_and_not_found_in_one_pixel(decoder: str) -> None:
    answers = _answers(decoder)
    rows = answers["output0"][0].T if decoder == "yolov8" else answers["output0"][0]
    rows[:, :4] /= (160, 96, 160, 96)
    with pytest.raises(ModelError, match="in fractions of the picture"):
        decode(card("pose", decoder, keypoints=(3, 3)), answers)
