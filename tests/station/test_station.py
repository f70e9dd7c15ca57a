from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import cast

import numpy as np
import pytest
from numpy.typing import NDArray

from edge_infer.engine import Engine
from edge_infer.errors import BackendError
from edge_infer.findings import Findings
from edge_infer.network import Network
from edge_infer.station import StationSettings
from edge_infer.station.inspection import Unusable
from edge_infer.station.setup import Setup
from edge_infer.station.station import QUEUE, Station
from tests.support.frames import found, frame
from tests.support.stations import CAP, IDENTITY, Box, Line, Scripted, now, part


@pytest.fixture
def network() -> Iterator[Scripted]:
    one = Scripted()
    yield one
    one.go.set()


def test_each_frame_of_a_recording_is_judged_and_none_is_dropped(network: Scripted) -> None:
    line = Line(network, recorded=True)
    for i in range(1, 51):
        line.station.offer(frame(i))
    line.station.end_recording()
    assert [one.frame_seq for one in line.box.published] == list(range(1, 51))
    assert line.station.dropped == 0


def test_slow_inference_sees_the_newest_frame_not_the_oldest(network: Scripted) -> None:
    network.go.clear()
    line = Line(network)
    line.station.offer(frame(1, time_s=now()))
    assert network.begun.acquire(timeout=5)
    for i in range(2, 10):
        line.station.offer(frame(i, time_s=now()))
    network.go.set()
    assert [one.frame_seq for one in line.box.wait(2)] == [1, 9]
    assert line.station.dropped == 7


def test_a_stale_frame_is_undefined_and_never_reaches_the_network(network: Scripted) -> None:
    line = Line(network)
    line.station.offer(frame(1, time_s=now() - 1.5))
    assert line.box.wait(1)[0].decision == "UNDEFINED"
    assert line.box.codes() == ["stale"]
    assert network.seen == []


def test_a_damaged_frame_is_undefined_and_never_reaches_the_network(network: Scripted) -> None:
    line = Line(network, recorded=True)
    line.station.offer(frame(1, damaged="half a picture"))
    line.box.wait(1)
    assert line.box.codes() == ["damaged"]
    assert network.seen == []


@pytest.mark.parametrize("error", [BackendError("gone"), RuntimeError("a bug")])
def test_a_failing_backend_is_undefined_and_the_next_frame_is_judged(
    network: Scripted, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: object) -> Findings:
        raise error

    network.answer = fail
    line = Line(network, recorded=True)
    line.station.offer(frame(1))
    line.box.wait(1)
    network.answer = lambda _: CAP
    line.station.offer(frame(2))
    line.box.wait(2)
    assert line.box.codes() == ["backend_failed", "OK"]
    assert ("a bug" in caplog.text) == isinstance(error, RuntimeError)


def test_a_nan_is_undefined_never_ok(network: Scripted) -> None:
    network.answer = lambda _: Findings(undefined="nan")
    line = Line(network, recorded=True)
    line.station.offer(frame(1))
    assert line.box.wait(1)[0].decision == "UNDEFINED"
    assert line.box.codes() == ["nan"]


def test_a_region_outside_the_frame_is_undefined(network: Scripted) -> None:
    line = Line(network, recorded=True, region={"unit": "pixel", "box": [0, 0, 900, 900]})
    line.station.offer(frame(1))
    line.box.wait(1)
    assert line.box.codes() == ["rule_not_evaluable"]


def test_a_hung_network_gets_a_deadline_and_its_late_answer_is_thrown_away(network: Scripted) -> None:
    network.go.clear()
    line = Line(network, deadline_ms=100)
    line.station.offer(frame(1, time_s=now()))
    assert network.begun.acquire(timeout=5)
    start = now()
    while not line.box.published and now() - start < 5:
        line.station.check_deadlines()
    assert line.box.codes() == ["deadline"]
    network.go.set()
    line.station.offer(frame(2, time_s=now()))
    line.box.wait(2)
    assert line.box.codes() == ["deadline", "OK"]


