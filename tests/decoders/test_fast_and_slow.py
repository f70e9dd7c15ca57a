"""The heads that cost most, read fast and read as slowly as a person would: the same to the last bit.

With equal scores, rows that are not finite, small numbers below 0, half precision, and nothing at all.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edge_infer.decoders.boxes import MOST_CANDIDATES
from edge_infer.findings import Detections, Findings
from edge_infer.model.card import ModelCard
from tests.support.tasks import FRAME, SIZE, TRANSFORM, card, decode

Rows = NDArray[np.floating]
Box = tuple[float, float, float, float]
HEADS = ["yolov8", "yolov5", "yolox", "yolov8/segment", "yolov5/segment"]
PLANES, PLANES_SIZE = 3, (SIZE[0] // 4, SIZE[1] // 4)
LABELS = ("cap", "tear", "dent")
NOT_FINITE = (math.nan, math.inf, -math.inf, -math.nan)


def _card(head: str, **changes: Any) -> ModelCard:
    decoder, _, task = head.partition("/")
    return replace(card(task or "detect", decoder, LABELS), **changes)


def _draw(head: str, seed: int, count: int, *, levels: int = 0, broken: int = 0) -> Rows:
    """(N, columns); crowds around a few objects. ``levels``: so many different scores."""
    draw = np.random.default_rng(seed)
    middle = draw.uniform(0, (SIZE[1], SIZE[0]), (12, 2))[np.arange(count) % 12]
    boxes = np.column_stack([middle + draw.normal(0, 2, (count, 2)), draw.uniform(8, 40, (count, 2))])
    scores = draw.uniform(0, 1, (count, 3)) ** 2
    if levels:
        scores, boxes[::3] = np.round(scores * levels) / levels, boxes[: len(boxes[::3])]
    # as a quantised sigmoid may end
    scores[draw.uniform(size=scores.shape) < 0.02] = -0.0
    scores[draw.uniform(size=scores.shape) < 0.02] = -0.005
    objectness = draw.uniform(0.3, 1, (count, 0 if "v8" in head else 1))
    more = draw.normal(0, 1, (count, PLANES if "segment" in head else 0))
    if more.size:
        # the first plane is above 0 everywhere: no mask is empty
        more[:, 0] = 9
    rows = np.column_stack([boxes, objectness, scores, more]).astype(np.float32)
    for index in range(broken):
        rows[draw.integers(count), draw.integers(rows.shape[1])] = NOT_FINITE[index % 4]
    return rows


def _planes(seed: int) -> NDArray[np.float32]:
    draw = np.random.default_rng(seed)
    planes = draw.uniform(-1, 1, (1, PLANES, *PLANES_SIZE)).astype(np.float32)
    planes[0, 0] = 1
    return planes


def _overlap(a: Box, b: Box) -> float:
    width, height = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    both = max(width, 0) * max(height, 0)
    areas = [max(x2 - x1, 0) * max(y2 - y1, 0) for x1, y1, x2, y2 in (a, b)]
    union = areas[0] + areas[1] - both
    return both / union if union > 0 else 0


def _slowly(model: ModelCard, rows: Rows) -> tuple[list[tuple[np.float32, int, Box, int]], int]:
    """Score, class, box and row of what stays, and how many rows are not finite."""
    found, broken = [], 0
    after = 4 if model.decoder == "yolov8" else 5
    for index, row in enumerate(rows.astype(np.float32)):
        if not all(math.isfinite(value) for value in row):
            broken += 1
            continue
        scores = row[after : after + 3].tolist()
        best = scores.index(max(scores))
        score = np.float32(scores[best]) * (row[4] if after == 5 else np.float32(1))
        if score >= np.float32(model.score_threshold):
            x, y, w, h = row[:4].tolist()
            found.append((score, best, (x - w / 2, y - h / 2, x + w / 2, y + h / 2), index))
    found.sort(key=lambda one: -one[0])
    kept: list[tuple[np.float32, int, Box, int]] = []
    for one in found[:MOST_CANDIDATES]:
        if len(kept) < model.max_detections and all(
            other[1] != one[1] or _overlap(other[2], one[2]) <= model.nms_iou for other in kept
        ):
            kept.append(one)
    return kept, broken


def _in_frame(box: Box) -> list[float]:
    scale, shift = (TRANSFORM.scale_x, TRANSFORM.scale_y), (TRANSFORM.shift_x, TRANSFORM.shift_y)
    return [
        float(np.float32(min(max((side - shift[i % 2]) / scale[i % 2], 0), FRAME[i % 2])))
        for i, side in enumerate(box)
    ]


def _detections(findings: Findings) -> Detections:
    assert findings.detections is not None
    return findings.detections


def _assert_same(head: str, model: ModelCard, rows: Rows, seed: int = 0) -> int:
    """How many objects there are."""
    matrix = np.ascontiguousarray(rows.T) if "v8" in head else rows
    outputs = {"output0": matrix[None]} | ({"output1": _planes(seed)} if "segment" in head else {})
    findings = decode(model, outputs)
    kept, broken = _slowly(model, rows)
    framed = [(one, _in_frame(one[2])) for one in kept]
    seen = [(one, box) for one, box in framed if box[2] > box[0] and box[3] > box[1]]
    found = _detections(findings)
    assert findings.nan_rows == broken
    assert findings.undefined == ("nan" if broken and broken == len(rows) else None)
    assert found.scores.tolist() == [float(min(one[0], np.float32(1))) for one, _ in seen]
    assert found.class_ids.tolist() == [one[1] for one, _ in seen]
    assert found.boxes.tolist() == [box for _, box in seen]
    if "segment" in head:
        assert found.masks is not None
        for mask, (one, _) in zip(found.masks, seen, strict=True):
            np.testing.assert_allclose(mask.values, _mixed(one[2], rows[one[3], -PLANES:], seed), atol=1e-5)
    return len(seen)


def _mixed(box: Box, weights: Rows, seed: int) -> NDArray[np.float64]:
    """The planes' cells that the box touches and one more on each side."""
    height, width = PLANES_SIZE
    x1, y1, x2, y2 = (min(max(side / 4, 0), (width, height)[i % 2]) for i, side in enumerate(box))
    lines = slice(max(math.floor(y1) - 1, 0), min(math.ceil(y2) + 1, height))
    columns = slice(max(math.floor(x1) - 1, 0), min(math.ceil(x2) + 1, width))
    planes = _planes(seed)[0].astype(np.float64)
    return np.asarray(
        sum(w * plane[lines, columns] for w, plane in zip(weights.tolist(), planes, strict=True))
    )


