"""Each check on real recordings: no alarm on any frame as it is, and what is done to it is named."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import av
import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from edge_infer import clock
from edge_infer.errors import EdgeInferError
from edge_infer.frame import Frame
from edge_infer.imagehealth import HealthSettings
from edge_infer.imagehealth.commissioning import commission, doubts
from edge_infer.imagehealth.health import first, quick_checks, thorough_checks
from edge_infer.imagehealth.reference import Reference
from edge_infer.imagehealth.settings import Limits
from edge_infer.imagehealth.sight import Sight
from edge_infer.picture import read
from edge_infer.settings import Secrets
from edge_infer.sources.synthetic import Synthetic

Pixels = NDArray[np.uint8]
Change = Callable[[Pixels], Pixels]
RECORDINGS = ("bottle-detection", "car-detection")
SETTINGS = HealthSettings()


@lru_cache(maxsize=2)
def video(path: Path) -> list[Pixels]:
    with av.open(str(path)) as container:
        return [np.asarray(one.to_ndarray(format="bgr24"), np.uint8) for one in container.decode(video=0)]


def frames_of(pixels: list[Pixels]) -> list[Frame]:
    return [Frame("top", seq, one, seq / 25, clock.now()) for seq, one in enumerate(pixels, 1)]


def whole(pixels: Pixels) -> tuple[int, int, int, int]:
    return 0, 0, pixels.shape[1], pixels.shape[0]


def learned(pixels: list[Pixels]) -> Reference:
    """From frames of all of it, so that parts come and go."""
    chosen = pixels[:: max(1, len(pixels) // 40)]
    return commission(frames_of(chosen), whole(pixels[0]), clock.now())


def found(pixels: Pixels, reference: Reference | None, settings: HealthSettings = SETTINGS) -> str | None:
    checks = [*quick_checks(settings, reference), *thorough_checks(settings, reference)]
    trouble = first(checks, Sight(pixels, whole(pixels)))
    return trouble and trouble.code


def gain(factor: float) -> Change:
    return lambda pixels: np.clip(pixels * factor, 0, 255).astype(np.uint8)


def blur(sigma: float) -> Change:
    return lambda pixels: np.asarray(cv2.GaussianBlur(pixels, (0, 0), sigma), np.uint8)


def shift(share: float, degrees: float = 0) -> Change:
    def moved(pixels: Pixels) -> Pixels:
        height, width = pixels.shape[:2]
        turn = cv2.getRotationMatrix2D((width / 2, height / 2), degrees, 1)
        turn[:, 2] += (0.8 * share * width, -0.6 * share * width)
        turned = cv2.warpAffine(pixels, turn, (width, height), borderMode=cv2.BORDER_REFLECT)
        return np.asarray(turned, np.uint8)

    return moved


def cover(share: float) -> Change:
    def covered(pixels: Pixels) -> Pixels:
        changed = pixels.copy()
        changed[:, : round(share * pixels.shape[1])] = 90
        return changed

    return covered


def noise(sigma: float) -> Change:
    values = np.random.default_rng(1)
    return lambda pixels: np.clip(pixels + values.normal(0, sigma, pixels.shape), 0, 255).astype(np.uint8)


def as_it_is(pixels: Pixels) -> Pixels:
    return pixels


@pytest.mark.parametrize("name", RECORDINGS)
def test_no_frame_of_a_real_recording_is_an_alarm(shared: Path, name: str) -> None:
    pixels = video(shared / f"assets/videos/{name}.mp4")
    reference = learned(pixels)
    assert {check for check in reference.measured if reference.limit(check) is not None} == {
        "dark", "bright", "covered", "blurred", "moved",
    }  # fmt: skip
    assert Counter(found(one, reference) for one in pixels) == {None: len(pixels)}
    assert Counter(found(one, None) for one in pixels) == {None: len(pixels)}
    assert doubts(reference) == []


@pytest.mark.parametrize("name", RECORDINGS)
def test_a_reference_of_the_first_seconds_alarms_at_no_later_frame(shared: Path, name: str) -> None:
    pixels = video(shared / f"assets/videos/{name}.mp4")
    reference = commission(frames_of(pixels[:120:6]), whole(pixels[0]), clock.now())
    assert Counter(found(one, reference) for one in pixels) == {None: len(pixels)}


def test_no_photo_is_an_alarm(shared: Path) -> None:
    photos = sorted((shared / "assets/photos").glob("*.jpg"))
    assert photos
    assert [found(read(one).pixels, None) for one in photos] == [None] * len(photos)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_bundled_scene_is_no_alarm(seed: int) -> None:
    source = Synthetic(type="synthetic", frames=150, seed=seed).open("scene", Secrets({}))
    pixels = []
    while (one := source.read(1)) is not None:
        pixels.append(one.pixels)
    reference = commission(frames_of(pixels[:100:5]), whole(pixels[0]), clock.now())
    assert Counter((found(one, reference), found(one, None)) for one in pixels) == {(None, None): 150}


# least share of frames at which it must be found, and under which names
@pytest.mark.parametrize(
    ("name", "change", "least", "codes"),
    [
        ("bottle-detection", gain(0.05), 1.0, {"dark"}),
        ("bottle-detection", gain(0.3), 1.0, {"dark"}),
        ("bottle-detection", gain(2.2), 1.0, {"bright"}),
        ("bottle-detection", blur(2), 1.0, {"blurred"}),
        ("bottle-detection", blur(6), 1.0, {"blurred"}),
        ("bottle-detection", shift(0.03), 0.9, {"moved"}),
        ("bottle-detection", shift(0.09), 1.0, {"moved"}),
        ("bottle-detection", shift(0, degrees=5), 0.9, {"moved"}),
        ("bottle-detection", cover(0.5), 0.9, {"covered"}),
        ("bottle-detection", cover(1), 1.0, {"covered"}),
        ("car-detection", gain(0.05), 1.0, {"dark"}),
        ("car-detection", gain(4.0), 0.9, {"bright"}),
        ("car-detection", blur(3), 0.95, {"blurred"}),
        ("car-detection", shift(0.04), 0.95, {"moved"}),
        ("car-detection", shift(0, degrees=5), 0.95, {"moved"}),
        ("car-detection", cover(1), 1.0, {"covered"}),
    ],
)
def test_what_is_wrong_is_found_and_named(
    shared: Path, name: str, change: Change, least: float, codes: set[str]
) -> None:
    pixels = video(shared / f"assets/videos/{name}.mp4")
    reference = learned(pixels)
    seen = Counter(found(change(one), reference) for one in pixels[:: len(pixels) // 30])
    assert sum(seen[code] for code in codes) >= least * seen.total(), seen


@pytest.mark.parametrize("change", [as_it_is, gain(0.7), gain(1.2), noise(2.5), blur(0.5), shift(0.003)])
def test_what_a_line_lives_with_is_no_alarm(shared: Path, change: Change) -> None:
    pixels = video(shared / "assets/videos/bottle-detection.mp4")
    reference = learned(pixels)
    assert {found(change(one), reference) for one in pixels[:: len(pixels) // 30]} == {None}


def test_without_a_reference_only_what_shows_nothing_is_an_alarm(shared: Path) -> None:
    one = video(shared / "assets/videos/bottle-detection.mp4")[100]
    told = {
        name: found(change(one), None)
        for name, change in {
            "black": gain(0.05), "white": lambda _: np.full_like(one, 253), "cap": cover(1),
            "noisy cap": lambda _: noise(2)(cover(1)(one)),
            "dim": gain(0.4), "half": cover(0.5), "blurred": blur(6), "moved": shift(0.09),
        }.items()
    }  # fmt: skip
    assert told == {
        "black": "dark", "white": "bright", "cap": "covered", "noisy cap": "covered",
        "dim": None, "half": None, "blurred": None, "moved": None,
    }  # fmt: skip


def test_a_small_lit_part_on_black_is_not_dark() -> None:
    dark_field = np.zeros((1080, 1920, 3), np.uint8)
    dark_field[500:560, 900:980] = 180
    assert found(dark_field, None) is None
    assert found(noise(3)(np.full_like(dark_field, 3)), None) == "dark"


def test_where_nothing_is_fixed_moves_and_blur_cannot_be_told_and_it_is_said() -> None:
    values = np.random.default_rng(3)
    webs = [
        np.asarray(cv2.GaussianBlur(values.integers(0, 255, (360, 640, 3), np.uint8), (0, 0), 4), np.uint8)
        for _ in range(12)
    ]
    reference = commission(frames_of(webs), whole(webs[0]), clock.now())
    assert reference.fixed is None
    assert {reference.limit(check) for check in ("covered", "blurred", "moved")} == {None}
    assert "nothing in the picture stays" in str(reference.measured["moved"].untold_because)
    assert found(shift(0.05)(webs[0]), reference) is None


def test_a_picture_that_is_dark_or_blurred_when_it_is_commissioned_is_doubted(shared: Path) -> None:
    pixels = video(shared / "assets/videos/bottle-detection.mp4")[::60]
    assert "the picture is dark" in doubts(learned([gain(0.15)(one) for one in pixels]))[0]
    assert "saturated" in doubts(learned([gain(2.2)(one) for one in pixels]))[0]
    assert any("is the picture sharp?" in one for one in doubts(learned([blur(2)(one) for one in pixels])))


def test_limits_of_the_site_take_the_commissioned_ones_place(shared: Path) -> None:
    pixels = video(shared / "assets/videos/bottle-detection.mp4")
    reference = learned(pixels)
    fine = HealthSettings(limits=Limits(moved=0.01, dark=100))
    assert found(shift(0.02)(pixels[0]), reference, fine) == "moved"
    assert found(gain(0.6)(pixels[0]), reference, fine) == "dark"
    assert found(gain(0.6)(pixels[0]), None, fine) == "dark"


def test_only_named_checks_look(shared: Path) -> None:
    one = video(shared / "assets/videos/bottle-detection.mp4")[0]
    assert found(gain(0.05)(one), None, HealthSettings(checks=("bright",))) is None


def test_too_few_frames_and_frames_of_two_sizes_are_refused() -> None:
    some = frames_of([np.zeros((40, 60, 3), np.uint8)] * 4)
    with pytest.raises(EdgeInferError, match="4 frames are too few"):
        commission(some, (0, 0, 60, 40), clock.now())
    more = [*some, *frames_of([np.zeros((20, 60, 3), np.uint8)])]
    with pytest.raises(EdgeInferError, match="differ in size"):
        commission(more, (0, 0, 60, 20), clock.now())
