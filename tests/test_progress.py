from __future__ import annotations

import time

import pytest

from edge_infer import progress
from edge_infer.progress import NEVER, Loop, Watch


class Told:
    def __init__(self) -> None:
        self.hangs: list[str] = []
        self.resumed: list[str] = []

    def watch(self, *loops: Loop) -> Watch:
        return Watch(
            lambda: loops,
            hangs=lambda loop: self.hangs.append(loop.name),
            resumed=lambda loop, _after_s: self.resumed.append(loop.name),
        )


def late(name: str = "a", *, patience_s: float = 0.0, group: str = "") -> Loop:
    loop = Loop(name, limit_s=0.0, patience_s=patience_s, group=group)
    loop.passed()
    time.sleep(0.002)
    return loop


def test_a_loop_that_comes_on_is_fed_for() -> None:
    told, loop = Told(), Loop("a", limit_s=1.0)
    watch = told.watch(loop)
    for _ in range(3):
        loop.passed()
        assert watch.look()
    assert told.hangs == []


def test_a_loop_that_does_not_is_told_once_and_is_a_reason_to_restart() -> None:
    told = Told()
    watch = told.watch(late())
    assert not watch.look()
    assert not watch.look()
    assert told.hangs == ["a"]
    assert [loop.name for loop in watch.hopeless] == ["a"]


def test_one_that_comes_back_is_told_and_fed_for_again() -> None:
    told, loop = Told(), late()
    watch = told.watch(loop)
    watch.look()
    loop.rest()
    assert watch.look()
    assert (told.resumed, watch.hung) == (["a"], {})


def test_who_has_not_begun_waits_or_has_ended_does_not_hang() -> None:
    told, waits, rests = Told(), Loop("a", limit_s=0.0), Loop("b", limit_s=0.0)
    waits.passed(wait_s=10.0)
    rests.passed()
    rests.rest()
    assert told.watch(waits, rests, Loop("c", limit_s=0.0)).look()
    assert told.hangs == []


def test_one_with_patience_is_told_long_before_it_is_a_reason() -> None:
    told = Told()
    watch = told.watch(late("a", patience_s=0.05), late("b", patience_s=NEVER))
    assert watch.look()
    assert told.hangs == ["a", "b"]
    time.sleep(0.05)
    assert not watch.look()
    assert [loop.name for loop in watch.hopeless] == ["a"]


def test_of_a_group_all_must_hang() -> None:
    told, other = Told(), Loop("b", limit_s=0.0, group="cameras")
    watch = told.watch(late("a", group="cameras"), other)
    assert watch.look()
    other.passed()
    time.sleep(0.002)
    assert not watch.look()
    other.rest()
    assert watch.look()


def test_after_a_pause_of_the_whole_process_nobody_is_blamed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "GAP_S", 0.05)
    told, loop = Told(), Loop("a", limit_s=0.0)
    watch = told.watch(loop)
    loop.passed()
    time.sleep(0.06)
    assert watch.look()
    assert told.hangs == []
    for _ in range(3):
        time.sleep(0.02)
        well = watch.look()
    assert not well
    assert told.hangs == ["a"]


def test_a_check_point_costs_nothing_to_speak_of() -> None:
    loop, count = Loop("a", limit_s=1.0), 100_000
    began = time.perf_counter()
    for _ in range(count):
        loop.passed()
    per_pass_s = (time.perf_counter() - began) / count
    began = time.perf_counter()
    for _ in range(count):
        time.monotonic()
    assert per_pass_s < 50 * (time.perf_counter() - began) / count
