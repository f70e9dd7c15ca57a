from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from datetime import datetime, timedelta
from pathlib import Path

import jsonschema
import pytest

from edge_infer import clock
from edge_infer.outbox import Counts
from edge_infer.result import Result, json_schema
from tests.support.mosquitto import Mosquitto
from tests.support.publishers import PREFIX, Device, device
from tests.support.results import result
from tests.support.subscriber import Received, Subscriber, subscribed

ALIVE = """
import sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from tests.support.publishers import Device
from tests.support.mosquitto import Mosquitto
broker = Mosquitto.__new__(Mosquitto)
broker.host, broker.port, broker.user, broker.password = "127.0.0.1", int(sys.argv[2]), *sys.argv[3:5]
one = Device(broker, Path(sys.argv[5])).start().connected()
time.sleep(60)
"""


def _states(subscriber: Subscriber) -> list[str]:
    return [message.json["state"] for message in subscriber.on("/status")]


def _words(messages: list[Received]) -> list[str]:
    return [message.payload.decode() for message in messages]


def test_a_process_that_is_killed_is_offline_and_its_restart_online(
    mosquitto: Mosquitto, tmp_path: Path
) -> None:
    root = str(Path(__file__).parents[2])
    arguments = [root, str(mosquitto.port), mosquitto.user, mosquitto.password, str(tmp_path / "outbox")]
    with (
        subscribed(mosquitto, f"{PREFIX}/#") as subscriber,
        subprocess.Popen([sys.executable, "-c", ALIVE, *arguments]) as process,
    ):
        online = subscriber.wait_on("/status")[0]
        assert online.json == {
            "state": "online",
            "bootId": "b0",
            "version": "0.1.0",
            "since": online.json["since"],
            "validUntil": online.json["validUntil"],
        }
        until = datetime.fromisoformat(online.json["validUntil"])
        assert timedelta(seconds=30) < until - clock.now() <= timedelta(seconds=60)
        assert datetime.fromisoformat(online.json["since"]).tzinfo is not None
        os.kill(process.pid, signal.SIGKILL)
        process.wait(5)
        offline = subscriber.wait_on("/status", 2)[1]
        assert (offline.json["state"], offline.json["since"]) == ("offline", None)
        with subscribed(mosquitto, f"{PREFIX}/status") as later:
            assert later.wait_on("/status")[0].retained
            assert _states(later) == ["offline"]
        with device(mosquitto, tmp_path / "outbox"):
            subscriber.wait_on("/status", 3)
            assert _states(subscriber) == ["online", "offline", "online"]


def test_a_clean_stop_is_stopped_after_the_last_result(mosquitto: Mosquitto, tmp_path: Path) -> None:
    with subscribed(mosquitto, f"{PREFIX}/#") as subscriber:
        one = Device(mosquitto, tmp_path / "outbox").start().connected()
        for _ in range(100):
            one.put(result())
        began = time.monotonic()
        one.close(3)
        assert time.monotonic() - began < 2
        subscriber.wait_for(lambda messages: messages[-1].topic.endswith("/status"))
        assert _states(subscriber) == ["online", "stopped"]
        assert len(subscriber.on("result")) == 100
        assert subscriber.messages[-1].json["state"] == "stopped"
        with subscribed(mosquitto, f"{PREFIX}/status") as later:
            later.wait_on("/status")
            assert _states(later) == ["stopped"]


def test_a_stop_with_a_backlog_still_says_stopped_and_keeps_the_rest(tmp_path: Path) -> None:
    with Mosquitto(tmp_path / "mosquitto", lines=("max_inflight_messages 1",)) as broker:
        one = Device(broker, tmp_path / "outbox", outbox={"commit": "normal"})
        for _ in range(4000):
            one.put(result())
        assert one.outbox.flush(10)
        with subscribed(broker, f"{PREFIX}/#") as subscriber:
            one.start().connected()
            began = time.monotonic()
            one.close(0.6)
            assert time.monotonic() - began < 1.5
            subscriber.wait_for(lambda _: "stopped" in _states(subscriber))
            sent = len(subscriber.on("result"))
            assert 0 < sent < 4000
        with device(broker, tmp_path / "outbox") as again:
            assert 4000 - sent <= again.outbox.depth() <= 4000 - sent + 1


def test_a_stop_while_the_broker_is_away_is_quick(mosquitto: Mosquitto, tmp_path: Path) -> None:
    mosquitto.stop()
    one = Device(mosquitto, tmp_path / "outbox").start()
    one.put(result())
    began = time.monotonic()
    one.close(3)
    assert time.monotonic() - began < 1


