from __future__ import annotations

from edge_infer.evidence.keeping import Keeping
from edge_infer.evidence.settings import EvidenceSettings
from edge_infer.result import Reason, ReasonCode, Result, RuleOutcome
from tests.support.results import result


def keeping(ok_every: int = 1000, per_minute: int = 3) -> Keeping:
    return Keeping(EvidenceSettings(ok_every=ok_every, per_minute=per_minute))


def broken(rule: str) -> Result:
    return result(decision="NOK").model_copy(
        update={"rules": (RuleOutcome(name=rule, decision="NOK", seen=0),)}
    )


def undefined(code: ReasonCode) -> Result:
    return result(decision="UNDEFINED").model_copy(update={"reasons": (Reason(code=code, text="?"),)})


def test_of_the_ok_results_every_so_many_is_kept() -> None:
    policy = keeping(ok_every=3)
    assert [policy.wants(result(), second) for second in range(7)] == [False, False, True] * 2 + [False]


def test_of_a_run_of_trouble_at_most_so_many_a_minute_are_kept() -> None:
    policy = keeping(per_minute=3)
    kept = [second for second in range(180) if policy.wants(result(decision="NOK"), second)]
    assert kept == [0, 1, 2, 60, 61, 62, 120, 121, 122]


def test_the_first_of_a_new_kind_of_trouble_is_always_kept() -> None:
    policy = keeping(per_minute=1)
    assert policy.wants(broken("no-tear"), 0)
    assert not policy.wants(broken("no-tear"), 1)
    assert policy.wants(broken("has-cap"), 2)
    assert policy.wants(undefined("damaged"), 3)
    assert policy.wants(undefined("settling"), 4)
    assert not policy.wants(undefined("damaged"), 5)


def test_a_line_where_every_second_part_is_bad_does_not_keep_them_all() -> None:
    policy = keeping(per_minute=3)
    kept = 0
    for tenth in range(600):
        kept += policy.wants(result(decision="NOK") if tenth % 2 else result(), tenth / 10)
    assert kept == 3


def test_trouble_that_comes_back_after_a_minute_is_new() -> None:
    policy = keeping(per_minute=0)
    assert policy.wants(broken("no-tear"), 0)
    assert not policy.wants(broken("no-tear"), 59)
    assert not policy.wants(broken("no-tear"), 118)
    assert policy.wants(broken("no-tear"), 178)


def test_many_kinds_of_trouble_need_no_more_memory() -> None:
    policy = keeping(per_minute=1)
    for number in range(500):
        policy.wants(broken(f"rule-{number}"), number)
    assert len(policy._seen) <= 64
