"""Models that judge the whole picture: a classifier's best class counts, an anomaly model brings its rule."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

from edge_infer.findings import Anomaly, ClassScore, Detections, Findings, Grid
from edge_infer.rules.confirm import Confirm
from edge_infer.rules.count import CountRule
from edge_infer.rules.decision import Judge, Verdict


def _rule(**keys: Any) -> CountRule:
    return CountRule.model_validate_json(json.dumps({"name": "r", **keys}))


def _classes(*scores: tuple[str, float]) -> Findings:
    return Findings(
        classes=tuple(ClassScore(label, index, score) for index, (label, score) in enumerate(scores))
    )


GOOD = _classes(("good", 0.9), ("bad", 0.1))


def test_the_best_class_counts_as_one_object() -> None:
    good = _rule(count={"labels": ["good"], "at_least": 1})
    assert (good.judge(GOOD, 9, 9).decision, good.judge(GOOD, 9, 9).seen) == ("OK", 1)
    bad = _rule(count={"labels": ["bad", "worse"], "at_most": 0})
    assert bad.judge(GOOD, 9, 9).decision == "OK"
    assert bad.judge(_classes(("bad", 0.6), ("good", 0.4)), 9, 9).decision == "NOK"


def test_a_class_that_is_not_sure_enough_does_not_count() -> None:
    good = _rule(count={"labels": ["good"], "min_score": 0.9, "at_least": 1})
    assert good.judge(_classes(("good", float(np.float32(0.9)))), 9, 9).decision == "OK"
    assert good.judge(_classes(("good", 0.89)), 9, 9).decision == "NOK"


@pytest.mark.parametrize(("limit", "decision"), [({"at_least": 1}, "NOK"), ({"at_most": 0}, "OK")])
def test_a_picture_of_the_background_counts_as_no_object(limit: dict[str, int], decision: str) -> None:
    outcome = _rule(count={"labels": ["good"], **limit}).judge(Findings(classes=()), 9, 9)
    assert (outcome.decision, outcome.seen) == (decision, 0)
    assert _rule(count={"labels": ["good"], **limit}).judge(Findings(), 9, 9).decision == "UNDEFINED"


@pytest.mark.parametrize("where", [{"min_area_px": 4}, {"zone": {"polygon": [[0, 0], [1, 0], [1, 1]]}}])
def test_a_rule_that_asks_where_cannot_be_evaluated(where: dict[str, Any]) -> None:
    outcome = _rule(count={"labels": ["bad"], "at_most": 0}, **where).judge(GOOD, 9, 9)
    assert (outcome.decision, outcome.seen) == ("UNDEFINED", None)


def _judge(score: float, judge: Judge | None = None) -> Verdict:
    findings = Findings(anomaly=Anomaly(score))
    return (judge or Judge([])).judge(findings, width=9, height=9, time_s=0)


@pytest.mark.parametrize(
    ("score", "decision"), [(0.0, "OK"), (0.499999, "OK"), (0.5, "NOK"), (0.7, "NOK"), (1.0, "NOK")]
)
def test_an_anomaly_models_threshold_is_its_rule(score: float, decision: str) -> None:
    verdict = _judge(score)
    assert verdict.decision == decision
    assert [(one.name, one.decision, one.seen) for one in verdict.rules] == [("anomaly", decision, score)]


def test_a_score_that_is_no_number_is_undefined_and_clears_what_was_confirmed() -> None:
    judge = Judge([], Confirm(k=1, n=2))
    assert _judge(0.9, judge).decision == "NOK"
    verdict = judge.judge(Findings(undefined="nan"), width=9, height=9, time_s=0)
    assert (verdict.decision, verdict.reasons[0].code) == ("UNDEFINED", "nan")
    with pytest.raises(ValueError, match="never normal"):
        Anomaly(math.nan)


def test_an_anomaly_is_confirmed_as_every_rule() -> None:
    judge = Judge([], Confirm(k=2, n=2))
    assert [_judge(score, judge).decision for score in (0.9, 0.9, 0.1, 0.1)] == [
        "UNDEFINED",
        "NOK",
        "OK",
        "OK",
    ]


def test_an_answer_of_nothing_that_could_be_judged_is_undefined() -> None:
    verdict = Judge([]).judge(Findings(), width=9, height=9, time_s=0)
    assert (verdict.decision, verdict.reasons[0].code) == ("UNDEFINED", "rule_not_evaluable")


def test_the_smallest_area_is_that_of_the_mask_or_of_the_turned_box_and_not_of_the_box_around_it() -> None:
    rule = _rule(count={"labels": ["tear"], "at_most": 0}, min_area_px=60)
    box, score, class_id = (
        np.array([[0, 0, 10, 10]], np.float32),
        np.array([0.9], np.float32),
        np.zeros(1, np.int32),
    )
    full = Detections(box, score, class_id, ("tear",))
    assert rule.judge(Findings(full), 20, 20).decision == "NOK"
    values = np.full((10, 10), -1, np.float32)
    values[:, :5] = 1
    half = Detections(box, score, class_id, ("tear",), masks=(Grid(values, 1, 1, 0, 0, (0, 0, 10, 10)),))
    assert half.areas.tolist() == [50]
    assert rule.judge(Findings(half), 20, 20).decision == "OK"
    corners = np.array([[[5, 0], [10, 5], [5, 10], [0, 5]]], np.float32)
    turned = Detections(
        box, score, class_id, ("tear",), corners=corners, angles=np.array([0.785], np.float32)
    )
    assert turned.areas.tolist() == [50]
    assert rule.judge(Findings(turned), 20, 20).decision == "OK"