def test_a_decision_is_a_bare_word_and_last_is_the_result(mosquitto: Mosquitto, tmp_path: Path) -> None:
    with (
        subscribed(mosquitto, f"{PREFIX}/cap/#") as subscriber,
        device(mosquitto, tmp_path / "outbox") as one,
    ):
        one.connected()
        first = result("cap", "NOK")
        one.publisher.decision("cap", first)
        one.put(first, lambda final: one.publisher.last("cap", final))
        decision = subscriber.wait_on("cap/decision")[0]
        last = subscriber.wait_on("cap/last")[0]
        assert decision.payload == b"NOK"
        assert decision.properties["ContentType"] == "text/plain"
        jsonschema.validate(last.json, json_schema())
        assert (last.json["resultId"], last.json["seq"]) == (first.result_id, 1)
        for message in (decision, last):
            until = datetime.fromisoformat(message.user["validUntil"])
            assert timedelta(seconds=3) < until - clock.now() <= timedelta(seconds=5)
            assert message.properties["MessageExpiryInterval"] in (3, 4)
        assert last.json["validUntil"] == last.user["validUntil"]
        # as the other times beside it
        assert last.json["validUntil"].endswith("Z")
        assert last.json["creationTime"].endswith("Z")
        with subscribed(mosquitto, f"{PREFIX}/cap/#") as later:
            assert all(message.retained for message in later.wait_for(lambda messages: len(messages) == 2))


def test_a_subscriber_that_comes_after_the_decision_expired_finds_none(
    mosquitto: Mosquitto, tmp_path: Path
) -> None:
    with device(mosquitto, tmp_path / "outbox", valid_s=2.0) as one:
        one.connected()
        ok = result("cap", "OK")
        with subscribed(mosquitto, f"{PREFIX}/cap/#") as subscriber:
            one.publisher.decision("cap", ok)
            one.put(ok, lambda final: one.publisher.last("cap", final))
            subscriber.wait_for(
                lambda messages: (
                    {m.topic.rpartition("/")[2] for m in messages} == {"decision", "last", "result"}
                )
            )
        time.sleep(2.1)
        with subscribed(mosquitto, f"{PREFIX}/#") as later:
            later.wait_on("/status")
            time.sleep(0.1)
            assert [message.topic for message in later.messages] == [f"{PREFIX}/status"]


def test_a_decision_is_sent_at_once_when_it_changes_and_renewed_only_while_it_is_true(
    mosquitto: Mosquitto, tmp_path: Path
) -> None:
    with (
        subscribed(mosquitto, f"{PREFIX}/cap/decision") as subscriber,
        device(mosquitto, tmp_path / "outbox", valid_s=2.0) as one,
    ):
        one.connected()
        began = time.monotonic()
        while time.monotonic() - began < 2.5:
            one.publisher.decision("cap", result("cap", "OK"))
            time.sleep(0.02)
        renewed = len(subscriber.messages)
        # at the start, then each time half of it is over: not one for each of 125 inspections
        assert 3 <= renewed <= 4
        changed = time.monotonic()
        one.publisher.decision("cap", result("cap", "NOK"))
        nok = subscriber.wait_for(lambda messages: messages[-1].payload == b"NOK")[-1]
        assert nok.at - changed < 0.3
        # inspections end; nobody says it again beyond what the last one justifies
        time.sleep(2.5)
        assert _words(subscriber.messages) == ["OK"] * renewed + ["NOK"]


def test_last_is_renewed_by_inspections_that_say_the_same(mosquitto: Mosquitto, tmp_path: Path) -> None:
    with (
        subscribed(mosquitto, f"{PREFIX}/cap/last") as subscriber,
        device(mosquitto, tmp_path / "outbox", valid_s=2.0) as one,
    ):
        one.connected()
        first = result("cap", "OK")
        one.publisher.decision("cap", first)
        one.put(first, lambda final: one.publisher.last("cap", final))
        began = time.monotonic()
        while time.monotonic() - began < 1.5:
            one.publisher.decision("cap", result("cap", "OK"))
            time.sleep(0.02)
        one.publisher.decision("cap", result("cap", "NOK"))
        time.sleep(1.5)
        messages = subscriber.messages
        assert len(messages) == 2
        assert {message.json["resultId"] for message in messages} == {first.result_id}
        assert messages[0].json["validUntil"] < messages[1].json["validUntil"]


def test_each_part_gets_its_own_decision_message(mosquitto: Mosquitto, tmp_path: Path) -> None:
    with (
        subscribed(mosquitto, f"{PREFIX}/cap/decision") as subscriber,
        device(mosquitto, tmp_path / "outbox") as one,
    ):
        one.connected()
        for part in range(3):
            one.publisher.decision("cap", result("cap", "OK", part_id=f"part-{part}"))
            assert _words(subscriber.wait_on("decision", part + 1)) == ["OK"] * (part + 1)


