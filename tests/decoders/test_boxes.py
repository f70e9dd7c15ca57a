"""Boxes and NMS against slow loops."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from edge_infer.decoders.boxes import MOST_CANDIDATES, Boxes, area, best_first, corners, nms


def _objects(
    seed: int, objects: int, each: int, classes: int
) -> tuple[Boxes, NDArray[np.float32], NDArray[np.intp]]:
    """Some boxes around every object, of whatever class, best first."""
    draw = np.random.default_rng(seed)
    middle = np.repeat(draw.uniform(30, 600, (objects, 2)), each, axis=0) + draw.normal(
        0, 6, (objects * each, 2)
    )
    side = np.repeat(draw.uniform(10, 90, (objects, 2)), each, axis=0) * draw.uniform(
        0.8, 1.2, (objects * each, 2)
    )
    boxes = (
        np.concatenate([middle - side / 2, middle + side / 2], axis=1).astype(np.float32).astype(np.float64)
    )
    scores = draw.uniform(0.1, 1, objects * each).astype(np.float32)
    order = np.argsort(-scores, kind="stable")
    return boxes[order], scores[order], draw.integers(0, classes, objects * each)


def _overlap(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    width = min(a[2], b[2]) - max(a[0], b[0])
    height = min(a[3], b[3]) - max(a[1], b[1])
    if width <= 0 or height <= 0:
        return 0.0
    both = width * height
    return float(both / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - both))


def _slow_nms(boxes: Boxes, class_ids: NDArray[np.intp], threshold: float, most: int) -> list[int]:
    stay: list[int] = []
    for index, box in enumerate(boxes):
        rivals = [boxes[other] for other in stay if class_ids[other] == class_ids[index]]
        if len(stay) < most and all(_overlap(box, rival) <= threshold for rival in rivals):
            stay.append(index)
    return stay


@pytest.mark.parametrize(
    ("objects", "each", "classes"), [(1, 1, 1), (20, 8, 3), (7, 40, 1), (200, 5, 80), (64, 1, 2)]
)
@pytest.mark.parametrize("threshold", [0.3, 0.45, 0.7])
def test_nms_leaves_what_a_slow_loop_leaves(objects: int, each: int, classes: int, threshold: float) -> None:
    for seed in range(5):
        boxes, _, class_ids = _objects(seed, objects, each, classes)
        assert nms(boxes, class_ids, threshold, 300).tolist() == _slow_nms(boxes, class_ids, threshold, 300)


@pytest.mark.parametrize("classes", [1, 3])
@pytest.mark.parametrize("side", [1.0, 60.0, 600.0])
def test_of_the_most_candidates_stays_what_a_slow_loop_leaves(side: float, classes: int) -> None:
    draw = np.random.default_rng(1)
    corner = draw.uniform(0, 640, (MOST_CANDIDATES, 2))
    found = np.concatenate([corner, corner + side * draw.uniform(0.5, 1, (MOST_CANDIDATES, 2))], axis=1)
    class_ids = draw.integers(0, classes, MOST_CANDIDATES)
    assert nms(found, class_ids, 0.45, 300).tolist() == _slow_nms(found, class_ids, 0.45, 300)


def test_objects_of_different_classes_do_not_suppress_each_other() -> None:
    boxes = np.array([[0, 0, 10, 10], [0, 0, 10, 10], [1, 0, 11, 10]], np.float64)
    assert nms(boxes, np.array([0, 1, 0]), 0.45, 300).tolist() == [0, 1]


@pytest.mark.parametrize("first", [[-50, 5, 30, 25], [5, -900, 30, 25], [-3e38, -3e38, 3e38, 3e38]])
def test_neither_do_boxes_that_reach_out_of_the_picture(first: list[float]) -> None:
    boxes = np.array([first] * 3, np.float64)
    assert nms(boxes, np.array([0, 1, 79]), 0.45, 300).tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    "flat", [[5, 5, 5, 25], [30, 5, 5, 25], [5, 25, 30, 5], [30, 25, 5, 5], [5, 5, 5, 5]]
)
def test_a_box_without_area_suppresses_nothing(flat: list[float]) -> None:
    boxes = np.array([flat, [5, 5, 30, 25], [5, 5, 5.5, 25], [100, 100, 100.001, 100.001]], np.float64)
    for class_ids in ([0, 0, 0, 0], [2, 0, 1, 0]):
        assert nms(boxes, np.array(class_ids), 0.45, 300).tolist() == [0, 1, 2, 3]


def test_a_suppressed_box_suppresses_nothing() -> None:
    # a chain: the second overlaps both ends, the ends do not overlap
    boxes = np.array([[0, 0, 10, 10], [4, 0, 14, 10], [8, 0, 18, 10]], np.float64)
    assert nms(boxes, np.zeros(3, np.intp), 0.2, 300).tolist() == [0, 2]


def test_nms_stops_at_the_most_wanted() -> None:
    boxes, _, class_ids = _objects(0, 200, 1, 1)
    assert len(nms(boxes, class_ids, 0.9, 70)) == 70
    assert len(nms(boxes, class_ids, 0.9, 0)) == 0


def test_nms_of_nothing_is_nothing() -> None:
    assert nms(np.zeros((0, 4)), np.zeros(0, np.intp), 0.45, 300).tolist() == []


@pytest.mark.parametrize("class_ids", [[0, 0, 0, 0], [0, 1, 1, 1], [79, 78, 78, 78]])
def test_boxes_far_too_large_for_float32_areas_do_no_harm(class_ids: list[int]) -> None:
    huge = np.array([[-3e38, -3e38, 3e38, 3e38], [0, 0, 10, 10], [1, 0, 11, 10], [20, 0, 30, 10]], np.float64)
    assert nms(huge, np.array(class_ids), 0.45, 300).tolist() == [0, 1, 3]


def test_corners_of_centre_and_size() -> None:
    assert corners(np.array([[10, 20, 4, 6]], np.float32)).tolist() == [[8, 17, 12, 23]]


def test_the_area_of_a_box_turned_inside_out_is_zero() -> None:
    assert area(np.array([[0, 0, 2, 3], [2, 3, 0, 0], [5, 0, 3, 4]])).tolist() == [6, 0, 0]


def test_of_equal_scores_the_first_row_comes_first() -> None:
    scores = np.tile(np.array([0.5, 0.9], np.float32), 500)
    assert best_first(scores, 700).tolist() == [*range(1, 1000, 2), *range(0, 400, 2)]