def test_an_answer_after_the_deadline_is_not_ok_even_if_no_clock_looked(network: Scripted) -> None:
    network.go.clear()
    line = Line(network, deadline_ms=30)
    line.station.offer(frame(1, time_s=now()))
    assert network.begun.acquire(timeout=5)
    threading.Event().wait(0.05)
    network.go.set()
    line.box.wait(1)
    assert line.box.codes() == ["deadline"]


def test_a_part_is_answered_from_the_first_frame_at_or_after_its_trigger(network: Scripted) -> None:
    line = Line(network, trigger={"type": "mqtt"})
    start = now()
    line.station.offer(frame(1, time_s=start))
    line.station.ask(part("A", start + 0.001))
    line.station.offer(frame(2, time_s=start + 0.0005))
    line.station.offer(frame(3, time_s=start + 0.001))
    line.station.offer(frame(4, time_s=start + 0.002))
    (result,) = line.box.wait(1)
    assert (result.frame_seq, result.part_id, result.job_id) == (3, "A", "job-A")


def test_a_delay_moves_the_frame(network: Scripted) -> None:
    line = Line(network, trigger={"type": "mqtt", "delay_ms": 100})
    start = now()
    line.station.ask(part("A", start))
    line.station.offer(frame(1, time_s=start + 0.099))
    line.station.offer(frame(2, time_s=start + 0.1))
    assert line.box.wait(1)[0].frame_seq == 2


def test_two_parts_faster_than_the_network_are_each_answered_once_and_in_order(network: Scripted) -> None:
    network.go.clear()
    line = Line(network, trigger={"type": "mqtt"})
    for i, name in enumerate("ABC", start=1):
        line.station.ask(part(name))
        line.station.offer(frame(i, time_s=now()))
    network.go.set()
    assert [(one.part_id, one.frame_seq) for one in line.box.wait(3)] == [("A", 1), ("B", 2), ("C", 3)]


def test_answers_keep_their_order_on_several_requests() -> None:
    network = Scripted(requests=2)
    first = threading.Event()

    def answer(pixels: NDArray[np.uint8]) -> Findings:
        # the first frame is the slow one
        if len(pixels) == 50:
            assert first.wait(5)
        else:
            first.set()
        return CAP

    network.answer = answer
    line = Line(network, recorded=True)
    line.station.offer(frame(1, size=(50, 50)))
    line.station.offer(frame(2, size=(60, 60)))
    assert [one.frame_seq for one in line.box.wait(2)] == [1, 2]


def test_a_full_queue_says_overload_at_once_and_the_others_are_answered(network: Scripted) -> None:
    network.go.clear()
    line = Line(network, trigger={"type": "mqtt"})
    for i in range(QUEUE):
        line.station.ask(part(str(i)))
        line.station.offer(frame(i + 1, time_s=now()))
    line.station.ask(part(str(QUEUE)))
    assert [(one.part_id, one.reasons[0].code) for one in line.box.wait(1)] == [(str(QUEUE), "overload")]
    network.go.set()
    assert [one.decision for one in line.box.wait(QUEUE + 1)[1:]] == ["OK"] * QUEUE


def test_parts_on_their_way_to_the_camera_are_no_overload(network: Scripted) -> None:
    line = Line(network, trigger={"type": "mqtt", "delay_ms": 500})
    start = now()
    for i in range(3 * QUEUE):
        line.station.ask(part(str(i), start + i * 0.01))
    for i in range(3 * QUEUE):
        line.station.offer(frame(i + 1, time_s=start + 0.5 + i * 0.01))
        line.box.wait(i + 1)
    assert line.box.codes() == ["OK"] * 3 * QUEUE


def test_a_delay_on_a_recording_lets_it_run_to_its_end(network: Scripted) -> None:
    line = Line(network, recorded=True, trigger={"type": "camera", "delay_ms": 1000})
    for i in range(1, 101):
        line.station.offer(frame(i, time_s=i * 0.1, triggers=(part(str(i), i * 0.1),)))
    line.station.end_recording()
    codes = line.box.codes()
    assert len(codes) == 100
    assert codes[:90] == ["OK"] * 90
    assert codes[90:] == ["camera_lost"] * 10


