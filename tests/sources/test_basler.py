"""Basler's own emulated cameras, inside pylon."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from pydantic import ValidationError

from edge_infer.errors import SourceError, SourceStalledError
from edge_infer.frame import Frame
from edge_infer.settings import Secrets
from edge_infer.sources import OnDemand, Source
from edge_infer.sources.basler import Basler
from tests.support.basler_camera import EMULATED, Bare, Pulsed, Stubborn

SERIAL = "0815-0000"
FOLDER = {"TestImageSelector": "Off", "ImageFileMode": "On"}


@contextmanager
def opened(kind: type[Basler] = Basler, **options: Any) -> Iterator[Source]:
    settings = kind.model_validate(
        {"type": "basler", "serial": SERIAL, "width": 320, "height": 240, **options}
    )
    with closing(settings.open("top", Secrets(os.environ | EMULATED))) as source:
        yield source


def read(source: Source) -> Frame:
    frame = source.read(5.0)
    assert frame is not None
    return frame


def refused(kind: type[Basler] = Basler, **options: Any) -> str:
    with pytest.raises(SourceError) as caught, opened(kind, **options):
        pass
    assert "\n" not in str(caught.value)
    return str(caught.value)


def fire(source: Source, at_s: float | None = None) -> None:
    assert isinstance(source, OnDemand)
    source.fire(time.monotonic() if at_s is None else at_s)


def test_a_camera_that_runs_freely_gives_its_newest_picture() -> None:
    with opened(frame_rate=50.0) as source:
        first = read(source)
        assert first.pixels.shape == (240, 320, 3)
        time.sleep(1.0)
        frame = read(source)
        assert time.monotonic() - frame.time_s < 0.4
        assert frame.seq - first.seq > 30
        assert frame.damaged is None


@pytest.mark.parametrize("rate", [7.5, 29.97])
def test_odd_frame_rates_are_kept(rate: float) -> None:
    with opened(frame_rate=rate) as source:
        read(source)
        seen = [read(source) for _ in range(12)]
    got = (seen[-1].seq - seen[0].seq) / (seen[-1].time_s - seen[0].time_s)
    assert got == pytest.approx(rate, rel=0.25)


@pytest.mark.parametrize("name", ["BGR8Packed", "RGB8Packed"])
def test_colours_come_out_as_they_were_put_in(tmp_path: Path, name: str) -> None:
    picture = np.zeros((240, 320, 3), np.uint8)
    picture[:, :100], picture[:, 100:200], picture[:, 200:] = (250, 10, 20), (30, 240, 40), (50, 60, 230)
    assert cv2.imwrite(str(tmp_path / "1.png"), picture)
    features = {**FOLDER, "ImageFilename": str(tmp_path / "1.png")}
    with opened(pixel_format=name, features=features) as source:
        frame = read(source)
    assert np.array_equal(frame.pixels, picture)


@pytest.mark.parametrize("name", ["Mono8", "Mono12", "Mono16", "BayerRG8", "BayerGB12"])
def test_each_kind_of_pixel_is_read(name: str) -> None:
    with opened(pixel_format=name) as source:
        pixels = read(source).pixels
    assert pixels.shape == (240, 320, 3)
    assert pixels.max() > 200
    assert pixels.min() < 60


def test_pixels_that_cannot_be_read_are_told() -> None:
    with opened(pixel_format="BGRA8Packed") as source, pytest.raises(SourceError, match="cannot be read"):
        read(source)


def test_incomplete_pictures_are_damaged_and_never_looked_at() -> None:
    features = {"ForceFailedBufferCount": 3, "ForceFailedBuffer": True}
    with opened(trigger="software", features=features) as source:
        frames = []
        for _ in range(5):
            fire(source)
            frames.append(read(source))
    damaged = [frame for frame in frames if frame.damaged]
    assert len(damaged) == 3
    assert {frame.damaged for frame in damaged} == {"The buffer was incompletely grabbed."}
    assert not any(frame.pixels.any() for frame in damaged)


def test_a_part_that_asks_has_its_own_picture_and_nothing_comes_unasked() -> None:
    with opened(trigger="software") as source:
        with pytest.raises(SourceStalledError):
            source.read(0.3)
        asked = []
        for _ in range(50):
            asked.append(time.monotonic())
            fire(source, asked[-1])
        frames = [read(source) for _ in range(50)]
        with pytest.raises(SourceStalledError):
            source.read(0.3)
    assert all(frame.time_s >= at_s for frame, at_s in zip(frames, asked, strict=True))
    assert not any(frame.damaged for frame in frames[:8])


def test_a_picture_is_taken_when_it_is_due() -> None:
    with opened(trigger="software") as source:
        due_s = time.monotonic() + 0.4
        fire(source, due_s)
        frame = read(source)
    assert 0 <= frame.time_s - due_s < 0.4


def test_pictures_of_its_line_are_parts() -> None:
    with opened(Pulsed, trigger="line", line="Software") as source:
        frames = [read(source) for _ in range(5)]
    for frame in frames:
        (trigger,) = frame.triggers
        assert trigger.time_s == frame.time_s
    seqs = [frame.seq for frame in frames]
    assert seqs == list(range(seqs[0], seqs[0] + 5)), "none is dropped"


def test_a_line_that_gives_no_signal_gives_no_picture_and_the_camera_stays() -> None:
    with opened(trigger="line", line="Line1", read_timeout_s=0.5) as source:
        for _ in range(4):
            with pytest.raises(SourceStalledError):
                source.read(0.3)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"serial": "none"}, "none is not there; cameras that answer: 0815-0000 (Emulation), 0815-0001"),
        ({"exposure_us": 5e7}, "cannot set ExposureTime to 50000000.0"),
        ({"pixel_format": "Mono9"}, "cannot set PixelFormat to Mono9"),
        ({"features": {"Nonsense": 1}}, "has no feature Nonsense; pylon Viewer"),
        ({"features": {"Gain": "much"}}, "cannot set Gain to much"),
        ({"trigger": "line", "line": "Line9"}, "cannot set TriggerSource to Line9"),
        ({"width": 60000}, "cannot set Width to 60000"),
    ],
)
def test_what_the_camera_refuses_is_told_with_what_it_allows(options: dict[str, Any], text: str) -> None:
    message = refused(**options)
    assert message.startswith("camera top: ")
    assert text in message
    with opened() as source:
        read(source)


def test_a_value_that_silently_stays_is_an_error() -> None:
    assert "cannot set Gain to 3.0: it stays 7.0" in refused(Stubborn, gain_db=3.0)


def test_a_missing_library_is_told_with_what_to_install() -> None:
    assert "pypylon is not installed" in (message := refused(Bare))
    assert "pip install 'edge-infer[basler]'" in message


def test_keys_that_do_not_belong_together_are_refused() -> None:
    with pytest.raises(ValidationError, match="has no frame_rate"):
        Basler(type="basler", serial=SERIAL, trigger="software", frame_rate=5.0)