def test_last_never_says_ok_after_a_newer_decision_said_otherwise(
    mosquitto: Mosquitto, tmp_path: Path
) -> None:
    with (
        subscribed(mosquitto, f"{PREFIX}/cap/#") as subscriber,
        device(mosquitto, tmp_path / "outbox") as one,
    ):
        one.connected()
        slow, newer = result("cap", "OK"), result("cap", "NOK")
        one.publisher.decision("cap", slow)
        one.publisher.decision("cap", newer)
        # the disk was slow: the commit of the OK comes now
        one.publisher.last("cap", slow.model_copy(update={"seq": 1, "stream_id": "s"}))
        one.publisher.last("cap", newer.model_copy(update={"seq": 2, "stream_id": "s"}))
        subscriber.wait_on("last")
        assert [message.json["seq"] for message in subscriber.on("last")] == [2]


def test_last_never_says_ok_where_the_decision_changes_while_it_is_written(
    mosquitto: Mosquitto, tmp_path: Path
) -> None:
    class Overtaken(Result):
        def as_json(self) -> str:
            # the station's thread comes between; this one is the writer's
            one.publisher.decision("cap", newer)
            return super().as_json()

    with (
        subscribed(mosquitto, f"{PREFIX}/cap/#") as subscriber,
        device(mosquitto, tmp_path / "outbox") as one,
    ):
        one.connected()
        first, newer = result("cap", "OK"), result("cap", "NOK")
        one.publisher.decision("cap", first)
        slow = first.model_copy(update={"seq": 1, "stream_id": "s"})
        one.publisher.last("cap", Overtaken.model_construct(**dict(slow)))
        # behind everything that is due before it
        one.publisher.counts("cap", Counts(ok=1))
        subscriber.wait_on("counts")
        assert not subscriber.on("last")


def test_a_decision_made_while_the_broker_is_away_is_sent_only_while_it_is_true(
    mosquitto: Mosquitto, tmp_path: Path
) -> None:
    mosquitto.stop()
    with device(mosquitto, tmp_path / "outbox", valid_s=2.0) as one:
        one.publisher.decision("old", result("old", "OK"))
        time.sleep(1.2)
        for word in ("OK", "UNDEFINED", "NOK"):
            one.publisher.decision("cap", result("cap", word))
        one.lock_out()
        mosquitto.start()
        with subscribed(mosquitto, f"{PREFIX}/#") as subscriber:
            one.let_in()
            # the newest of three; the old one has too little time left
            assert _words(subscriber.wait_on("/decision")) == ["NOK"]
            time.sleep(0.2)
            assert {message.topic for message in subscriber.on("/decision")} == {f"{PREFIX}/cap/decision"}


@pytest.mark.parametrize("frozen_s", [1.6, 3.0])
def test_a_decision_that_reached_the_broker_late_is_taken_back_at_its_end(
    mosquitto: Mosquitto, tmp_path: Path, frozen_s: float
) -> None:
    # with 3 s the connection is lost meanwhile, and what lies in its buffer is still read by the broker
    with device(mosquitto, tmp_path / "outbox", valid_s=2.0) as one:
        one.connected()
        one.wait(lambda: one.publisher.stats.in_flight == 0, "told")
        mosquitto.freeze()
        said = time.monotonic()
        one.publisher.decision("cap", result("cap", "OK"))
        time.sleep(frozen_s)
        mosquitto.thaw()
        # else the broker would keep it for as long as it held when it was sent
        with subscribed(mosquitto, f"{PREFIX}/cap/decision") as later:
            later.wait_for(lambda messages: b"UNDEFINED" in [one.payload for one in messages])
            assert time.monotonic() - said < max(2.0, frozen_s) + 2
            time.sleep(0.5)
            assert _words(later.messages)[-1] == "UNDEFINED"


def test_a_decision_that_was_not_late_just_ends(mosquitto: Mosquitto, tmp_path: Path) -> None:
    with (
        subscribed(mosquitto, f"{PREFIX}/cap/decision") as subscriber,
        device(mosquitto, tmp_path / "outbox", valid_s=2.0) as one,
    ):
        one.connected()
        one.publisher.decision("cap", result("cap", "OK"))
        subscriber.wait_on("decision")
        time.sleep(3)
        assert _words(subscriber.messages) == ["OK"]


def test_a_decision_of_an_old_result_is_not_sent(mosquitto: Mosquitto, tmp_path: Path) -> None:
    with (
        subscribed(mosquitto, f"{PREFIX}/#") as subscriber,
        device(mosquitto, tmp_path / "outbox") as one,
    ):
        one.connected()
        # the disk hung: the commit came late
        old = result("cap", "OK", created=clock.now() - timedelta(seconds=6))
        one.publisher.decision("cap", old)
        one.publisher.last("cap", old.model_copy(update={"seq": 1, "stream_id": "s"}))
        one.put(result("cap", "NOK"))
        subscriber.wait_on("result")
        assert not subscriber.on("decision") + subscriber.on("last")


