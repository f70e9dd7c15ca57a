"""Oriented boxes against the definition of their corners, and the exporter's way to suppress."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edge_infer.decoders.obb import _not_suppressed, probabilistic_iou
from edge_infer.errors import ModelError
from edge_infer.findings import Detections, Findings
from edge_infer.geometry import stretch
from tests.support.tasks import FRAME, SIZE, TRANSFORM, card, decode

CELLS = 12 * 20 + 6 * 10 + 3 * 5
Row = tuple[float, float, float, float, float, float, float]
"""cx, cy, w, h, score, class, angle"""

ROWS: tuple[Row, ...] = (
    (40, 40, 40, 10, 0.9, 0, 0.5236),
    (110, 50, 20, 30, 0.8, 1, 2.0),
    (80, 30, 16, 16, 0.7, 0, -0.6),
)


def _answers(decoder: str, rows: Any = ROWS) -> dict[str, NDArray[Any]]:
    if decoder == "yolo-end2end":
        matrix = np.zeros((300, 7), np.float32)
        matrix[: len(rows)] = rows
        return {"output0": matrix[None]}
    matrix = np.zeros((7, CELLS), np.float32)
    for index, (cx, cy, w, h, score, class_id, angle) in enumerate(rows):
        matrix[:4, index] = cx, cy, w, h
        matrix[4 + int(class_id), index] = score
        matrix[6, index] = angle
    return {"output0": matrix[None]}


def _detections(findings: Findings) -> Detections:
    assert findings.detections is not None
    return findings.detections


def _slow_corners(row: Row) -> list[tuple[float, float]]:
    cx, cy, w, h, _, _, angle = row
    corners = []
    for dx, dy in ((-w / 2, -h / 2), (w / 2, -h / 2), (w / 2, h / 2), (-w / 2, h / 2)):
        x = cx + dx * math.cos(angle) - dy * math.sin(angle)
        y = cy + dx * math.sin(angle) + dy * math.cos(angle)
        corners.append(
            ((x - TRANSFORM.shift_x) / TRANSFORM.scale_x, (y - TRANSFORM.shift_y) / TRANSFORM.scale_y)
        )
    return corners


@pytest.mark.parametrize("decoder", ["yolov8", "yolo-end2end"])
def test_corners_and_angle_are_right_in_the_frame(decoder: str) -> None:
    found = _detections(decode(card("obb", decoder), _answers(decoder)))
    assert found.labels == ("cap", "tear", "cap")
    assert found.angles is not None
    # radians as the network says them: the frame is only scaled
    np.testing.assert_allclose(found.angles, [0.5236, 2.0, -0.6], atol=0.01)
    for one, row in zip(found, ROWS, strict=True):
        assert one.corners is not None
        np.testing.assert_allclose(one.corners, _slow_corners(row), atol=0.01)
        # around all of it, clipped to the frame
        x, y = zip(*_slow_corners(row), strict=True)
        around = (max(min(x), 0), max(min(y), 0), min(max(x), FRAME[0]), min(max(y), FRAME[1]))
        assert one.box == pytest.approx(around, abs=0.01)
    width, height = ROWS[0][2] / TRANSFORM.scale_x, ROWS[0][3] / TRANSFORM.scale_y
    assert found.areas[0] == pytest.approx(width * height, rel=0.01)


def test_on_a_stretched_frame_the_angle_is_that_of_the_side_as_a_person_sees_it() -> None:
    transform = stretch(SIZE[1], SIZE[0]).transform((0, 0, 320, 96), 320, 96)
    found = _detections(
        decode(card("obb", "yolov8"), _answers("yolov8", [(80, 48, 40, 10, 0.9, 0, 0.5)]), transform)
    )
    assert found.angles is not None
    assert found.angles[0] == pytest.approx(math.atan2(math.sin(0.5), 2 * math.cos(0.5)), abs=1e-4)


def _slow_iou(a: Row, b: Row) -> float:
    """1 - Hellinger distance of two normal distributions, by matrices."""

    def normal(row: Row) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        cx, cy, w, h, _, _, angle = row
        turn = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
        return np.array([cx, cy]), turn @ np.diag([w * w / 12, h * h / 12]) @ turn.T

    (mean_a, cov_a), (mean_b, cov_b) = normal(a), normal(b)
    both = (cov_a + cov_b) / 2
    apart = mean_a - mean_b
    distance = apart @ np.linalg.inv(both) @ apart / 8 + 0.5 * math.log(
        np.linalg.det(both) / math.sqrt(np.linalg.det(cov_a) * np.linalg.det(cov_b))
    )
    return 1 - math.sqrt(1 - math.exp(-distance))


def test_overlap_is_that_of_the_boxes_as_distributions() -> None:
    rng = np.random.default_rng(1)
    rows = [(*rng.uniform(20, 60, 2), *rng.uniform(8, 40, 2), 0.5, 0, rng.uniform(-1, 2)) for _ in range(12)]
    turned = np.array([[*row[:4], row[6]] for row in rows])
    fast = probabilistic_iou(turned[:, None], turned)
    slow = [[_slow_iou(a, b) for b in rows] for a in rows]
    np.testing.assert_allclose(fast, slow, atol=2e-3)


def test_of_two_boxes_of_one_class_that_overlap_the_better_stays() -> None:
    near = (41.0, 40.0, 40.0, 10.0, 0.6, 0, 0.53)
    across = (40.0, 40.0, 40.0, 10.0, 0.5, 0, 0.5236 + math.pi / 2)
    other_class = (40.0, 40.0, 40.0, 10.0, 0.4, 1, 0.5236)
    found = _detections(
        decode(card("obb", "yolov8"), _answers("yolov8", [ROWS[0], near, across, other_class]))
    )
    np.testing.assert_allclose(found.scores, [0.9, 0.5, 0.4], atol=1e-6)


def test_a_box_that_is_suppressed_still_suppresses_as_the_exporter_has_it() -> None:
    chain = [(40.0 + step * 10, 40.0, 40.0, 20.0, 0.9 - step / 10, 0, 0.0) for step in range(3)]
    first, second, third = chain
    assert _slow_iou(first, second) > 0.45 > _slow_iou(first, third)
    assert _slow_iou(second, third) > 0.45
    found = _detections(decode(card("obb", "yolov8"), _answers("yolov8", chain)))
    assert len(found) == 1


def _slowly_not_suppressed(turned: NDArray[np.float64], class_ids: Any, threshold: float) -> list[int]:
    """Every box against every better one."""
    overlap = probabilistic_iou(turned[:, None], turned)
    return [
        row
        for row in range(len(turned))
        if not any(
            class_ids[other] == class_ids[row] and overlap[other, row] >= threshold for other in range(row)
        )
    ]


@pytest.mark.parametrize("threshold", [0, 0.01, 0.1, 0.45, 0.9, 1])
@pytest.mark.parametrize("side", [0, 0.01, 1, 40, 400, 30_000])
def test_only_boxes_that_cannot_overlap_are_not_compared(side: float, threshold: float) -> None:
    draw = np.random.default_rng(3)
    # many, so that with large boxes not every pair can be listed
    for count, classes in ((120, 1), (120, 4), (600, 1)):
        turned = np.column_stack(
            [
                draw.uniform(0, 300, (count, 2)),
                draw.uniform(0.02, 1, (count, 2)) * side,
                draw.uniform(-1, 2, count),
            ]
        )
        # some lie where others do
        turned[: count // 4] = turned[count // 2 : count // 2 + count // 4]
        class_ids = draw.integers(0, classes, count)
        expected = _slowly_not_suppressed(turned, class_ids, threshold)
        assert _not_suppressed(turned, class_ids, threshold).tolist() == expected


def test_finite_boxes_of_any_size_and_place_are_survived() -> None:
    wild = [
        (3e38, 3e38, 3e38, 3e38, 0.9, 0, 3e38),
        (80, 48, 3e38, 3e38, 0.8, 1, 0.1),
        (40, 40, 0, 0, 0.7, 0, 0),
    ]
    found = _detections(decode(card("obb", "yolov8"), _answers("yolov8", wild)))
    assert found.labels == ("tear",)
    assert found.boxes[0].tolist() == [0, 0, *FRAME]


def test_a_row_with_an_angle_that_is_no_number_is_dropped_and_counted() -> None:
    answers = _answers("yolov8")
    answers["output0"][0, 6, 1] = math.nan
    findings = decode(card("obb", "yolov8"), answers)
    assert findings.nan_rows == 1
    assert _detections(findings).labels == ("cap", "cap")
    answers["output0"][:] = math.nan
    assert decode(card("obb", "yolov8"), answers).undefined == "nan"


@pytest.mark.parametrize("decoder", ["yolov8", "yolo-end2end"])
def test_boxes_in_fractions_are_refused_and_not_found_in_one_pixel(decoder: str) -> None:
    turned = np.array(ROWS)
    turned[:, :4] /= (SIZE[1], SIZE[0], SIZE[1], SIZE[0])
    answers = _answers(decoder, turned)
    with pytest.raises(ModelError, match="in fractions of the picture"):
        decode(card("obb", decoder), answers)
