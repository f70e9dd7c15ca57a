"""When a frame was taken, from its timestamp and its arrival."""

from __future__ import annotations

import pytest

from edge_infer.sources._capture_clock import CaptureClock


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