def test_a_decision_never_waits_behind_a_backlog(tmp_path: Path) -> None:
    with Mosquitto(tmp_path / "mosquitto") as broker:
        one = Device(broker, tmp_path / "outbox", outbox={"commit": "normal"})
        for _ in range(3000):
            one.put(result())
        assert one.outbox.flush(10)
        with subscribed(broker, f"{PREFIX}/#") as subscriber:
            one.start().connected()
            began = time.monotonic()
            one.publisher.decision("cap", result("cap", "NOK"))
            decision = subscriber.wait_on("decision")[0]
            assert one.outbox.depth() > 1000
            assert decision.at - began < 0.5
            one.close(0.1)


def test_nothing_that_expires_is_retained_on_mqtt_3_1_1(mosquitto: Mosquitto, tmp_path: Path) -> None:
    with device(mosquitto, tmp_path / "outbox", protocol="3.1.1") as one:
        one.connected()
        ok = result("cap", "OK")
        with subscribed(mosquitto, f"{PREFIX}/cap/#", v5=False) as subscriber:
            one.publisher.decision("cap", ok)
            one.put(ok, lambda final: one.publisher.last("cap", final))
            last = subscriber.wait_on("last")[0]
            assert "validUntil" in last.json
            subscriber.wait_on("decision")
        with subscribed(mosquitto, f"{PREFIX}/#", v5=False) as later:
            later.wait_on("/status")
            time.sleep(0.1)
            assert [message.topic for message in later.messages] == [f"{PREFIX}/status"]


def test_counts_are_retained_and_sent_at_most_once_a_second(mosquitto: Mosquitto, tmp_path: Path) -> None:
    with (
        subscribed(mosquitto, f"{PREFIX}/cap/counts") as subscriber,
        device(mosquitto, tmp_path / "outbox") as one,
    ):
        one.connected()

        def committed(_: Result) -> None:
            one.publisher.counts("cap", one.outbox.counts("cap"))

        for _ in range(50):
            one.put(result("cap", "OK"), committed)
            time.sleep(0.01)
        one.put(result("cap", "NOK"), committed)
        newest = subscriber.wait_for(lambda messages: messages[-1].json["NOK"] == 1)
        assert len(newest) <= 3
        assert newest[-1].json["OK"] == 50
        assert newest[-1].json["UNDEFINED"] == 0
        with subscribed(mosquitto, f"{PREFIX}/cap/counts") as later:
            assert later.wait_on("counts")[0].retained


def test_a_stop_tells_the_last_counts_before_it_says_stopped(mosquitto: Mosquitto, tmp_path: Path) -> None:
    with subscribed(mosquitto, f"{PREFIX}/#") as subscriber:
        one = Device(mosquitto, tmp_path / "outbox").start().connected()
        for i in range(1, 4):
            one.publisher.counts("cap", Counts(ok=i))
        one.close(3)
        subscriber.wait_for(lambda messages: messages[-1].topic.endswith("/status"))
        assert subscriber.on("counts")[-1].json["OK"] == 3
        assert _states(subscriber) == ["online", "stopped"]


def test_the_state_is_told_again_after_each_connection(tmp_path: Path) -> None:
    # a broker without persistence forgets what it retained
    with Mosquitto(tmp_path / "mosquitto") as broker, device(broker, tmp_path / "outbox") as one:
        one.connected()
        one.publisher.counts("cap", Counts(ok=3))
        one.publisher.decision("cap", result("cap", "OK"))
        one.delivered()
        broker.kill()
        broker.start()
        with subscribed(broker, f"{PREFIX}/#") as subscriber:
            subscriber.wait_on("/status")
            assert subscriber.wait_on("counts")[0].json["OK"] == 3
            assert subscriber.wait_on("decision")[0].payload == b"OK"


def test_an_event_waits_for_the_broker(mosquitto: Mosquitto, tmp_path: Path) -> None:
    mosquitto.stop()
    with device(mosquitto, tmp_path / "outbox") as one:
        one.publisher.event("line_stop", {"decision": "NOK", "score": float("nan")}, "cap")
        one.lock_out()
        mosquitto.start()
        with subscribed(mosquitto, f"{PREFIX}/event") as subscriber:
            one.let_in()
            message = subscriber.wait_on("event")[0]
            assert message.json["kind"] == "line_stop"
            assert message.json["station"] == "cap"
            assert message.json["data"] == {"decision": "NOK", "score": None}
            assert message.json["bootId"] == "b0"
            assert message.user == {"schema": "event/1"}
            json.loads(message.payload, parse_constant=_no_json)


def _no_json(word: str) -> None:
    raise AssertionError(f"{word} is no JSON")
