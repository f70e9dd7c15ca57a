"""When a frame was taken, from its timestamp and its arrival."""

from __future__ import annotations

import pytest

from edge_infer.sources._capture_clock import CaptureClock, Dating


def test_without_a_timestamp_it_is_the_arrival() -> None:
    assert CaptureClock().taken(None, 7.0) == 7.0


def test_a_frame_that_waited_is_as_old_as_it_waited() -> None:
    clock = CaptureClock()
    assert clock.taken(0.0, 100.0) == 100.0
    assert clock.taken(1.0, 103.0) == 101.0
    assert clock.taken(2.0, 103.0) == 102.0


def test_a_frame_is_never_taken_after_it_arrived() -> None:
    clock = CaptureClock()
    clock.taken(0.0, 100.0)
    assert clock.taken(1.0, 100.2) == 100.2
    assert clock.taken(1.1, 100.3) == pytest.approx(100.3)


def test_clocks_may_drift() -> None:
    clock = CaptureClock()
    for second in range(3600):
        # the camera's clock loses 0.1 %, more than any quartz
        arrived_s = second * 1.001 + 50
        assert arrived_s - clock.taken(float(second), arrived_s) < 0.05


def test_a_long_hold_up_does_not_make_old_frames_new() -> None:
    clock = CaptureClock()
    for second in range(100):
        clock.taken(float(second), second + 50.0)
    assert clock.taken(100.0, 150.0 + 40) == 150.0
    assert clock.taken(101.0, 150.0 + 40) == 151.0


def test_a_camera_that_starts_its_time_anew_is_followed() -> None:
    clock = CaptureClock()
    clock.taken(50_000.0, 100.0)
    assert clock.taken(0.0, 101.0) == 101.0
    assert clock.taken(1.0, 102.5) == 102.0


@pytest.mark.parametrize("back_s", [0.5, 2.0, 30.0])
def test_a_camera_that_sets_its_time_back_a_little_is_followed_at_once(back_s: float) -> None:
    clock = CaptureClock()
    for count in range(100):
        clock.taken(1000 + count / 25, 50 + count / 25)
    for count in range(100, 110):
        arrived_s = 50 + count / 25
        assert arrived_s - clock.taken(1000 - back_s + count / 25, arrived_s) < 0.001


def test_setting_the_time_back_does_not_make_held_up_frames_new() -> None:
    clock = CaptureClock()
    for count in range(100):
        clock.taken(1000 + count / 25, 50 + count / 25)
    # a stall of 3 s; what lay in a buffer then comes at once, and its time is set back in the middle of it
    for count in range(100, 110):
        clock.taken(1000 + count / 25, 57.0)
    for count in range(110, 120):
        assert clock.taken(500 + count / 25, 57.0) == pytest.approx(50 + count / 25, abs=0.05)


def test_by_the_cameras_clock_its_own_delay_is_seen() -> None:
    dating = Dating()
    taken = [dating.taken(100 + count / 25, 99.8 + count / 25) for count in range(50)]
    assert taken[-1] == pytest.approx(99.8 + 49 / 25)
    assert dating.agrees


def test_times_go_on_whatever_the_cameras_clock_does() -> None:
    dating = Dating()
    told = [None] * 20 + [-0.9] * 20 + [0.5] * 20 + [None] * 20 + [3600.0] * 20 + [-0.9] * 20 + [-1.5] * 20
    taken = [
        dating.taken(100 + count / 25, None if one is None else 100 + count / 25 + one)
        for count, one in enumerate(told)
    ]
    assert taken == sorted(set(taken))
    assert all(one <= 100 + count / 25 for count, one in enumerate(taken))


@pytest.mark.parametrize("ahead_s", [-7200.0, -1.1, 1.1, 86400.0])
def test_a_camera_whose_clock_is_wrong_is_dated_by_arrival(ahead_s: float) -> None:
    dating = Dating()
    for count in range(50):
        assert dating.taken(100 + count / 25, 100 + count / 25 + ahead_s) == 100 + count / 25
    assert not dating.agrees
