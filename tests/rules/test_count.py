from __future__ import annotations

import json

import pytest
from pydantic import ValidationError

from edge_infer.findings import Findings
from edge_infer.rules.count import CountRule
from tests.support.frames import found


def rule(**keys: object) -> CountRule:
    return CountRule.model_validate_json(json.dumps({"name": "r", **keys}))


LEFT, RIGHT = (0, 0, 20, 40), (150, 50, 190, 90)


def test_at_least_is_broken_by_one_too_few() -> None:
    three = rule(count={"labels": ["bottle"], "at_least": 2})
    assert three.judge(found(("bottle", 0.9, LEFT)), 200, 100).decision == "NOK"
    both = found(("bottle", 0.9, LEFT), ("bottle", 0.8, RIGHT))
    assert three.judge(both, 200, 100).decision == "OK"
    assert three.judge(both, 200, 100).seen == 2


def test_at_most_is_broken_by_one_too_many() -> None:
    none = rule(count={"labels": ["tear"], "at_most": 0})
    assert none.judge(found(), 200, 100).decision == "OK"
    assert none.judge(found(("tear", 0.3, LEFT)), 200, 100).decision == "NOK"


def test_labels_are_counted_together_and_others_not_at_all() -> None:
    either = rule(count={"labels": ["cap", "lid"], "at_least": 2, "at_most": 2})
    seen = found(("cap", 0.9, LEFT), ("lid", 0.9, RIGHT), ("bottle", 0.9, RIGHT))
    assert either.judge(seen, 200, 100).seen == 2


def test_a_score_equal_to_the_limit_counts() -> None:
    least = rule(count={"labels": ["cap"], "min_score": 0.3, "at_least": 1})
    assert least.judge(found(("cap", 0.3, LEFT)), 200, 100).decision == "OK"
    assert least.judge(found(("cap", 0.299, LEFT)), 200, 100).decision == "NOK"


def test_small_boxes_are_not_counted() -> None:
    large = rule(count={"labels": ["tear"], "at_most": 0}, min_area_px=801)
    assert large.judge(found(("tear", 0.9, LEFT)), 200, 100).decision == "OK"
    assert large.judge(found(("tear", 0.9, RIGHT)), 200, 100).decision == "NOK"


@pytest.mark.parametrize(
    "zone",
    [
        {"unit": "fraction", "polygon": [[0.5, 0], [1, 0], [1, 1], [0.5, 1]]},
        {"unit": "pixel", "polygon": [[100, 0], [200, 0], [200, 100], [100, 100]]},
    ],
)
def test_only_objects_with_their_centre_in_the_zone_count(zone: dict[str, object]) -> None:
    right = rule(count={"labels": ["cap"], "at_least": 1}, zone=zone)
    assert right.judge(found(("cap", 0.9, LEFT)), 200, 100).decision == "NOK"
    assert right.judge(found(("cap", 0.9, RIGHT)), 200, 100).decision == "OK"


def test_a_zone_outside_the_frame_is_not_evaluable_rather_than_empty() -> None:
    far = rule(
        count={"labels": ["tear"], "at_most": 0},
        zone={"unit": "pixel", "polygon": [[500, 0], [600, 0], [600, 50]]},
    )
    assert far.judge(found(("tear", 0.9, LEFT)), 200, 100).decision == "UNDEFINED"


def test_a_network_that_finds_no_boxes_cannot_be_counted() -> None:
    outcome = rule(count={"labels": ["cap"], "at_most": 0}).judge(Findings(), 200, 100)
    assert (outcome.decision, outcome.seen) == ("UNDEFINED", None)


@pytest.mark.parametrize(
    "keys",
    [
        {"count": {"labels": ["a"]}},
        {"count": {"labels": [], "at_most": 0}},
        {"count": {"labels": ["a"], "at_least": 3, "at_most": 2}},
        {"count": {"labels": ["a"], "at_least": -1}},
        {"count": {"labels": ["a"], "at_least": True}},
        {"count": {"labels": ["a"], "at_most": 0, "min_score": 30}},
        {"count": {"labels": ["a"], "at_most": 0}, "zone": {"polygon": [[0, 0], [1, 1]]}},
        {"count": {"labels": ["a"], "at_most": 0}, "zone": {"polygon": [[0, 0], [0.5, 0.5], [1, 1]]}},
        {"count": {"labels": ["a"], "at_most": 0}, "zone": {"polygon": [[0, 0], [640, 0], [640, 480]]}},
    ],
)
def test_a_rule_that_says_nothing_or_the_impossible_is_refused(keys: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        rule(**keys)