def test_a_part_that_asks_after_the_recording_ended_is_answered_and_the_run_ends(network: Scripted) -> None:
    line = Line(network, recorded=True, trigger={"type": "mqtt"})
    line.station.ask(part("A"))
    line.station.end_recording()
    line.station.ask(part("B"))
    assert [(one.part_id, one.reasons[0].code) for one in line.box.wait(2)] == [
        ("A", "camera_lost"),
        ("B", "camera_lost"),
    ]


def test_a_recording_that_breaks_off_decides_the_same_on_a_slow_machine(network: Scripted) -> None:
    network.go.clear()
    line = Line(network, recorded=True, confirm={"k": 3, "n": 5})
    for i in range(1, 8):
        line.station.offer(frame(i))
    ended = threading.Thread(target=line.station.end_recording, args=("cut",))
    ended.start()
    network.go.set()
    ended.join(5)
    assert line.box.codes() == ["settling", "settling", *["OK"] * 5, "camera_lost"]


def test_a_part_asked_again_has_the_same_job_until_its_deadline(network: Scripted) -> None:
    line = Line(network, trigger={"type": "mqtt"}, deadline_ms=300)
    line.station.ask(part("A"))
    waiting = line.station.known("A")
    assert waiting is not None
    assert (waiting.job_id, waiting.result) == ("job-A", None)
    line.station.offer(frame(1, time_s=now()))
    (result,) = line.box.wait(1)
    answered = line.station.known("A")
    assert answered is not None
    assert (answered.job_id, answered.result) == ("job-A", result)
    assert line.station.known("B") is None
    end = now() + 5
    while line.station.known("A") is not None and now() < end:
        pass
    assert line.station.known("A") is None


def test_a_part_on_an_input_is_stored_and_answered_from_the_first_frame_at_or_after_it(
    network: Scripted,
) -> None:
    line = Line(network, trigger={"type": "gpio", "line": 17})
    line.station.offer(frame(1, time_s=now()))
    passed_s = now()
    line.station.accept(replace(part("n-1", passed_s), job_id=None))
    # taken before it passed, though it comes later
    line.station.offer(frame(2, time_s=passed_s - 0.001))
    line.station.offer(frame(3, time_s=passed_s))
    (result,) = line.box.wait(1)
    assert (result.frame_seq, result.part_id, result.trigger.type) == (3, "n-1", "gpio")
    assert [one.job_id for one in line.box.accepted] == [result.job_id]


def test_a_live_light_barrier_is_stored_before_it_is_answered(network: Scripted) -> None:
    line = Line(network, trigger={"type": "camera"})
    line.station.offer(frame(1, time_s=now() + 0.001, triggers=(part("A"),)))
    (result,) = line.box.wait(1)
    assert [one.job_id for one in line.box.accepted] == [result.job_id] == ["job-A"]


def test_a_hung_request_does_not_pile_up_frames_behind_it() -> None:
    network = Scripted(requests=2)
    hang = threading.Event()

    def answer(pixels: NDArray[np.uint8]) -> Findings:
        if len(pixels) == 50:
            assert hang.wait(10)
        return CAP

    network.answer = answer
    line = Line(network)
    line.station.offer(frame(1, size=(50, 50), time_s=now()))
    assert network.begun.acquire(timeout=5)
    for i in range(2, 200):
        line.station.offer(frame(i, time_s=now()))
        if i < QUEUE + 1:
            assert network.begun.acquire(timeout=5)
    assert network.begun.acquire(timeout=0.2) is False
    assert line.box.published == []
    hang.set()
    line.station.offer(frame(200, time_s=now()))
    assert [one.frame_seq for one in line.box.wait(QUEUE)][:QUEUE] == list(range(1, QUEUE + 1))


def test_a_live_station_has_a_deadline_without_being_told_one() -> None:
    assert StationSettings.model_validate_json('{"camera": "c", "model": "m"}').answer_within_s == 2.0


