from __future__ import annotations

from edge_infer.remote.rate import KNOWN, TOGETHER, Rates


def _count(rates: Rates, verb: str, who: str, times: int, now_s: float = 0.0) -> int:
    return sum(rates.allows(verb, who, 60, now_s) for _ in range(times))


def test_each_requester_and_each_verb_has_its_own_measure() -> None:
    rates = Rates()
    assert _count(rates, "ping", "a", 100) == 60
    assert _count(rates, "ping", "b", 100) == 60
    assert _count(rates, "reload", "a", 100) == 60


def test_a_second_later_one_more_is_allowed() -> None:
    rates = Rates()
    _count(rates, "ping", "a", 100)
    assert _count(rates, "ping", "a", 10, 1.0) == 1
    assert _count(rates, "ping", "a", 100, 3600.0) == 60


def test_made_up_names_do_not_help_and_cost_no_memory() -> None:
    rates = Rates()
    allowed = sum(rates.allows("ping", f"name {i}", 60, 0.0) for i in range(KNOWN * 10))
    assert allowed == 60 * TOGETHER
    assert len(rates._own) == KNOWN
    # and not the other verbs' users
    assert _count(rates, "get_status", "a", 100) == 60
