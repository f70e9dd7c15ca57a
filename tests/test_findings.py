"""Findings refuse nonsense, and a grid lies in the frame where it was computed."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from edge_infer.findings import Anomaly, ClassScore, Detections, Grid

ONE = (np.array([[0, 0, 1, 1]], np.float32), np.array([0.5], np.float32), np.zeros(1, np.int32), ("cap",))


@pytest.mark.parametrize(
    "more",
    [
        {"corners": np.zeros((1, 4, 2), np.float32)},
        {"angles": np.zeros(1, np.float32)},
        {"corners": np.zeros((2, 4, 2), np.float32), "angles": np.zeros(2, np.float32)},
        {"keypoints": np.zeros((1, 3, 2), np.float32)},
        {"keypoints": np.zeros((2, 3, 3), np.float32)},
        {"masks": ()},
    ],
)
def test_parts_that_do_not_belong_together_are_refused(more: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="do not belong to 1 detections"):
        Detections(*ONE, **more)


@pytest.mark.parametrize(
    "more",
    [
        {"corners": np.full((1, 4, 2), math.nan, np.float32), "angles": np.zeros(1, np.float32)},
        {"corners": np.zeros((1, 4, 2), np.float32), "angles": np.full(1, math.inf, np.float32)},
        {"keypoints": np.full((1, 2, 3), math.nan, np.float32)},
    ],
)
def test_nothing_that_is_no_number_becomes_a_finding(more: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="finite"):
        Detections(*ONE, **more)
    with pytest.raises(ValueError, match="finite"):
        ClassScore("a", 0, math.nan)
    with pytest.raises(ValueError, match="finite"):
        Anomaly(math.inf)


def test_a_grid_without_values_is_refused() -> None:
    for shape in ((0, 4), (4, 0), (4,), (1, 4, 4)):
        with pytest.raises(ValueError, match="rows and columns"):
            Grid(np.zeros(shape, np.float32), 1, 1, 0, 0, (0, 0, 1, 1))


def test_a_grid_is_spread_linearly_between_the_middles_of_its_values() -> None:
    # two values a row over ten pixels, three rows of four pixels
    values = np.array([[0, 10], [20, 30], [40, 50]], np.float32)
    grid = Grid(values, 0.2, 0.25, 0, 0, (0, 0, 10, 12))
    spread = grid.on_frame(10, 12)
    assert spread.shape == (12, 10)
    for y in range(12):
        for x in range(10):
            at_x = min(max((x + 0.5) * 0.2 - 0.5, 0), 1)
            at_y = min(max((y + 0.5) * 0.25 - 0.5, 0), 2)
            assert spread[y, x] == pytest.approx(10 * at_x + 20 * at_y, abs=0.5)


def test_a_grid_says_nothing_outside_of_what_it_covers() -> None:
    grid = Grid(np.ones((2, 2), np.float32), 0.1, 0.1, 0, 0, (3, 5, 7, 20))
    spread = grid.on_frame(10, 12, outside=-1)
    assert (spread[5:12, 3:7] == 1).all()
    assert (spread == 1).sum() == 7 * 4
    assert grid.area == 4 * 15
    nowhere = Grid(np.ones((2, 2), np.float32), 0.1, 0.1, 0, 0, (30, 30, 40, 40))
    assert (nowhere.on_frame(10, 12, outside=-1) == -1).all()
