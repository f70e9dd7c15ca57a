from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest

from edge_infer import clock


class Wall:
    """A wall clock that somebody sets."""

    def __init__(self) -> None:
        self.by = timedelta()

    def now(self) -> datetime:
        return datetime.now(UTC) + self.by

    def set(self, **by: float) -> None:
        self.by += timedelta(**by)


@pytest.fixture
def wall(monkeypatch: pytest.MonkeyPatch) -> Wall:
    wall = Wall()
    monkeypatch.setattr(clock, "now", wall.now)
    return wall


def test_the_kernel_says_whether_the_clock_is_kept() -> None:
    assert clock.synced() in (True, False, None)


@pytest.mark.parametrize("hours", [5, -5])
def test_a_clock_that_is_set_is_noticed_once(wall: Wall, hours: float) -> None:
    step = clock.Step()
    assert step.look() is None
    wall.set(hours=hours)
    assert step.look() == pytest.approx(hours * 3600, abs=0.5)
    assert step.look() is None


def test_a_clock_that_is_kept_takes_no_step(wall: Wall) -> None:
    step = clock.Step()
    for _ in range(10):
        # a time service that hurries
        wall.set(seconds=0.5)
        assert step.look() is None


def test_a_clock_that_is_set_all_the_time_is_told_once_a_minute(wall: Wall) -> None:
    step = clock.Step()
    told = 0
    for _ in range(100):
        wall.set(seconds=10)
        told += step.look() is not None
    assert told == 1


def test_set_forward_the_clock_makes_nothing_older_until_what_was_stamped_before_is(wall: Wall) -> None:
    ageing = clock.Ageing(longest_s=0.2)
    before_s = wall.now().timestamp()
    wall.set(hours=5)
    assert ageing.now_s() == pytest.approx(before_s, abs=0.1)
    time.sleep(0.25)
    assert ageing.now_s() == pytest.approx(wall.now().timestamp(), abs=0.1)


def test_set_back_the_clock_is_believed_at_once(wall: Wall) -> None:
    ageing = clock.Ageing(longest_s=1000)
    wall.set(hours=-5)
    assert ageing.now_s() == pytest.approx(wall.now().timestamp(), abs=0.1)
    # forward again, to where it was: what was stamped before is as old as it was
    wall.set(hours=5)
    assert ageing.now_s() == pytest.approx(wall.now().timestamp() - 5 * 3600, abs=0.1)
