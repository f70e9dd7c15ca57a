"""A picture that cannot be judged: UNDEFINED with the reason, and nobody asks the network or the rules."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from edge_infer import clock
from edge_infer.frame import Frame, PartTrigger
from edge_infer.imagehealth.commissioning import commission
from edge_infer.imagehealth.reference import path_of, store
from edge_infer.station.setup import Setup
from tests.imagehealth.test_health import DARK, GOOD, MOVED
from tests.imagehealth.test_reference import picture
from tests.support.frames import found
from tests.support.stations import IDENTITY, Line, Scripted, part


@pytest.fixture
def network() -> Iterator[Scripted]:
    one = Scripted()
    yield one
    one.go.set()


@pytest.fixture
def commissioned(tmp_path: Path) -> Path:
    frames = [frame(seed, picture(seed)) for seed in range(8)]
    path = path_of(tmp_path, "s")
    store(path, commission(frames, (0, 0, 320, 240), clock.now()))
    return path


def frame(seq: int, pixels: NDArray[np.uint8], *triggers: PartTrigger) -> Frame:
    return Frame("cam", seq, pixels, seq / 10, clock.now(), triggers=triggers)


def use(line: Line, commissioned: Path) -> None:
    line.station.configure(Setup.new(line.settings, IDENTITY, line.engine, commissioned=commissioned))


def test_a_dark_frame_is_undefined_with_what_was_measured_and_the_network_is_not_asked(
    network: Scripted,
) -> None:
    line = Line(network, recorded=True)
    for seq, pixels in enumerate([GOOD, DARK, GOOD], 1):
        line.station.offer(frame(seq, pixels))
    line.station.end_recording()
    assert line.box.codes() == ["OK", "dark", "OK"]
    dark = line.box.published[1]
    assert (dark.decision, dark.rules, dark.result_state, dark.frame_seq) == ("UNDEFINED", (), 4, 2)
    assert "brighter than 40 of 255" in dark.reasons[0].text
    assert len(network.seen) == 2


def test_an_unhealthy_frame_clears_what_confirm_remembers(network: Scripted) -> None:
    network.answer = lambda _: found()
    line = Line(network, recorded=True, confirm={"k": 2, "n": 3})
    for seq, pixels in enumerate([GOOD, DARK, GOOD, GOOD], 1):
        line.station.offer(frame(seq, pixels))
    line.station.end_recording()
    assert line.box.codes() == ["settling", "dark", "settling", "NOK"]


def test_a_moved_camera_is_undefined_until_a_look_finds_it_in_its_place(
    network: Scripted, commissioned: Path
) -> None:
    line = Line(network, recorded=True)
    use(line, commissioned)
    for seq in range(20):
        line.station.offer(frame(seq, MOVED if 5 <= seq < 12 else GOOD))
    line.station.end_recording()
    assert line.box.codes() == ["OK"] * 5 + ["moved"] * 10 + ["OK"] * 5
    assert "the camera moved by about 25 pixels" in line.box.published[5].reasons[0].text


def test_each_part_of_a_triggered_station_is_looked_at_itself(network: Scripted, commissioned: Path) -> None:
    line = Line(network, recorded=True, trigger={"type": "camera"})
    use(line, commissioned)
    for seq, pixels in enumerate([GOOD, MOVED, GOOD, DARK, MOVED, GOOD]):
        line.station.offer(frame(seq, pixels, part(f"P{seq}", seq / 10)))
    line.station.end_recording()
    assert line.box.codes() == ["OK", "moved", "OK", "dark", "moved", "OK"]
    assert len(network.seen) == 3


def test_only_the_frame_of_the_part_counts_not_one_between_parts(network: Scripted) -> None:
    line = Line(network, recorded=True, trigger={"type": "camera"})
    line.station.offer(frame(1, DARK))
    line.station.offer(frame(2, GOOD, part("P2", 0.2)))
    line.station.offer(frame(3, DARK))
    line.station.end_recording()
    assert line.box.codes() == ["OK"]


def test_several_requests_at_once_decide_as_one(commissioned: Path) -> None:
    answers = []
    for requests in (1, 3):
        network = Scripted(requests)
        line = Line(network, recorded=True)
        use(line, commissioned)
        for seq in range(60):
            line.station.offer(frame(seq, (GOOD, MOVED, GOOD, DARK)[seq // 7 % 4]))
        line.station.end_recording()
        answers.append(line.box.codes())
    assert answers[0] == answers[1]
    assert {"OK", "moved", "dark"} == set(answers[0])


def test_a_reference_that_does_not_fit_is_told_and_only_its_checks_are_off(
    network: Scripted, commissioned: Path
) -> None:
    line = Line(network, recorded=True, region={"unit": "pixel", "box": [0, 0, 300, 240]})
    use(line, commissioned)
    for seq, pixels in enumerate([MOVED, DARK, MOVED], 1):
        line.station.offer(frame(seq, pixels))
    line.station.end_recording()
    assert line.box.codes() == ["OK", "dark", "OK"]
    (why,) = line.box.unused
    assert "made for the region [0, 0, 320, 240]" in why


def test_a_reference_that_cannot_be_read_is_told(network: Scripted, commissioned: Path) -> None:
    commissioned.write_text("{")
    line = Line(network, recorded=True)
    use(line, commissioned)
    line.station.offer(frame(1, MOVED))
    line.station.end_recording()
    assert line.box.codes() == ["OK"]
    (why,) = line.box.unused
    assert "cannot be used" in why


def test_checks_can_be_switched_off(network: Scripted) -> None:
    line = Line(network, recorded=True, health={"checks": []})
    line.station.offer(frame(1, DARK))
    line.station.offer(replace(frame(2, GOOD), frozen="there was no new picture"))
    line.station.end_recording()
    assert line.box.codes() == ["OK", "OK"]


def test_a_frozen_frame_is_undefined(network: Scripted) -> None:
    line = Line(network, recorded=True)
    line.station.offer(replace(frame(2, GOOD), frozen="there was no new picture for 2.0 s"))
    line.station.end_recording()
    assert line.box.codes() == ["frozen"]
    assert line.box.published[0].reasons[0].text == "there was no new picture for 2.0 s"