@pytest.mark.parametrize("head", HEADS)
def test_any_head_is_read_as_slowly(head: str) -> None:
    seen = 0
    for seed in range(6):
        model = _card(head, score_threshold=0.1 + 0.08 * seed, nms_iou=0.2 + 0.1 * seed)
        seen += _assert_same(head, model, _draw(head, seed, 300), seed)
    assert seen > 100


@pytest.mark.parametrize("head", HEADS)
def test_of_equal_scores_the_first_row_wins_everywhere(head: str) -> None:
    for seed in range(4):
        assert _assert_same(head, _card(head), _draw(head, seed, 300, levels=4), seed) > 10


@pytest.mark.parametrize("head", HEADS)
def test_rows_that_are_not_finite_are_left_out_and_counted_wherever_they_are_broken(head: str) -> None:
    for seed in range(6):
        rows = _draw(head, seed, 200, broken=1 if seed == 0 else 40)
        assert _assert_same(head, _card(head), rows, seed) > 10


@pytest.mark.parametrize("head", HEADS)
def test_half_precision_is_read_as_slowly(head: str) -> None:
    for seed in range(3):
        rows = _draw(head, seed, 200, levels=8 * (seed == 1), broken=10 * seed).astype(np.float16)
        assert _assert_same(head, _card(head), rows, seed) > 10


@pytest.mark.parametrize("head", HEADS)
def test_more_than_are_looked_at_are_the_best(head: str) -> None:
    model = _card(head, score_threshold=0.0001, nms_iou=0.9, max_detections=1200)
    assert _assert_same(head, model, _draw(head, 1, 1600, levels=40)) > 300


@pytest.mark.parametrize("head", HEADS)
def test_nothing_at_all_and_nothing_above_the_threshold_are_no_objects(head: str) -> None:
    rows = _draw(head, 1, 50)
    assert _assert_same(head, _card(head, score_threshold=1), rows) == 0
    assert _assert_same(head, _card(head), np.full_like(rows, math.nan)) == 0
    if "segment" not in head:
        assert _assert_same(head, _card(head), rows[:0]) == 0
