"""When checks look, how long what they found holds, and that a replay finds the same."""

from __future__ import annotations

import random
import threading
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from edge_infer import clock
from edge_infer.frame import Frame
from edge_infer.imagehealth import HealthSettings
from edge_infer.imagehealth.commissioning import commission
from edge_infer.imagehealth.health import Glance, Health
from edge_infer.imagehealth.reference import Reference
from tests.imagehealth.test_reference import picture

REGION = (0, 0, 320, 240)
GOOD = picture()
# 8 % to the right
MOVED = np.ascontiguousarray(np.roll(GOOD, 25, axis=1))
DARK = np.zeros_like(GOOD)


def frame(pixels: NDArray[np.uint8], time_s: float, **keys: str) -> Frame:
    return Frame("top", 1, pixels, time_s, clock.now(), **keys)  # type: ignore[arg-type]


@pytest.fixture
def reference() -> Reference:
    return commission([frame(picture(seed), seed) for seed in range(8)], REGION, clock.now())


def health(reference: Reference | None, *, each_frame: bool = False, **keys: object) -> Health:
    return Health(HealthSettings(**keys), reference, each_frame=each_frame, camera="top")  # type: ignore[arg-type]


def code(glance: Glance | None) -> str | None:
    assert glance is not None
    found = glance.found()
    return found.code if found else None


def codes(one: Health, *pictures: tuple[float, NDArray[np.uint8]]) -> list[str | None]:
    return [code(one.take(frame(pixels, time_s), REGION)) for time_s, pixels in pictures]


def test_the_judged_frame_itself_is_looked_at(reference: Reference) -> None:
    assert codes(health(reference), (0.0, MOVED)) == ["moved"]
    assert codes(health(reference, each_frame=True), (0.0, GOOD), (0.01, MOVED), (0.02, GOOD)) == [
        None, "moved", None,
    ]  # fmt: skip


def test_between_two_looks_what_was_found_holds(reference: Reference) -> None:
    one = health(reference, every_s=0.5)
    seen = codes(
        one, (0.0, GOOD), (0.4, MOVED), (0.5, MOVED), (0.6, MOVED), (0.7, GOOD), (0.9, GOOD), (1.0, GOOD)
    )
    assert seen == [None, None, "moved", "moved", "moved", "moved", None]


def test_cheap_checks_look_at_each_frame(reference: Reference) -> None:
    one = health(reference, every_s=10)
    assert codes(one, (0.0, GOOD), (0.1, DARK), (0.2, GOOD), (0.3, GOOD)) == [None, "dark", None, None]


def test_in_the_dark_a_camera_that_moved_is_not_forgotten(reference: Reference) -> None:
    one = health(reference, every_s=0.5)
    seen = codes(one, (0.0, MOVED), (0.5, DARK), (0.6, MOVED), (1.0, GOOD))
    assert seen == ["moved", "dark", "moved", None]


def test_when_the_light_is_back_nothing_seen_in_the_dark_is_held_against_it(reference: Reference) -> None:
    one = health(reference, every_s=0.5)
    assert codes(one, (0.0, GOOD), (0.5, DARK), (0.6, GOOD)) == [None, "dark", None]


def test_a_frozen_camera_is_told_by_its_frames(reference: Reference) -> None:
    one, frozen = health(reference), frame(GOOD, 1.0, frozen="there was no new picture")
    assert code(one.take(frozen, REGION)) == "frozen"
    assert code(health(reference, checks=("dark",)).take(frozen, REGION)) is None


def test_damaged_frames_and_no_checks_are_not_looked_at(reference: Reference) -> None:
    assert health(reference).take(frame(GOOD, 0.0, damaged="half"), REGION) is None
    assert health(reference, checks=()).take(frame(DARK, 0.0), REGION) is None


def test_only_the_region_counts(reference: Reference) -> None:
    half = GOOD.copy()
    half[:, 160:] = 0
    assert code(health(None).take(frame(half, 0.0), (160, 0, 320, 240))) == "dark"
    assert code(health(None).take(frame(half, 0.0), (0, 0, 160, 240))) is None
    assert reference.region == REGION


def test_a_reference_of_another_size_is_said_once_and_not_used(reference: Reference) -> None:
    one = health(reference)
    large = np.ascontiguousarray(np.kron(MOVED, np.ones((2, 2, 1), np.uint8)))
    for time_s in (0.0, 1.0):
        assert code(one.take(frame(large, time_s), (0, 0, 640, 480))) is None
    assert "frames of 320x240, the camera gives 640x480" in str(one.unused())
    assert one.unused() is None
    # the camera is set back
    assert code(one.take(frame(MOVED, 2.0), REGION)) == "moved"
    assert one.unused() is None


def test_a_recording_that_begins_again_is_looked_at_again(reference: Reference) -> None:
    assert codes(health(reference), (50.0, GOOD), (0.0, MOVED)) == [None, "moved"]


def test_the_same_frames_give_the_same_however_threads_ask(reference: Reference) -> None:
    dice = random.Random(5)  # noqa: S311 - no secret
    frames = [frame(dice.choice([GOOD, GOOD, MOVED, DARK]), seq / 20) for seq in range(80)]
    one = health(reference, every_s=0.3)
    alone = [code(one.take(each, REGION)) for each in frames]
    assert {None, "moved", "dark"} == set(alone)
    for seed in range(3):
        other = health(reference, every_s=0.3)
        glances = [other.take(each, REGION) for each in frames]
        order = list(range(len(frames)))
        random.Random(seed).shuffle(order)  # noqa: S311 - no secret
        found: dict[int, str | None] = {}

        def ask(
            numbers: list[int], glances: list[Glance | None] = glances, found: dict[int, str | None] = found
        ) -> None:
            for number in numbers:
                found[number] = code(glances[number])

        threads = [threading.Thread(target=ask, args=(order[start::3],)) for start in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        assert [found[number] for number in range(len(frames))] == alone


def test_hours_in_the_dark_keep_no_frames(reference: Reference) -> None:
    one = health(reference, every_s=0.01)
    dark = [replace(frame(DARK.copy(), float(seq))) for seq in range(50)]
    for each in dark:
        assert code(one.take(each, REGION)) == "dark"
    look, looks = one._look, 0
    while look is not None:
        look, looks = look._before, looks + 1
    assert looks == 1