def test_trouble_that_lasts_is_said_again_and_a_new_reason_replaces_it(network: Scripted) -> None:
    line = Line(network, trigger={"type": "mqtt"})
    line.station.trouble(Unusable("stale", "no frame"))
    line.station.trouble(Unusable("camera_lost", "unplugged"))
    line.station.ask(part("A"))
    assert line.box.codes() == ["stale", "camera_lost"]
    line.station.offer(frame(1, time_s=now()))
    line.station.trouble(Unusable("camera_lost", "unplugged"))
    said = len(line.box.decided)
    end = now() + 5
    while len(line.box.decided) == said and now() < end:
        line.station.check_deadlines()
    assert line.box.decided[said:] == ["UNDEFINED"]
    assert len(line.box.published) == 3


def test_rows_that_are_not_numbers_are_undefined_even_beside_good_ones(network: Scripted) -> None:
    network.answer = lambda _: replace(CAP, nan_rows=1)
    line = Line(network, recorded=True)
    line.station.offer(frame(1))
    line.box.wait(1)
    assert line.box.codes() == ["nan"]


def test_a_zone_that_the_network_does_not_see_is_not_evaluable(network: Scripted) -> None:
    network.seen_part = (0, 0, 50, 50)
    rule = {
        "name": "no-tear",
        "count": {"labels": ["tear"], "at_most": 0},
        "zone": {"unit": "fraction", "polygon": [[0.5, 0.6], [1, 0.6], [1, 1]]},
    }
    line = Line(network, recorded=True, rules=[rule])
    line.station.offer(frame(1))
    line.box.wait(1)
    assert line.box.codes() == ["rule_not_evaluable"]


def test_a_reason_that_is_no_text_is_published_all_the_same(network: Scripted) -> None:
    line = Line(network, recorded=True)
    line.station.offer(frame(1, damaged="photo\udcff.jpg is only half there"))
    assert line.box.wait(1)[0].reasons[0].text.startswith("photo\\udcff.jpg")
    assert "half" in line.box.published[0].as_json()


def test_a_part_without_a_frame_is_undefined_by_its_deadline(network: Scripted) -> None:
    line = Line(network, trigger={"type": "mqtt"}, deadline_ms=50)
    line.station.ask(part("A"))
    start = now()
    while not line.box.published and now() - start < 5:
        line.station.check_deadlines()
    assert line.box.codes() == ["deadline"]
    line.station.offer(frame(1, time_s=now()))
    assert len(line.box.published) == 1


def test_a_lost_camera_is_one_undefined_and_one_for_each_waiting_part(network: Scripted) -> None:
    line = Line(network, trigger={"type": "mqtt"})
    line.station.ask(part("A"))
    for _ in range(3):
        line.station.trouble(Unusable("camera_lost", "unplugged"))
    line.station.ask(part("B"))
    assert [(one.part_id, one.reasons[0].code) for one in line.box.wait(3)] == [
        ("A", "camera_lost"),
        (None, "camera_lost"),
        ("B", "camera_lost"),
    ]
    line.station.ask(part("C"))
    line.station.offer(frame(1, time_s=now() + 0.01))
    line.station.ask(part("D"))
    line.station.offer(frame(2, time_s=now() + 0.02))
    assert line.box.wait(5)[-1].decision == "OK"


def test_a_station_whose_model_failed_never_says_ok() -> None:
    box = Box()
    settings = StationSettings.model_validate_json(
        '{"camera": "cam", "model": "m", "trigger": {"type": "camera"}}'
    )
    failed = Unusable("backend_failed", "no such file")
    station = Station(Setup.new(settings, IDENTITY, None, failed), box, recorded=False, max_age_s=1)
    station.start()
    for i in range(1, 4):
        station.offer(frame(i, time_s=now(), triggers=(part(str(i)),) if i == 2 else ()))
    assert box.codes() == ["backend_failed", "backend_failed"]
    station.trouble(Unusable("camera_lost", "unplugged"))
    assert len(box.published) == 2
    assert [one.part_id for one in box.published] == [None, "2"]


