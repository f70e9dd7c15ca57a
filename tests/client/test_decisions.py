from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from edge_infer.client import Broker, Decision, Decisions
from edge_infer.client.messages import Word
from tests.support.foreign_publisher import ForeignPublisher, foreign_publisher
from tests.support.mosquitto import Mosquitto
from tests.support.publishers import PREFIX, device
from tests.support.results import result

TOO_OLD = "the last decision was over when it came; do the clocks of the device and of this machine agree?"


@contextmanager
def view(broker: Mosquitto, *, protocol: Any = "5", **options: Any) -> Iterator[Decisions]:
    address = Broker(broker.host, broker.port, protocol, user=broker.user, password=broker.password)
    with Decisions(address, PREFIX, **options) as decisions:
        end = time.monotonic() + 10
        while not decisions._session.connected:
            assert time.monotonic() < end
            time.sleep(0.01)
        yield decisions


def until(decisions: Decisions, word: str, why: str = "", station: str = "cap") -> Decision:
    end = time.monotonic() + 10
    while True:
        decision = decisions.wait(PREFIX, station, 0.1)
        if (decision.word, decision.why) == (word, why):
            return decision
        assert time.monotonic() < end, decision


def say(foreign: ForeignPublisher, word: str, left_s: float = 5.0, expiry_s: int | None = None) -> None:
    until = (datetime.now(UTC) + timedelta(seconds=left_s)).isoformat()
    foreign.say("cap/decision", word, expiry_s=expiry_s, validUntil=until)


def last(foreign: ForeignPublisher, word: str, left_s: float = 5.0) -> None:
    until = (datetime.now(UTC) + timedelta(seconds=left_s)).isoformat()
    foreign.say("cap/last", json.dumps({"decision": word, "validUntil": until}))


def test_without_a_word_it_is_undefined(mosquitto: Mosquitto) -> None:
    with view(mosquitto) as decisions, foreign_publisher(mosquitto) as foreign:
        assert decisions.of(PREFIX, "cap").why == "the status of the device is not known"
        foreign.status()
        assert until(decisions, "UNDEFINED", "nothing was said yet").valid_s == 0


@pytest.mark.parametrize("protocol", ["5", "3.1.1"])
def test_the_newest_word_of_a_real_device_holds_and_each_of_its_words_is_followed(
    protocol: str, mosquitto: Mosquitto, tmp_path: Path
) -> None:
    with (
        view(mosquitto, protocol=protocol) as decisions,
        device(mosquitto, tmp_path / "outbox", protocol=protocol) as one,
    ):
        one.connected()
        words: list[Word] = ["OK", "NOK", "UNDEFINED", "OK"]
        for word in words:
            told = result("cap", word)
            one.publisher.decision("cap", told)
            one.put(told, lambda final: one.publisher.last("cap", final))
            assert 0 < until(decisions, word).valid_s <= 5
        one.close()
        until(decisions, "UNDEFINED", "the device is stopped")


def test_no_ok_after_its_time_though_nothing_more_is_said(mosquitto: Mosquitto) -> None:
    with view(mosquitto, valid_s=0.5) as decisions, foreign_publisher(mosquitto) as foreign:
        foreign.status()
        say(foreign, "OK")
        until(decisions, "OK")
        began_s = time.monotonic()
        until(decisions, "UNDEFINED", "the last decision has expired")
        assert time.monotonic() - began_s < 1


def test_the_time_that_the_device_says_ends_it_earlier(mosquitto: Mosquitto) -> None:
    with view(mosquitto) as decisions, foreign_publisher(mosquitto) as foreign:
        foreign.status()
        say(foreign, "OK", 0.7)
        assert until(decisions, "OK").valid_s < 0.7
        until(decisions, "UNDEFINED", "the last decision has expired")
        say(foreign, "OK", 60, expiry_s=60)
        assert until(decisions, "OK").valid_s <= 5


