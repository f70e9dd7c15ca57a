"""How far a candidate's answers lie from those of FP32."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from edge_infer.findings import Anomaly, ClassScore, Findings, Grid
from edge_infer.model.card import Task
from edge_infer.tune.agreement import Agreement, Limits, why_not
from tests.support.frames import found

BOX = (10.0, 10.0, 50.0, 50.0)
FAR = (60.0, 60.0, 90.0, 90.0)


def agreed(*frames: tuple[Findings, Findings], task: Task = "detect", threshold: float = 0.5) -> Agreement:
    agreement = Agreement(task, threshold)
    for reference, given in frames:
        agreement.add(reference, given)
    return agreement


def verdict(agreement: Agreement, *, exact: bool = False) -> str | None:
    return why_not(agreement, Limits(), exact=exact)


def test_the_same_answer_may_be_chosen() -> None:
    one = found(("cap", 0.9, BOX), ("cap", 0.55, FAR))
    agreement = agreed((one, one))
    assert (agreement.sure, agreement.near, agreement.lost, agreement.near_changed) == (1, 1, 0, 0)
    assert agreement.mean_iou == 1
    assert verdict(agreement) is None


def test_an_object_that_is_missing_is_lost() -> None:
    agreement = agreed((found(("cap", 0.9, BOX), ("cap", 0.8, FAR)), found(("cap", 0.9, BOX))))
    assert (agreement.sure, agreement.missing, agreement.extra) == (2, 1, 0)
    assert "1 missing, 0 too many, of 2" in str(verdict(agreement))


def test_an_object_below_the_threshold_is_missing() -> None:
    agreement = agreed((found(("cap", 0.9, BOX)), found(("cap", 0.45, BOX))))
    assert agreement.missing == 1
    assert agreement.score_drift == pytest.approx(0.45)


def test_an_object_that_fp32_does_not_see_is_one_too_many() -> None:
    agreement = agreed((found(("cap", 0.9, BOX)), found(("cap", 0.9, BOX), ("cap", 0.5, FAR))))
    assert (agreement.missing, agreement.extra) == (0, 1)
    assert verdict(agreement) is not None


def test_another_label_is_another_object() -> None:
    agreement = agreed((found(("cap", 0.9, BOX)), found(("tear", 0.9, BOX))))
    assert (agreement.missing, agreement.extra) == (1, 1)


def test_what_lies_near_the_threshold_is_counted_apart() -> None:
    agreement = agreed(
        (found(("cap", 0.59, BOX)), found(("cap", 0.45, BOX))),
        (found(("cap", 0.41, BOX)), found(("cap", 0.52, BOX))),
        (found(("cap", 0.55, BOX)), found(("cap", 0.51, BOX))),
        (found(("cap", 0.9, BOX)), found(("cap", 0.9, BOX))),
    )
    assert (agreement.near, agreement.near_changed) == (3, 2)
    assert (agreement.sure, agreement.missing, agreement.extra) == (1, 0, 0)


def test_frames_in_which_fp32_is_sure_of_nothing_prove_nothing() -> None:
    agreement = agreed((found(), found()))
    assert "sure of nothing" in str(verdict(agreement))
    assert verdict(agreement, exact=True) is None


def test_scores_that_drift_and_boxes_that_move_are_refused() -> None:
    drifted = agreed((found(("cap", 0.95, BOX)), found(("cap", 0.85, BOX))))
    assert "scores are off by 0.100" in str(verdict(drifted))
    moved = agreed((found(("cap", 0.9, BOX)), found(("cap", 0.9, (14.0, 10.0, 54.0, 50.0)))))
    assert "objects overlap by 0.8" in str(verdict(moved))


def test_an_answer_that_is_none_is_refused() -> None:
    agreement = agreed((found(("cap", 0.9, BOX)), Findings(undefined="nan")))
    assert "1 frames have an honest answer with one of the two only" in str(verdict(agreement))
    assert agreed((Findings(undefined="nan"), Findings(undefined="nan"))).undefined == 0


def classes(*scores: float) -> Findings:
    told = tuple(ClassScore("abc"[i], i, score) for i, score in enumerate(scores))
    return Findings(classes=tuple(sorted(told, key=lambda one: -one.score)))


def test_another_class_is_lost_unless_fp32_itself_wavers() -> None:
    sure = agreed((classes(0.8, 0.1), classes(0.3, 0.6)), task="classify")
    assert (sure.sure, sure.missing) == (1, 1)
    wavering = agreed((classes(0.48, 0.46), classes(0.46, 0.48)), task="classify", threshold=0.25)
    assert (wavering.sure, wavering.near, wavering.near_changed) == (0, 1, 1)
    same = agreed((classes(0.8, 0.1), classes(0.78, 0.12)), task="classify")
    assert (same.sure, same.missing) == (1, 0)
    assert same.score_drift == pytest.approx(0.02)


def test_an_anomaly_is_a_decision_at_its_threshold() -> None:
    def heat(score: float) -> Findings:
        return Findings(anomaly=Anomaly(score))

    agreement = agreed(
        (heat(0.9), heat(0.4)), (heat(0.2), heat(0.6)), (heat(0.55), heat(0.45)), (heat(0.9), heat(0.8)),
        task="anomaly",
    )  # fmt: skip
    assert (agreement.sure, agreement.missing) == (3, 2)
    assert (agreement.near, agreement.near_changed) == (1, 1)


def area(x1: int, x2: int, *, regions: int = 1) -> Findings:
    """Columns ``x1`` to ``x2`` of a 40x40 picture, in so many regions."""
    grids, boxes = [], []
    edges = np.linspace(x1, x2, regions + 1).astype(int)
    for left, right in pairwise(edges):
        values = np.full((40, 40), -1, np.float32)
        values[:, left:right] = 1
        grids.append(Grid(values, 1, 1, 0, 0, (0, 0, 40, 40)))
        boxes.append((left, 0, right, 40))
    one = found(*(("scratch", 0.9, box) for box in boxes)).detections
    assert one is not None
    return Findings(detections=replace(one, masks=tuple(grids)))


def test_areas_are_compared_by_what_they_cover_not_by_how_many_they_are() -> None:
    agreement = agreed((area(10, 30), area(10, 30, regions=2)), task="semantic")
    assert (agreement.sure, agreement.missing, agreement.extra) == (1, 0, 0)
    assert agreement.mean_iou is not None
    assert agreement.mean_iou > 0.95
    half = agreed((area(10, 30), area(10, 20)), task="semantic")
    assert half.mean_iou == pytest.approx(0.5, abs=0.1)
    assert verdict(half) is not None


def test_masks_poses_and_turned_boxes_are_compared_by_their_shape() -> None:
    mask = agreed((area(0, 40), area(0, 20)), task="segment")
    assert mask.missing or (mask.mean_iou or 1) < 0.6

    def turned(corners: list[tuple[float, float]]) -> Findings:
        whole = found(("cap", 0.9, (0, 0, 40, 40))).detections
        assert whole is not None
        points = np.array([corners], np.float32)
        return Findings(detections=replace(whole, corners=points, angles=np.zeros(1, np.float32)))

    upright = turned([(0, 0), (40, 0), (40, 40), (0, 40)])
    diamond = turned([(20, 0), (40, 20), (20, 40), (0, 20)])
    assert agreed((upright, diamond), task="obb").mean_iou == pytest.approx(0.5, abs=0.01)

    def posed(x: float) -> Findings:
        whole = found(("cap", 0.9, (0, 0, 30, 40))).detections
        assert whole is not None
        return Findings(detections=replace(whole, keypoints=np.array([[[x, 5, 1]]], np.float32)))

    assert agreed((posed(5), posed(15)), task="pose").mean_iou == pytest.approx(0.8)


def test_the_report_tells_all_of_it() -> None:
    agreement = agreed((found(("cap", 0.9, BOX)), found(("cap", 0.8, BOX))))
    told = agreement.as_json()
    assert told["sure"] == 1
    assert told["score_drift"] == {"mean": 0.1, "max": 0.1}
    assert told["iou"] == {"mean": 1.0, "min": 1.0}