def test_stop_answers_what_is_open(network: Scripted) -> None:
    network.go.clear()
    line = Line(network, trigger={"type": "mqtt"})
    line.station.ask(part("A"))
    line.station.offer(frame(1, time_s=now()))
    line.station.ask(part("B"))
    assert network.begun.acquire(timeout=5)
    line.station.stop()
    assert line.box.codes() == ["restarted", "restarted"]


def test_publish_change_tells_only_changes_but_every_inspection_decides(network: Scripted) -> None:
    line = Line(network, recorded=True, publish="change")
    for i in range(1, 7):
        network.answer = lambda _: CAP
        line.station.offer(frame(i))
    line.station.end_recording()
    network.answer = lambda _: found()
    for i in range(7, 10):
        line.station.offer(frame(i))
    line.station.end_recording()
    assert [(one.frame_seq, one.decision) for one in line.box.published] == [(1, "OK"), (7, "NOK")]
    assert len(line.box.decided) == 9


def test_line_stop_is_told(network: Scripted) -> None:
    network.answer = lambda _: found()
    line = Line(network, recorded=True, line_stop={"consecutive": 3})
    for i in range(1, 6):
        line.station.offer(frame(i))
    line.station.end_recording()
    assert line.box.stops == ["NOK"]


def test_triggered_frames_come_before_live_ones_and_stations_take_turns(network: Scripted) -> None:
    one, two, parts = (
        Line(network, start=False),
        Line(network, start=False),
        Line(network, start=False, trigger={"type": "mqtt"}),
    )
    engine = Engine("m", cast(Network, network))
    for line in (one, two, parts):
        line.station.configure(line.setup(engine=engine))
    network.go.clear()
    engine.start()
    order: list[str] = []

    def answer(pixels: NDArray[np.uint8]) -> Findings:
        order.append({50: "one", 60: "two", 70: "part"}[len(pixels)])
        return CAP

    network.answer = answer
    one.station.offer(frame(1, size=(50, 50), time_s=now()))
    assert network.begun.acquire(timeout=5)
    one.station.offer(frame(2, size=(50, 50), time_s=now()))
    two.station.offer(frame(1, size=(60, 60), time_s=now()))
    parts.station.ask(part("A"))
    parts.station.offer(frame(1, size=(70, 70), time_s=now()))
    network.go.set()
    one.box.wait(2)
    two.box.wait(1)
    parts.box.wait(1)
    assert order == ["one", "part", "two", "one"]


# -- pictures of a source that must lose none


def test_a_picture_is_handed_to_whoever_stores_its_result_and_not_settled_here(network: Scripted) -> None:
    settled: list[str] = []
    line = Line(network, recorded=True)
    line.station.offer(replace(frame(1), settled=settled.append))
    line.box.wait(1)
    assert settled == []


def test_a_picture_that_has_no_published_result_is_settled_once_it_is_judged(network: Scripted) -> None:
    settled: dict[int, list[str]] = {1: [], 2: [], 3: []}
    line = Line(network, recorded=True, publish="change")
    for number, told in settled.items():
        line.station.offer(replace(frame(number), settled=told.append))
    line.station.end_recording()
    assert [one.frame_seq for one in line.box.published] == [1]
    assert settled == {1: [], 2: ["s"], 3: ["s"]}


@pytest.mark.parametrize("publish", ["every", "change", {"every_s": 60.0}])
def test_a_stop_settles_no_picture_that_was_not_judged(network: Scripted, publish: object) -> None:
    """Whether its `restarted` is published or not: it is given again."""
    settled: list[str] = []
    line = Line(network, recorded=True, publish=publish)
    network.answer = lambda _: Findings(undefined="nan")
    line.station.offer(frame(1))
    line.box.wait(1)
    network.go.clear()
    assert network.begun.acquire(timeout=5)
    for number in (2, 3, 4):
        line.station.offer(replace(frame(number), settled=settled.append))
    # one is in the network, the others wait for it
    assert network.begun.acquire(timeout=5)
    line.station.stop()
    network.go.set()
    assert line.engine.stop(5)
    assert settled == []
