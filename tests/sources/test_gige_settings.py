"""What an industrial camera is set to, read back; and what is not there."""

from __future__ import annotations

import time

import numpy as np
import pytest

from tests.support.gige_camera import GigeCamera
from tests.support.gige_source import OTHER, camera, opened, other, python, read, refused

__all__ = ["camera", "other"]


# -- settings


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            {"features": {"TriggerActivation": "Falling"}},
            "cannot set TriggerActivation to Falling: there is no such entry; it can be RisingEdge",
        ),
        (
            {"features": {"ExposureTimeAbs": -5}},
            "cannot set ExposureTimeAbs to -5: that is out of range; it can be 10 to 10000000",
        ),
        ({"features": {"Stubborn": 500}}, "cannot set Stubborn to 500: it stays 100; it can be 0 to 1000"),
        ({"features": {"GainRaw": "high"}}, "cannot set GainRaw to high: it is of kind integer"),
        ({"features": {"GainRaw": True}}, "cannot set GainRaw to true: it is of kind integer"),
        ({"features": {"DeviceModelName": "x"}}, "cannot set DeviceModelName to x: it can only be read now"),
        ({"features": {"Absent": 1}}, "this camera has no feature Absent; feature names are in the camera's"),
        ({"width": 5000}, "cannot set Width to 5000: that is out of range; it can be 1 to 2048"),
        ({"exposure_us": 1}, "cannot set exposure_us to 1: that is out of range; it can be 10 to 1e+07"),
        ({"gain_db": 50}, "cannot set Gain to 50: that is out of range; it can be 0 to 24"),
        ({"frame_rate": 2000}, "cannot set frame_rate to 2000: that is out of range; it can be 0.1 to 1000"),
        (
            {"trigger": "line", "line": "Line7"},
            "cannot set TriggerSource to Line7: there is no such entry; it can be Line0, Software",
        ),
    ],
)
@pytest.mark.usefixtures("camera")
def test_a_value_that_the_camera_does_not_take_is_an_error(options: dict[str, object], text: str) -> None:
    assert refused(**options).startswith(f"camera top: 127.0.0.1: {text}")


def test_what_is_written_reaches_the_camera() -> None:
    """The library's ramp is twice as bright at ten times the exposure, and once more with each raw gain."""
    with GigeCamera(OTHER, "T2", "--own-picture"):
        for options, scale in ((dict[str, object](), 2), ({"features": {"GainRaw": 1}}, 3)):
            with opened(address=OTHER, exposure_us=100000, width=300, **options) as source:
                frame = source.read(5.0)
            assert frame is not None
            grey = frame.pixels[:, :, 0].astype(int)
            rising = (np.diff(grey, axis=1) > 0) & (grey[:, 1:] < 250)
            assert set(np.diff(grey, axis=1)[rising]) == {scale}


@pytest.mark.usefixtures("camera")
def test_a_region_of_the_sensor_is_set_within_its_limits() -> None:
    with opened(width=2048, height=16) as source:
        assert read(source)[0].pixels.shape == (16, 2048, 3)
    with opened(width=100, height=60, offset_x=1900, offset_y=30) as source:
        assert read(source)[0].pixels.shape == (60, 100, 3)


# -- what is not there


@pytest.mark.usefixtures("camera")
def test_an_absent_camera_is_one_line_with_those_that_are_there() -> None:
    started_s = time.monotonic()
    there = "cameras that answer a search: 127.0.0.1 (Aravis Fake, serial T1, id Aravis-Fake-T1)"
    assert refused(address="127.0.0.77") == (
        f"camera top: 127.0.0.77 does not answer: GigEVision read_memory timeout; {there}"
    )
    assert refused(address=None, serial="T9") == f"camera top: T9 is not there; {there}"
    assert time.monotonic() - started_s < 7


def test_without_the_library_the_message_says_what_to_install() -> None:
    process = python(
        "import edge_infer.sources._genicam.library as aravis; aravis.LIBRARY = 'libaravis-absent.so.0'\n"
        "try: open_it()\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    out, _ = process.communicate(timeout=20)
    assert out.startswith("SourceError camera top: libaravis-absent.so.0 is not installed: ")
    assert "sudo apt-get install libaravis-0.8-0" in out
