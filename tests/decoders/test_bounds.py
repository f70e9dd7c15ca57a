"""However low the threshold is, only so much goes into the steps that grow with more than the rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edge_infer.decoders import head, obb, placing, segment
from edge_infer.decoders.boxes import MOST_CANDIDATES
from edge_infer.findings import Findings
from edge_infer.model.card import InputCard
from tests.support.heads import Head, heads
from tests.support.tasks import SIZE, TRANSFORM, decode

HEADS = heads()
SUPPRESSED = [
    "yolov8", "yolov8 rows first", "yolov8 float16", "yolov5", "yolov5 columns first", "yolox", "yolox-raw",
    "yolov5-raw", "yolov5-raw channels", "yolo-nas", "nanodet", "fastestdet", "yunet", "ultraface",
    "yolov8/segment", "yolov5/segment", "yolov8/pose", "yolov8/obb",
]  # fmt: skip
TIMES = 6
CUT = f"only the best {MOST_CANDIDATES} of "


def _larger(model: Head) -> Head:
    """The same answer side by side and one below the other."""
    outputs = {name: each if name == "output1" else _tiled(each) for name, each in model.outputs.items()}
    return Head(replace(model.card, input=InputCard((SIZE[0] * TIMES, SIZE[1] * TIMES))), outputs)


def _tiled(tensor: NDArray[Any]) -> NDArray[Any]:
    times = [1] * tensor.ndim
    if tensor.ndim > 3:
        times[2:4] = TIMES, TIMES
    else:
        # rows first has fewer columns than that
        times[2 if tensor.shape[2] > 100 else 1] = TIMES * TIMES
    return np.tile(tensor, times)


def _decode(model: Head, **changes: Any) -> Findings:
    return decode(replace(model.card, **changes), model.outputs, TRANSFORM)


@pytest.fixture
def handed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many candidates each call of NMS got."""
    counts: list[int] = []

    def counting(of: Any, what: str) -> None:
        whole = getattr(of, what)

        def counted(candidates: NDArray[np.float64], *rest: Any) -> Any:
            counts.append(len(candidates))
            return whole(candidates, *rest)

        monkeypatch.setattr(of, what, counted)

    counting(head, "nms")
    counting(obb, "_not_suppressed")
    return counts


@pytest.mark.parametrize("name", SUPPRESSED)
def test_nms_never_gets_more_than_the_best_candidates(name: str, handed: list[int]) -> None:
    findings = _decode(_larger(HEADS[name]), score_threshold=0, max_detections=10_000)
    assert handed == [MOST_CANDIDATES]
    # what is left out is said
    assert [warning.startswith(CUT) for warning in findings.warnings] == [True]


@pytest.mark.parametrize("name", SUPPRESSED)
def test_nms_never_gets_a_row_below_the_threshold(name: str, handed: list[int]) -> None:
    # far apart from each other, so that each box above it stays
    findings = _decode(HEADS[name], score_threshold=0.4, nms_iou=1, max_detections=10_000)
    every = _decode(HEADS[name], score_threshold=0, nms_iou=1, max_detections=10_000)
    assert findings.detections is not None
    assert every.detections is not None
    assert handed[0] < handed[1]
    # those without area in the picture are dropped behind NMS
    assert 0 < len(findings.detections) == np.count_nonzero(every.detections.scores >= np.float32(0.4))
    assert handed[0] - len(findings.detections) <= handed[1] - len(every.detections)


def test_what_is_left_out_is_said_only_where_it_could_have_changed_something() -> None:
    model = _larger(HEADS["yolov8"])
    few = _decode(model, score_threshold=0, nms_iou=0.99, max_detections=20)
    assert few.detections is not None
    assert len(few.detections) == 20
    assert few.warnings == ()
    assert _decode(HEADS["yolov8"], score_threshold=0, max_detections=10_000).warnings == ()


def test_no_more_than_the_wanted_masks_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    place = placing.place

    def counted(*arguments: Any) -> Any:
        made.append(arguments)
        return place(*arguments)

    monkeypatch.setattr(segment, "place", counted)
    _decode(_larger(HEADS["yolov8/segment"]), score_threshold=0, nms_iou=0.99, max_detections=7)
    assert 0 < len(made) <= 7
