"""A station that cannot judge: what stands meanwhile, what becomes of pictures to be settled."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from edge_infer.frame import PartTrigger
from edge_infer.station import standing
from edge_infer.station.inspection import Unusable
from tests.support.frames import frame
from tests.support.stations import Line, Scripted, part

FAILED = Unusable("backend_failed", "the network file is broken")


@pytest.fixture
def said_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standing, "AGAIN_S", 0.0)


@pytest.mark.usefixtures("said_at_once")
def test_a_failed_model_stands_also_after_the_camera_has_come_back() -> None:
    line = Line(Scripted())
    line.station.configure(line.setup(failed=FAILED))
    line.station.trouble(Unusable("camera_lost", "the cable is out"))
    line.station.recovered()
    told = len(line.box.decided)
    line.station.check_deadlines()
    assert line.box.decided[told:] == ["UNDEFINED"]


@pytest.mark.usefixtures("said_at_once")
def test_a_lost_camera_stands_until_it_is_back() -> None:
    line = Line(Scripted())
    line.station.trouble(Unusable("camera_lost", "the cable is out"))
    line.station.check_deadlines()
    assert line.box.decided == ["UNDEFINED", "UNDEFINED"]
    line.station.recovered()
    line.station.check_deadlines()
    assert line.box.decided == ["UNDEFINED", "UNDEFINED"]


def test_of_a_failed_model_each_picture_that_is_a_part_is_answered_with_that_picture() -> None:
    line = Line(Scripted(), recorded=True, trigger={"type": "camera"})
    line.station.configure(line.setup(failed=FAILED))
    asked = part("1.png", time.monotonic())
    picture = replace(
        frame(1, time_s=asked.time_s, triggers=(PartTrigger(asked.time_s, asked.at, part_id="1.png"),)),
        settled=lambda _: None,
    )
    line.station.offer(picture)
    assert [(one.part_id, one.frame_seq) for one in line.box.published[1:]] == [("1.png", 1)]
    # whoever stores the result settles the picture
    assert line.box.frames[-1] is picture


def test_of_a_failed_model_pictures_that_are_no_parts_are_settled_at_once() -> None:
    line = Line(Scripted(), recorded=True)
    line.station.configure(line.setup(failed=FAILED))
    settled: list[str] = []
    line.station.offer(replace(frame(1), settled=settled.append))
    assert settled == ["s"]
