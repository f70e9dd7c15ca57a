from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from types import SimpleNamespace

import pytest

from edge_infer import progress
from edge_infer.progress import GAP_S, NEVER, Loop, Watch


class Clock:
    """Stands still unless told: a busy machine must not make a loop late."""

    now_s = 1000.0

    def wait(self, seconds: float) -> None:
        self.now_s += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    one = Clock()
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: one.now_s))
    return one


class Told:
    def __init__(self) -> None:
        self.hangs: list[str] = []
        self.resumed: list[str] = []

    def watch(self, *loops: Loop) -> Watch:
        return self.watch_all(lambda: loops)

    def watch_all(self, loops: Callable[[], Iterable[Loop]]) -> Watch:
        return Watch(
            loops,
            hangs=lambda loop: self.hangs.append(loop.name),
            resumed=lambda loop, _after_s: self.resumed.append(loop.name),
        )


def late(name: str = "a", *, patience_s: float = 0.0, group: str = "") -> Loop:
    """By a tenth of a second."""
    loop = Loop(name, limit_s=-0.1, patience_s=patience_s, group=group)
    loop.passed()
    return loop


def test_a_loop_that_comes_on_is_fed_for(clock: Clock) -> None:
    told, loop = Told(), Loop("a", limit_s=1.0)
    watch = told.watch(loop)
    for _ in range(3):
        loop.passed()
        clock.wait(0.9)
        assert watch.look()
    assert told.hangs == []


@pytest.mark.usefixtures("clock")
def test_a_loop_that_does_not_is_told_once_and_is_a_reason_to_restart() -> None:
    told = Told()
    watch = told.watch(late())
    assert not watch.look()
    assert not watch.look()
    assert told.hangs == ["a"]
    assert [loop.name for loop in watch.hopeless] == ["a"]


@pytest.mark.usefixtures("clock")
def test_one_that_comes_back_is_told_and_fed_for_again() -> None:
    told, loop = Told(), late()
    watch = told.watch(loop)
    watch.look()
    loop.rest()
    assert watch.look()
    assert (told.resumed, watch.hung) == (["a"], {})


@pytest.mark.usefixtures("clock")
def test_one_that_was_taken_away_while_it_hung_is_not_told_to_have_come_back() -> None:
    told, loops = Told(), [late()]
    watch = told.watch_all(lambda: loops)
    assert not watch.look()
    loops.clear()
    assert watch.look()
    assert (told.hangs, told.resumed, watch.hung) == (["a"], [], {})


def test_who_has_not_begun_waits_or_has_ended_does_not_hang(clock: Clock) -> None:
    told, waits, rests = Told(), Loop("a", limit_s=0.0), Loop("b", limit_s=0.0)
    waits.passed(wait_s=10.0)
    rests.passed()
    rests.rest()
    watch = told.watch(waits, rests, Loop("c", limit_s=0.0))
    for _ in range(19):
        clock.wait(0.5)
        assert watch.look()
    assert told.hangs == []
    clock.wait(0.6)
    assert not watch.look(), "a wait with an end is over"
    assert told.hangs == ["a"]


def test_one_with_patience_is_told_long_before_it_is_a_reason(clock: Clock) -> None:
    told = Told()
    watch = told.watch(late("a", patience_s=0.5), late("b", patience_s=NEVER))
    assert watch.look()
    assert told.hangs == ["a", "b"]
    clock.wait(0.4)
    assert not watch.look()
    assert [loop.name for loop in watch.hopeless] == ["a"]


def test_of_a_group_all_must_hang(clock: Clock) -> None:
    told, other = Told(), Loop("b", limit_s=0.1, group="cameras")
    watch = told.watch(late("a", group="cameras"), other)
    assert watch.look()
    other.passed()
    assert watch.look()
    clock.wait(0.2)
    assert not watch.look()
    other.rest()
    assert watch.look()


def test_after_a_pause_of_the_whole_process_nobody_is_blamed_at_once(clock: Clock) -> None:
    told, loop = Told(), Loop("a", limit_s=0.1)
    watch = told.watch(loop)
    loop.passed()
    clock.wait(GAP_S + 1)
    assert watch.look()
    clock.wait(GAP_S * 0.9)
    assert watch.look()
    assert told.hangs == []
    clock.wait(GAP_S * 0.2)
    assert not watch.look()
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
