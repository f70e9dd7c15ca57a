"""Masks, turned boxes, key points, classes and heat drawn onto a copy of a picture."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from edge_infer.drawing import draw, map_of, mask_of
from edge_infer.findings import Anomaly, ClassScore, Detections, Grid

Pixels = NDArray[np.uint8]
WIDTH, HEIGHT = 320, 240


def _frame() -> Pixels:
    frame = np.full((HEIGHT, WIDTH, 3), 60, np.uint8)
    frame.flags.writeable = False
    return frame


def _one() -> Detections:
    return Detections(
        np.array([[40, 60, 140, 160]], np.float32),
        np.array([0.9], np.float32),
        np.zeros(1, np.int32),
        ("cap",),
    )


def _changed(drawn: Pixels) -> NDArray[np.bool_]:
    return np.asarray((drawn != 60).any(axis=2))


def _grid(values: NDArray[np.float32], scale: float = 0.1) -> Grid:
    return Grid(values, scale, scale, 0, 0, (0, 0, values.shape[1] / scale, values.shape[0] / scale))


def test_a_mask_tints_the_object_and_nothing_else() -> None:
    values = np.full((24, 32), -1, np.float32)
    values[8:14, 6:12] = 1
    mask = _grid(values)
    changed = _changed(draw(_frame(), replace(_one(), masks=(mask,))))
    assert changed[85:135, 65:115].all()
    assert not changed[145:155, 65:115].any()
    png = mask_of(mask, WIDTH, HEIGHT)
    assert png.shape == (HEIGHT, WIDTH)
    assert sorted(np.unique(png).tolist()) == [0, 255]
    assert (png > 0).sum() == mask.area


def test_a_turned_box_is_drawn_by_its_corners() -> None:
    corners = np.array([[[90, 60], [140, 110], [90, 160], [40, 110]]], np.float32)
    turned = replace(_one(), corners=corners, angles=np.array([0.785], np.float32))
    changed = _changed(draw(_frame(), turned))
    assert changed[85, 115]
    assert changed[110, 40]
    # where an upright box would have its corner
    assert not changed[158, 132:140].any()


def test_visible_points_are_filled_and_guessed_ones_are_rings() -> None:
    points = np.array([[[90, 100, 0.9], [90, 140, 0.1]]], np.float32)
    changed = _changed(draw(_frame(), replace(_one(), keypoints=points)))
    assert changed[100, 90]
    assert not changed[140, 90]
    assert changed[136:145, 86:95].any()


def test_points_and_corners_far_outside_are_survived() -> None:
    far = np.full((1, 4, 2), 1e6, np.float32)
    points = np.array([[[-1e6, 1e6, 0.9]]], np.float32)
    draw(_frame(), replace(_one(), corners=far, angles=np.zeros(1, np.float32), keypoints=points))


def test_the_best_class_is_written_into_the_picture() -> None:
    best, other = ClassScore("good", 0, 0.9), ClassScore("bad", 1, 0.1)
    drawn = draw(_frame(), Detections.none(), classes=(best, other))
    assert _changed(drawn)[:30, :60].any()
    assert not _changed(drawn)[60:].any()


def test_heat_is_drawn_where_it_is_and_normal_places_stay_as_they_are() -> None:
    values = np.zeros((24, 32), np.float32)
    values[12:18, 20:26] = 0.9
    heat = _grid(values)
    drawn = draw(_frame(), Detections.none(), anomaly=Anomaly(0.9, 0.5, (200, 120, 260, 180), heat))
    assert _changed(drawn)[125:175, 205:255].all()
    assert not _changed(drawn)[60:100, 20:180].any()
    # red: blue and green fall behind
    assert drawn[150, 230, 2] > drawn[150, 230, 0] + 50
    png = map_of(heat, WIDTH, HEIGHT)
    assert png.shape == (HEIGHT, WIDTH)
    assert (png[150, 230], png[20, 20]) == (230, 0)


def test_an_anomaly_without_a_map_is_written_down() -> None:
    assert _changed(draw(_frame(), Detections.none(), anomaly=Anomaly(0.7)))[:30].any()
