from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from edge_infer.findings import Findings
from edge_infer.result import Decision
from edge_infer.rules.confirm import Confirm
from edge_infer.rules.count import CountRule
from edge_infer.rules.decision import Judge, Verdict
from edge_infer.rules.line_stop import LineStop, LineStopCounter
from edge_infer.rules.publish import Periodic, PublishPolicy
from tests.support.frames import found

CAP = ("cap", 0.9, (0, 0, 10, 10))
TEAR = ("tear", 0.9, (0, 0, 10, 10))


def rules() -> list[CountRule]:
    return [
        CountRule.model_validate_json(json.dumps(one))
        for one in (
            {"name": "has-cap", "count": {"labels": ["cap"], "at_least": 1}},
            {"name": "no-tear", "count": {"labels": ["tear"], "at_most": 0}},
        )
    ]


def judge(one: Judge, findings: Findings, time_s: float = 0.0) -> Verdict:
    return one.judge(findings, width=100, height=100, time_s=time_s)


def test_ok_needs_every_rule_to_hold() -> None:
    assert judge(Judge(rules()), found(CAP)).decision == "OK"
    verdict = judge(Judge(rules()), found(CAP, TEAR))
    assert verdict.decision == "NOK"
    assert [(rule.name, rule.decision, rule.seen) for rule in verdict.rules] == [
        ("has-cap", "OK", 1),
        ("no-tear", "NOK", 1),
    ]


def test_a_nan_is_undefined_and_rules_are_not_asked() -> None:
    verdict = judge(Judge(rules()), Findings(undefined="nan"))
    assert verdict.decision == "UNDEFINED"
    assert [reason.code for reason in verdict.reasons] == ["nan"]
    assert verdict.rules == ()


def test_what_cannot_be_evaluated_is_undefined() -> None:
    verdict = judge(Judge(rules()), Findings())
    assert (verdict.decision, verdict.reasons[0].code) == ("UNDEFINED", "rule_not_evaluable")


def test_a_broken_rule_wins_over_one_that_cannot_be_evaluated() -> None:
    far = {
        "name": "far",
        "count": {"labels": ["cap"], "at_most": 0},
        "zone": {"unit": "pixel", "polygon": [[500, 0], [600, 0], [600, 50]]},
    }
    both = [*rules(), CountRule.model_validate_json(json.dumps(far))]
    assert judge(Judge(both), found(TEAR)).decision == "NOK"
    assert judge(Judge(both), found(CAP)).decision == "UNDEFINED"


def test_without_rules_nothing_is_ok() -> None:
    assert judge(Judge([]), found(CAP)).decision == "UNDEFINED"


def run(one: Judge, inspections: str) -> list[Decision]:
    """o: holds, x: broken, ?: unusable."""
    decisions: list[Decision] = []
    for i, kind in enumerate(inspections):
        if kind == "?":
            decisions.append(one.undefined("stale", "old").decision)
        else:
            decisions.append(judge(one, found(CAP) if kind == "o" else found(), float(i)).decision)
    return decisions


@pytest.mark.parametrize(
    ("inspections", "expected"),
    [
        ("ooo", ["UNDEFINED", "UNDEFINED", "OK"]),
        ("xxx", ["UNDEFINED", "UNDEFINED", "NOK"]),
        ("xoxox", ["UNDEFINED", "UNDEFINED", "UNDEFINED", "UNDEFINED", "NOK"]),
        ("oooxxox", ["UNDEFINED", "UNDEFINED", "OK", "OK", "OK", "OK", "NOK"]),
        ("ooo?oxo", ["UNDEFINED", "UNDEFINED", "OK", "UNDEFINED", "UNDEFINED", "UNDEFINED", "UNDEFINED"]),
    ],
)
def test_nok_is_confirmed_by_3_of_5_and_before_that_can_be_known_it_is_undefined(
    inspections: str, expected: Sequence[Decision]
) -> None:
    assert run(Judge(rules(), Confirm(k=3, n=5)), inspections) == expected


def test_an_unusable_frame_clears_what_was_confirmed() -> None:
    assert run(Judge(rules(), Confirm(k=2, n=3)), "oox?x")[-1] == "UNDEFINED"


def test_nok_is_held_for_a_slow_reader_and_an_undefined_is_never_hidden_by_it() -> None:
    one = Judge(rules(), hold_s=1.0)
    assert judge(one, found(), 0.0).decision == "NOK"
    assert judge(one, found(CAP), 0.9).decision == "NOK"
    assert one.undefined("dark", "dark").decision == "UNDEFINED"
    assert judge(one, found(CAP), 1.0).decision == "OK"


def test_the_same_findings_and_times_give_the_same_decisions_again() -> None:
    first, again = (run(Judge(rules(), Confirm(k=2, n=4), 2.0), "oxoxx?ooooxo") for _ in range(2))
    assert first == again


def test_line_stop_is_told_once_a_run_and_again_after_an_ok() -> None:
    counter = LineStopCounter(LineStop(consecutive=3))
    decisions: list[Decision] = ["NOK", "UNDEFINED", "NOK", "NOK", "OK", "NOK", "NOK", "NOK"]
    assert [counter.add(one) for one in decisions] == [False, False, True, False, False, False, False, True]


def test_publish_every_change_and_period() -> None:
    decisions: list[Decision] = ["OK", "OK", "NOK", "NOK", "OK", "OK"]
    times = [0.0, 0.5, 0.6, 1.0, 1.1, 2.2]

    def published(policy: PublishPolicy) -> list[bool]:
        return [policy.wants(one, at) for one, at in zip(decisions, times, strict=True)]

    assert published(PublishPolicy("every")) == [True] * 6
    assert published(PublishPolicy("change")) == [True, False, True, False, True, False]
    assert published(PublishPolicy(Periodic(every_s=1))) == [True, False, True, False, True, True]