def test_what_was_over_when_it_came_is_undefined_and_asks_for_the_clocks(mosquitto: Mosquitto) -> None:
    with view(mosquitto) as decisions, foreign_publisher(mosquitto) as foreign:
        foreign.status()
        say(foreign, "OK", -3600)
        assert until(decisions, "UNDEFINED", TOO_OLD).valid_s == 0


def test_a_device_that_is_not_online_has_no_decision(mosquitto: Mosquitto) -> None:
    with view(mosquitto) as decisions, foreign_publisher(mosquitto) as foreign:
        foreign.status()
        say(foreign, "OK")
        until(decisions, "OK")
        foreign.status("offline")
        until(decisions, "UNDEFINED", "the device is offline")
        # it must say it again
        foreign.status("online")
        until(decisions, "UNDEFINED", "nothing was said yet")
        until_then = (datetime.now(UTC) + timedelta(seconds=0.7)).isoformat()
        foreign.say("status", {"state": "online", "validUntil": until_then}, retain=True)
        say(foreign, "OK")
        assert until(decisions, "OK").valid_s <= 0.7
        until(decisions, "UNDEFINED", "nothing is heard of the device")
        foreign.say("status", "no JSON", retain=True)
        until(decisions, "UNDEFINED", "the device is unreadable")


def test_a_device_that_was_away_between_two_questions_must_say_it_again(mosquitto: Mosquitto) -> None:
    with view(mosquitto) as decisions, foreign_publisher(mosquitto) as foreign:
        foreign.status()
        say(foreign, "OK")
        until(decisions, "OK")
        for _ in range(3):
            say(foreign, "OK")
            foreign.status("offline")
            foreign.status("online")
        foreign.say("other/decision", "OK")
        end = time.monotonic() + 5
        # nobody asks until all of it is there
        while not any(
            one.topic.endswith("other/decision") for one in list(decisions._session._arrived.values())
        ):
            assert time.monotonic() < end
            time.sleep(0.01)
        assert len(decisions._session._arrived) <= 4
        assert decisions.of(PREFIX, "cap").why == "nothing was said yet"
        say(foreign, "NOK")
        until(decisions, "NOK")


def test_a_retained_ok_without_an_end_is_not_believed(mosquitto: Mosquitto) -> None:
    with foreign_publisher(mosquitto) as foreign:
        foreign.status()
        foreign.say("cap/decision", "OK", retain=True)
        with view(mosquitto) as decisions:
            assert until(decisions, "UNDEFINED", TOO_OLD).valid_s == 0


def test_a_word_that_nobody_knows_ends_the_ok_before_it(mosquitto: Mosquitto) -> None:
    with view(mosquitto) as decisions, foreign_publisher(mosquitto) as foreign:
        foreign.status()
        say(foreign, "OK")
        until(decisions, "OK")
        say(foreign, "PERHAPS")
        until(decisions, "UNDEFINED")


def test_over_mqtt_3_the_last_result_must_say_the_same_and_until_when(mosquitto: Mosquitto) -> None:
    with view(mosquitto, protocol="3.1.1") as decisions, foreign_publisher(mosquitto) as foreign:
        foreign.status()
        say(foreign, "OK")
        until(decisions, "UNDEFINED", "`last` does not say the same yet")
        last(foreign, "OK", 0.7)
        assert until(decisions, "OK").valid_s < 0.7
        until(decisions, "UNDEFINED", "the last decision has expired")
        last(foreign, "OK")
        until(decisions, "OK")
        say(foreign, "NOK")
        until(decisions, "UNDEFINED", "`last` does not say the same yet")
        last(foreign, "OK", -10)
        say(foreign, "OK")
        until(decisions, "UNDEFINED", "the last decision has expired")


def test_a_gateway_that_asks_seldom_gets_the_newest_word_and_keeps_no_others(mosquitto: Mosquitto) -> None:
    with view(mosquitto) as decisions, foreign_publisher(mosquitto) as foreign:
        foreign.status()
        for number in range(300):
            say(foreign, "OK" if number % 2 else "NOK")
        say(foreign, "NOK")
        time.sleep(0.2)
        assert len(decisions._session._arrived) <= 2
        until(decisions, "NOK")
