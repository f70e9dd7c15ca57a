"""A station swaps what it judges by between two inspections: none is lost, doubled, reordered or mixed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import cast

import pytest

from edge_infer.engine import Engine
from edge_infer.findings import Anomaly, Findings
from edge_infer.network import Network
from edge_infer.result import Result
from edge_infer.station.inspection import Unusable
from edge_infer.station.station import Station
from tests.support.frames import found, frame
from tests.support.stations import CAP, IDENTITY, Line, Scripted, now, part

OTHER = [{"name": "no-cap", "count": {"labels": ["cap"], "at_most": 0}}]
MISSING = Unusable("rule_not_evaluable", "the recipe gone is selected, but there is none")


@pytest.fixture
def network() -> Iterator[Scripted]:
    one = Scripted()
    yield one
    one.go.set()


@pytest.fixture
def second() -> Iterator[Scripted]:
    one = Scripted()
    yield one
    one.go.set()


def by(result: Result) -> tuple[str | None, str | None]:
    """The recipe and the rule that a result names."""
    recipe = result.external_recipe_id
    return (recipe.id if recipe else None, result.rules[0].name if result.rules else None)


def engine_of(network: Scripted) -> Engine:
    engine = Engine("other", cast(Network, network))
    engine.start()
    return engine


def test_what_was_taken_before_is_judged_by_the_old_and_the_next_by_the_new(network: Scripted) -> None:
    network.go.clear()
    line = Line(network)
    line.station.offer(frame(1, time_s=now()))
    assert network.begun.acquire(timeout=5)
    line.station.configure(line.setup("other", rules=OTHER))
    line.station.offer(frame(2, time_s=now()))
    network.go.set()
    first, then = line.box.wait(2)
    assert (by(first), first.decision, first.frame_seq) == ((None, "has-cap"), "OK", 1)
    assert (by(then), then.decision, then.frame_seq) == (("other", "no-cap"), "NOK", 2)


def test_a_part_that_waits_for_its_frame_belongs_to_what_ran_when_it_asked(
    network: Scripted, second: Scripted
) -> None:
    line = Line(network, trigger={"type": "mqtt", "delay_ms": 100})
    start = now()
    line.station.ask(part("A", start))
    line.station.configure(line.setup("other", engine=engine_of(second), rules=OTHER))
    line.station.ask(part("B", start + 0.02))
    line.station.offer(frame(1, time_s=start + 0.11))
    line.station.offer(frame(2, time_s=start + 0.13))
    results = line.box.wait(2)
    assert [(one.part_id, by(one)) for one in results] == [
        ("A", (None, "has-cap")),
        ("B", ("other", "no-cap")),
    ]
    assert (len(network.seen), len(second.seen)) == (1, 1)


def test_an_engine_gets_only_the_inspections_whose_setup_names_it(
    network: Scripted, second: Scripted
) -> None:
    line = Line(network)
    other = engine_of(second)
    for i in range(1, 21):
        line.station.configure(line.setup(str(i), engine=other) if i % 2 else line.setup(str(i)))
        line.station.offer(frame(i, time_s=now()))
        line.box.wait(i)
    assert [by(one)[0] for one in line.box.published] == [str(i) for i in range(1, 21)]
    assert (len(network.seen), len(second.seen)) == (10, 10)


def test_parts_are_given_to_their_own_engine_only(network: Scripted) -> None:
    line = Line(network, start=False, trigger={"type": "mqtt"})
    first, second = line.engine, Engine("other", cast(Network, network))
    start = now()
    line.station.ask(part("A", start))
    line.station.configure(line.setup("other", engine=second))
    line.station.ask(part("B", start))
    line.station.offer(frame(1, time_s=start + 0.01))
    for engine in (second, first):
        assert line.box.published == []  # B waits for A's answer
        work = line.station.take_triggered(engine)
        assert work is not None
        assert line.station.take_triggered(engine) is None
        work(engine.network)
    assert [(one.part_id, by(one)[0]) for one in line.box.published] == [("A", None), ("B", "other")]


def test_frames_are_given_to_their_own_engine_only(network: Scripted) -> None:
    line = Line(network, start=False)
    first, second = line.engine, Engine("other", cast(Network, network))
    line.station.offer(frame(1, time_s=now()))
    line.station.configure(line.setup("other", engine=second))
    assert line.station.take_newest(first) is None
    assert line.station.take_newest(second) is not None
    tape = Line(network, start=False, recorded=True)
    tape.station.offer(frame(1))
    tape.station.configure(tape.setup("other", engine=second))
    tape.station.offer(frame(2))
    assert tape.station.take_newest(second) is None
    assert tape.station.take_newest(tape.engine) is not None
    assert tape.station.take_newest(tape.engine) is None
    assert tape.station.take_newest(second) is not None


def test_a_frame_in_the_slot_is_woken_up_for_the_new_engine(network: Scripted, second: Scripted) -> None:
    network.go.clear()
    line = Line(network)
    line.station.offer(frame(1, time_s=now()))
    assert network.begun.acquire(timeout=5)
    line.station.offer(frame(2, time_s=now()))
    other = engine_of(second)
    line.station.configure(line.setup("other", engine=other))
    assert second.begun.acquire(timeout=5)
    network.go.set()
    assert [one.frame_seq for one in line.box.wait(2)] == [1, 2]


def test_a_swap_does_not_wait_for_the_network_and_keeps_the_order(
    network: Scripted, second: Scripted
) -> None:
    network.go.clear()
    line = Line(network, deadline_ms=400)
    line.station.offer(frame(1, time_s=now()))
    assert network.begun.acquire(timeout=5)
    start = now()
    line.station.configure(line.setup("other", engine=engine_of(second)))
    assert now() - start < 0.3
    line.station.offer(frame(2, time_s=now()))
    assert second.begun.acquire(timeout=5)
    assert line.box.published == []
    while not line.box.published and now() - start < 5:
        line.station.check_deadlines()
    results = line.box.wait(2)
    assert [(one.frame_seq, by(one)[0]) for one in results] == [(1, None), (2, "other")]
    assert line.box.codes() == ["deadline", "OK"]


def test_every_frame_of_a_recording_belongs_to_what_ran_when_it_was_read(network: Scripted) -> None:
    network.go.clear()
    line = Line(network, recorded=True)
    for i in range(1, 5):
        line.station.offer(frame(i))
    line.station.configure(line.setup("other"))
    for i in range(5, 8):
        line.station.offer(frame(i))
    line.station.configure(line.setup("gone", failed=MISSING))
    network.go.set()
    line.station.end_recording()
    told = [(one.frame_seq, by(one)[0]) for one in line.box.published]
    assert [one for one in told if one[0] is not None] == [
        *((i, None) for i in range(1, 5)),
        *((i, "other") for i in range(5, 8)),
    ]
    assert told.count((None, "gone")) == 1


def test_confirm_and_hold_start_anew(network: Scripted) -> None:
    network.answer = lambda _: found()
    line = Line(network, recorded=True, confirm={"k": 2, "n": 2})
    for i in range(1, 3):
        line.station.offer(frame(i))
    line.station.end_recording()
    line.station.configure(line.setup("other"))
    line.station.offer(frame(3))
    line.station.end_recording()
    assert line.box.codes() == ["settling", "NOK", "settling"]
    held = Line(network, recorded=True, hold_s=100)
    held.station.offer(frame(1))
    held.station.end_recording()
    network.answer = lambda _: CAP
    held.station.offer(frame(2))
    held.station.end_recording()
    held.station.configure(held.setup("other"))
    held.station.offer(frame(3))
    held.station.end_recording()
    assert held.box.codes() == ["NOK", "NOK", "OK"]


def test_the_line_stops_count_and_the_publishing_start_anew(network: Scripted) -> None:
    network.answer = lambda _: found()
    line = Line(network, recorded=True, line_stop={"consecutive": 3}, publish="change")
    for i in range(1, 6):
        if i == 3:
            line.station.configure(line.setup("other"))
        line.station.offer(frame(i))
        line.station.end_recording()
    assert line.box.stops == ["NOK"]
    assert [one.frame_seq for one in line.box.published] == [1, 3]


def test_another_configuration_with_the_same_settings_keeps_the_memory(network: Scripted) -> None:
    network.answer = lambda _: found()
    line = Line(network, recorded=True, confirm={"k": 2, "n": 2})
    line.station.offer(frame(1))
    line.station.end_recording()
    line.station.configure(line.station.setup.told_as(replace(IDENTITY, boot_id="another")))
    line.station.offer(frame(2))
    line.station.end_recording()
    assert line.box.codes() == ["settling", "NOK"]
    assert [one.boot_id for one in line.box.published] == ["boot", "another"]


def test_each_setup_has_its_own_region_and_deadline(network: Scripted) -> None:
    network.go.clear()
    line = Line(network, trigger={"type": "mqtt"}, deadline_ms=60_000)
    line.station.ask(part("A"))
    line.station.configure(
        line.setup("other", deadline_ms=50, region={"unit": "pixel", "box": [0, 0, 900, 900]})
    )
    line.station.ask(part("B"))
    start = now()
    while now() - start < 0.1:
        line.station.check_deadlines()
    assert line.box.published == []  # B waits for A's answer
    network.go.set()
    line.station.offer(frame(1, time_s=now()))
    assert [(one.part_id, one.decision) for one in line.box.wait(2)] == [("A", "OK"), ("B", "UNDEFINED")]
    assert line.station.known("A") is not None
    line.station.configure(line.setup("third", region={"unit": "pixel", "box": [0, 0, 900, 900]}))
    line.station.ask(part("C"))
    line.station.offer(frame(2, time_s=now()))
    line.box.wait(3)
    assert line.box.codes()[2] == "rule_not_evaluable"


def test_a_setup_that_can_judge_nothing_is_told_once_and_to_each_part(network: Scripted) -> None:
    line = Line(network)
    line.station.configure(line.setup("gone", failed=MISSING))
    for i in range(1, 5):
        line.station.offer(frame(i, time_s=now()))
    assert [(one.decision, by(one)[0]) for one in line.box.published] == [("UNDEFINED", "gone")]
    assert line.box.published[0].reasons[0].text == MISSING.text
    assert line.box.published[0].result_state == 4
    assert network.seen == []
    parts = Line(network, trigger={"type": "mqtt"})
    parts.station.configure(parts.setup("gone", failed=MISSING))
    parts.station.ask(part("A"))
    assert [one.part_id for one in parts.box.wait(2)] == [None, "A"]


def test_a_part_that_asked_before_is_answered_by_the_network_that_ran_then(network: Scripted) -> None:
    line = Line(network, trigger={"type": "mqtt"})
    line.station.ask(part("A"))
    line.station.configure(line.setup("gone", failed=MISSING))
    line.station.offer(frame(1, time_s=now()))
    results = line.box.wait(2)
    assert [(one.part_id, one.decision, by(one)[0]) for one in results] == [
        ("A", "OK", None),
        (None, "UNDEFINED", "gone"),
    ]


def test_a_station_judges_again_once_it_can_and_stops_to_say_that_it_cannot(network: Scripted) -> None:
    line = Line(network)
    line.station.configure(line.setup("gone", failed=MISSING))
    line.station.configure(line.setup("other"))
    said = len(line.box.decided)
    start = now()
    while now() - start < 1.2:
        line.station.check_deadlines()
        threading.Event().wait(0.05)
    assert len(line.box.decided) == said
    line.station.offer(frame(1, time_s=now()))
    assert line.box.wait(2)[1].decision == "OK"


def test_a_lost_camera_is_told_by_what_runs_now(network: Scripted) -> None:
    line = Line(network)
    line.station.trouble(Unusable("camera_lost", "unplugged"))
    line.station.configure(line.setup("other"))
    line.station.trouble(Unusable("camera_lost", "unplugged"))
    assert [by(one)[0] for one in line.box.published] == [None, "other"]
    assert line.box.codes() == ["camera_lost", "camera_lost"]


def test_a_camera_lost_while_nothing_could_be_judged_is_told_afterwards(network: Scripted) -> None:
    line = Line(network)
    line.station.configure(line.setup("gone", failed=MISSING))
    line.station.trouble(Unusable("camera_lost", "unplugged"))
    line.station.configure(line.setup("other"))
    assert line.box.codes() == ["rule_not_evaluable", "camera_lost"]


def test_an_anomaly_threshold_of_the_station_takes_the_models_place(network: Scripted) -> None:
    network.answer = lambda _: Findings(anomaly=Anomaly(0.6))
    line = Line(network, recorded=True, rules=[], anomaly_threshold=0.7)
    line.station.offer(frame(1))
    line.station.end_recording()
    for threshold in (0.6, None):
        line.station.configure(line.setup("other", anomaly_threshold=threshold))
        line.station.offer(frame(2))
        line.station.end_recording()
    assert line.box.codes() == ["OK", "NOK", "NOK"]
    thresholds = [one.result_content[0].model_dump()["threshold"] for one in line.box.published]
    assert thresholds == [0.7, 0.6, 0.5]


def test_a_station_keeps_its_camera_and_trigger(network: Scripted) -> None:
    line = Line(network)
    for keys in ({"camera": "other"}, {"trigger": {"type": "every", "every_s": 1.0}}):
        with pytest.raises(AssertionError, match="keeps"):
            line.station.configure(line.setup(**keys))


def test_a_station_that_stops_is_not_configured_any_more(network: Scripted) -> None:
    line = Line(network)
    line.station.stop()
    line.station.configure(line.setup("gone", failed=MISSING))
    assert line.box.published == []
    assert line.station.identity.external_recipe is None


def test_a_station_that_was_replaced_judges_nothing_that_its_camera_still_shows_it(network: Scripted) -> None:
    line = Line(network)
    line.station.offer(frame(1, time_s=now()))
    line.box.wait(1)
    line.station.stop("the station was removed by a new configuration")
    line.station.offer(frame(2, time_s=now()))
    assert line.station.take_newest(line.engine) is None
    assert line.station.newest_frame is None, "nor does it keep a picture"


def test_engines_keep_nothing_of_a_station_that_was_taken_away(network: Scripted, second: Scripted) -> None:
    line, other = Line(network, start=False), Engine("other", cast(Network, second))
    line.station.configure(line.setup("other", engine=other))
    line.station.stop("the station was removed by a new configuration")
    assert (line.engine._feeds, other._feeds) == ([], [])


def test_an_engine_is_in_use_as_long_as_something_waits_for_it(network: Scripted, second: Scripted) -> None:
    network.go.clear()
    line = Line(network)
    line.station.offer(frame(1, time_s=now()))
    assert network.begun.acquire(timeout=5)
    other = engine_of(second)
    line.station.configure(line.setup("other", engine=other))
    assert line.station.uses(line.engine)
    assert line.station.uses(other)
    network.go.set()
    line.box.wait(1)
    assert not line.station.uses(line.engine)


def test_a_station_in_the_place_of_another_goes_on_counting_and_tells_parts_the_same(
    network: Scripted,
) -> None:
    line = Line(network, trigger={"type": "mqtt"})
    line.station.ask(part("A"))
    line.station.offer(frame(1, time_s=now()))
    (told,) = line.box.wait(1)
    line.station.stop("it was given another camera")
    after = Station(line.setup(), line.box, recorded=False, max_age_s=1.0, before=line.station)
    known = after.known("A")
    assert known is not None
    assert known.result == told
    assert after.meter.total == 1
