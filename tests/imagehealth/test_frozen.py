"""A camera that repeats itself is found; one that looks at something still is not."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edge_infer.frame import Frame
from edge_infer.imagehealth.frozen import Stillness
from edge_infer.settings import Secrets
from edge_infer.sources.files import Files
from edge_infer.sources.rtsp import Rtsp
from edge_infer.sources.synthetic import Synthetic
from tests.support.frames import frame
from tests.support.rtsp_camera import RtspCamera

NOISE = np.random.default_rng(1)
FPS = 10


def live(seq: int, **keys: object) -> Frame:
    """A static scene with the noise of a good sensor."""
    one = frame(seq, time_s=seq / FPS)
    noise = (NOISE.random(one.pixels.shape) < 0.01).astype(np.uint8)
    return replace(one, pixels=one.pixels + noise, **keys)  # type: ignore[arg-type]


def repeated(one: Frame, seqs: range) -> list[Frame]:
    return [replace(one, seq=seq, time_s=seq / FPS, pixels=one.pixels.copy()) for seq in seqs]


def first_frozen(stillness: Stillness, frames: list[Frame]) -> int | None:
    """Its number."""
    return next((one.seq for one in frames if stillness.see(one) is not None), None)


def test_c11_a_frozen_recording_is_told_after_the_time_and_not_before(shared: Path) -> None:
    stillness = Stillness(2.0)
    frames = list(recording(shared / "cases/open/C11/freeze_after_30.avi"))
    told = [(one.time_s, stillness.see(one)) for one in frames]
    last_new_s = told[29][0]
    assert {text for time_s, text in told if time_s - last_new_s < 1.999} == {None}
    frozen = [text for time_s, text in told if time_s - last_new_s > 2.001]
    assert len(frozen) > 30
    assert all(text is not None and "there was no new picture" in text for text in frozen)


def recording(path: Path) -> Iterator[Frame]:
    source = Files(type="files", path=path).open("tape", Secrets({}))
    while (one := source.read(1)) is not None:
        yield one
    source.close()


def test_a_static_scene_with_noise_is_not_frozen() -> None:
    assert first_frozen(Stillness(2.0), [live(seq) for seq in range(200)]) is None


@pytest.mark.parametrize("name", ["bottle-detection", "car-detection"])
def test_real_recordings_are_not_frozen(shared: Path, name: str) -> None:
    stillness = Stillness(2.0)
    assert not any(stillness.see(one) for one in recording(shared / f"assets/videos/{name}.mp4"))


def test_runs_of_identical_pictures_as_h264_makes_them_are_not_frozen() -> None:
    frames: list[Frame] = []
    while len(frames) < 300:
        frames += repeated(live(0), range(len(frames), len(frames) + 8))
    assert first_frozen(Stillness(0.5), frames) is None


def test_time_alone_is_not_frozen_a_slow_camera_needs_ten_pictures() -> None:
    slow = [replace(one, time_s=float(one.seq * 5)) for one in repeated(live(0), range(12))]
    assert first_frozen(Stillness(2.0), slow) == 9


def test_ten_pictures_alone_are_not_frozen_a_fast_camera_needs_the_time() -> None:
    fast = [replace(one, time_s=one.seq / 100) for one in repeated(live(0), range(300))]
    assert first_frozen(Stillness(2.0), fast) == 200


def test_a_new_picture_ends_it() -> None:
    stillness = Stillness(2.0)
    assert first_frozen(stillness, repeated(live(0), range(40))) == 20
    assert stillness.see(live(41)) is None
    assert first_frozen(stillness, repeated(live(42), range(42, 80))) == 62


def test_a_change_of_one_pixel_is_a_change() -> None:
    frames = repeated(live(0), range(100))
    for one in frames:
        # none of those that are compared first
        one.pixels[37, 51, 1] = one.seq
    assert first_frozen(Stillness(2.0), frames) is None


def test_still_pictures_are_never_frozen(tmp_path: Path, shared: Path) -> None:
    photo = (shared / "assets/photos/pets.jpg").read_bytes()
    for number in range(12):
        (tmp_path / f"{number}.jpg").write_bytes(photo)
    stillness = Stillness(0.5)
    frames = list(recording(tmp_path))
    assert len(frames) == 12
    assert first_frozen(stillness, frames) is None
    again = [replace(one, name=frames[0].name) for one in frames]
    assert first_frozen(stillness, again) is None


def test_a_short_recording_in_a_loop_is_not_frozen() -> None:
    clip = [live(seq) for seq in range(12)]
    frames = [replace(clip[seq % 12], seq=seq, time_s=seq / FPS) for seq in range(120)]
    assert first_frozen(Stillness(2.0), frames) is None


def test_drawn_scenes_are_never_frozen() -> None:
    source = Synthetic(type="synthetic", frames=200, seed=3).open("scene", Secrets({}))
    stillness = Stillness(0.5)
    while (one := source.read(1)) is not None:
        assert stillness.see(one) is None


def test_a_black_picture_is_not_called_frozen() -> None:
    black = replace(frame(1), pixels=np.zeros((100, 200, 3), np.uint8))
    assert first_frozen(Stillness(2.0), repeated(black, range(100))) is None


def test_it_can_be_switched_off() -> None:
    assert first_frozen(Stillness(None), repeated(live(0), range(100))) is None


@pytest.mark.parametrize("codec", ["h264", "jpeg"])
def test_a_network_camera_that_repeats_its_picture_is_frozen_and_was_not_before(codec: str) -> None:
    with RtspCamera("--codec", codec, "--frozen-after", "75") as camera:
        source = Rtsp(type="rtsp", url=camera.url).open("top", Secrets({}))
        stillness, started_s = Stillness(1.0), time.monotonic()
        try:
            while stillness.see(one := source.read(2)) is None:  # type: ignore[arg-type]
                assert time.monotonic() - started_s < 12
        finally:
            source.close()
    assert one is not None
    assert one.time_s - started_s > 1.0
