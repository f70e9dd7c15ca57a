"""Objects seen by several tiles of a picture are found once, whole, where they are."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from edge_infer.decoders.seams import merge
from edge_infer.findings import Detections, Findings
from edge_infer.geometry import PixelBox, tiles

WHOLE = (0, 0, 1000, 700)
Objects = list[tuple[float, float, float, float, int]]
"""x1, y1, x2, y2, class id"""


def seen(objects: Objects, tile: PixelBox, rng: np.random.Generator) -> Findings:
    """What a good detector finds in one tile: each object as far as it reaches in, a little uncertain."""
    rows = []
    for x1, y1, x2, y2, class_id in objects:
        box = (max(x1, tile[0]), max(y1, tile[1]), min(x2, tile[2]), min(y2, tile[3]))
        if box[2] - box[0] > 6 and box[3] - box[1] > 6:
            noisy = np.clip(
                np.array(box) + rng.uniform(-0.8, 0.8, 4), np.array(tile[:2] * 2), np.array(tile[2:] * 2)
            )
            rows.append((*noisy, rng.uniform(0.6, 0.95), class_id))
    return findings(rows)


def findings(rows: Sequence[tuple[float, ...]]) -> Findings:
    table: NDArray[np.float32] = np.array(rows, np.float32).reshape(-1, 6)
    ids = table[:, 5].astype(np.int32)
    labels = tuple(f"class{i}" for i in ids)
    return Findings(Detections(table[:, :4], table[:, 4], ids, labels))


def found(objects: Objects, size: tuple[int, int], overlap: float, seed: int = 0) -> Detections:
    rng = np.random.default_rng(seed)
    parts = tiles(WHOLE, size, overlap)
    detections = merge([seen(objects, part, rng) for part in parts], parts, WHOLE, 0.45, 300).detections
    assert detections is not None
    return detections


def assert_found_once(objects: Objects, detections: Detections) -> None:
    got = [(one.class_id, one.box) for one in detections]
    for *box, class_id in objects:
        same = [each for each in got if each[0] == class_id and np.abs(np.subtract(each[1], box)).max() < 2]
        assert len(same) == 1, f"{box} of class {class_id}: {same} of {got}"
    assert len(got) == len(objects)


@pytest.mark.parametrize("seed", range(12))
def test_many_objects_smaller_than_the_overlap_are_found_once(seed: int) -> None:
    rng = np.random.default_rng(seed)
    objects: Objects = []
    for column in range(12):
        for row in range(8):
            x, y = column * 82 + rng.uniform(2, 20), row * 86 + rng.uniform(2, 20)
            w, h = rng.uniform(12, 58, 2)
            objects.append((x, y, x + w, y + h, int(rng.integers(3))))
    assert_found_once(objects, found(objects, (320, 320), 0.2, seed))


def test_neighbours_that_touch_stay_two_objects() -> None:
    # across a seam, as bottles on a belt
    row: Objects = [(20 + 40 * i, 100, 60 + 40 * i, 260, 0) for i in range(24)]
    assert_found_once(row, found(row, (320, 320), 0.2))


@pytest.mark.parametrize(
    "box",
    [
        (150, 40, 450, 120, 1),  # longer than the overlap, over one seam
        (60, 40, 960, 120, 1),  # over every seam
        (40, 150, 140, 680, 1),  # downwards
        (100, 100, 900, 600, 1),  # over every seam both ways
        (0, 0, 1000, 700, 1),  # the whole picture
    ],
)
def test_an_object_larger_than_the_overlap_becomes_one_box(
    box: tuple[float, float, float, float, int],
) -> None:
    assert_found_once([box], found([box], (320, 320), 0.2))


@pytest.mark.parametrize(
    "objects",
    [
        pytest.param([(250, 40, 330, 120, 0), (250, 40, 330, 120, 1)], id="two classes in one place"),
        pytest.param([(150, 40, 450, 120, 0), (150, 40, 450, 120, 1)], id="two long ones in one place"),
        pytest.param([(150, 40, 450, 100, 0), (150, 140, 450, 200, 0)], id="two long ones side by side"),
        pytest.param([(40, 150, 100, 450, 0), (140, 150, 200, 450, 0)], id="two high ones side by side"),
        pytest.param([(150, 40, 450, 240, 0), (150, 60, 450, 100, 0)], id="a long one before another"),
        pytest.param([(720, 100, 980, 180, 0), (930, 110, 1000, 150, 0)], id="one at the picture's edge"),
        pytest.param([(150, 40, 330, 120, 0), (322, 40, 560, 120, 0)], id="one behind the other"),
    ],
)
def test_two_objects_stay_two(objects: Objects) -> None:
    assert_found_once(objects, found(objects, (320, 320), 0.2))


def test_a_tile_that_has_no_honest_answer_leaves_the_whole_picture_without_one() -> None:
    parts = tiles(WHOLE, (700, 600), 0.2)
    good = findings([(10, 10, 60, 60, 0.9, 0)])
    bad = Findings(Detections.none(), nan_rows=5, undefined="nan", warnings=("5 of 5 rows",))
    both = merge([good, bad], parts, WHOLE, 0.45, 300)
    assert (both.undefined, both.nan_rows, both.warnings) == ("nan", 5, ("5 of 5 rows",))


def test_the_best_are_kept() -> None:
    parts = tiles(WHOLE, (700, 1000), 0.2)
    rows = [(10.0 + 50 * i, 10.0, 40.0 + 50 * i, 60.0, 0.3 + i / 100, 0.0) for i in range(9)]
    few = merge([findings(rows)], parts, WHOLE, 0.45, 3).detections
    assert few is not None
    assert [round(float(score), 2) for score in few.scores] == [0.38, 0.37, 0.36]


@pytest.mark.parametrize(
    "part", [WHOLE, (13, 7, 900, 333), (0, 0, 320, 320), (5, 5, 100, 90), (0, 0, 321, 4000)]
)
@pytest.mark.parametrize("overlap", [0.0, 0.2, 0.5, 0.9])
def test_tiles_cover_the_part_and_nothing_else_and_overlap_enough(part: PixelBox, overlap: float) -> None:
    x1, y1, x2, y2 = part
    boxes = tiles(part, (320, 320), overlap)
    covered = np.zeros((y2, x2), bool)
    for left, top, right, bottom in boxes:
        assert x1 <= left < right <= x2
        assert y1 <= top < bottom <= y2
        assert (right - left, bottom - top) == (min(320, x2 - x1), min(320, y2 - y1))
        covered[top:bottom, left:right] = True
    assert covered[y1:, x1:].all()
    for starts, side in (
        (sorted({box[0] for box in boxes}), x2 - x1),
        (sorted({box[1] for box in boxes}), y2 - y1),
    ):
        gaps = np.diff(starts)
        assert gaps.size == 0 or gaps.max() <= np.ceil(min(320, side) * (1 - overlap))


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((400, 40, 600, 120, 0.8, 0), (480, 40, 700, 120, 0.9, 1)),  # of two classes
        ((400, 40, 600, 120, 0.8, 0), (480, 200, 700, 280, 0.9, 0)),  # one above the other
        ((100, 40, 600, 120, 0.8, 0), (480, 30, 700, 400, 0.9, 0)),  # of another height
    ],
)
def test_parts_that_do_not_continue_each_other_stay_two(
    left: tuple[float, ...], right: tuple[float, ...]
) -> None:
    parts = tiles(WHOLE, (700, 600), 0.2)
    assert parts == [(0, 0, 600, 700), (400, 0, 1000, 700)]
    cut_right, cut_left = (*left[:2], 600, *left[3:]), (400, *right[1:])
    both = merge([findings([cut_right]), findings([cut_left])], parts, WHOLE, 0.45, 300).detections
    assert both is not None
    assert sorted(one.box for one in both) == sorted([cut_right[:4], cut_left[:4]])


def _crowd(tile: PixelBox, rng: np.random.Generator, count: int) -> Findings:
    """Boxes of every kind in one tile: whole, cut at its sides, in each other."""
    left, top = rng.uniform(tile[:2], (tile[2] - 8, tile[3] - 8), (count, 2)).T
    sides = rng.uniform(8, 90, (count, 2))
    right, bottom = np.minimum(left + sides[:, 0], tile[2]), np.minimum(top + sides[:, 1], tile[3])
    return findings(
        np.column_stack(
            [left, top, right, bottom, rng.uniform(0.3, 0.9, count), rng.integers(0, 2, count)]
        ).tolist()
    )


@pytest.mark.parametrize("classes", [1, 2])
def test_many_boxes_in_many_tiles_are_merged_in_time_and_the_cut_is_said(classes: int) -> None:
    whole = (0, 0, 2100, 1600)
    parts = tiles(whole, (320, 320), 0.2)
    assert len(parts) == 48
    rng = np.random.default_rng(4)
    each = [_crowd(part, rng, 100) for part in parts]
    if classes == 1:
        each = [findings([(*one.box, one.score, 0) for one in every.detections or ()]) for every in each]
    start = time.perf_counter()
    merged = merge(each, parts, whole, 0.45, 300)
    assert time.perf_counter() - start < 2
    assert merged.warnings == ("only the best 1000 of 4800 boxes in all tiles were merged",)
    assert merged.detections is not None
    assert len(merged.detections) == 300
    best = max(float(every.detections.scores[0]) for every in each if every.detections is not None)
    assert merged.detections.scores[0] >= best
