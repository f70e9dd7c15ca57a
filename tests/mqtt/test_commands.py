from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from edge_infer.mqtt import replies
from edge_infer.mqtt.publisher import Message
from tests.support.mosquitto import Mosquitto
from tests.support.publishers import PREFIX, device
from tests.support.results import result
from tests.support.subscriber import Subscriber, subscribed

TOPIC = f"{PREFIX}/cap/cmd/start_single_job"


def _ask(
    requester: Subscriber, payload: str = "{}", *, answer_to: str | None = None, retain: bool = False
) -> None:
    properties = Properties(PacketTypes.PUBLISH)
    if answer_to is not None:
        properties.ResponseTopic = answer_to
        properties.CorrelationData = b"c-1"
    properties.MessageExpiryInterval = 30
    requester.client.publish(TOPIC, payload, qos=1, retain=retain, properties=properties)


def test_a_command_is_answered_where_the_sender_wants_it(mosquitto: Mosquitto, tmp_path: Path) -> None:
    answer_to = "vision/v1/rsp/mes"
    with (
        subscribed(mosquitto, "vision/v1/rsp/#") as requester,
        device(mosquitto, tmp_path / "outbox") as one,
    ):

        def handler(message: Message) -> None:
            one.publisher.respond(message, b"yes " + message.payload)

        one.publisher.subscribe(TOPIC, handler)
        one.connected()
        time.sleep(0.1)
        began = time.monotonic()
        _ask(requester, "please", answer_to=answer_to)
        answer = requester.wait_on("mes")[0]
        assert answer.payload == b"yes please"
        assert answer.properties["CorrelationData"] == b"c-1".hex()
        assert answer.at - began < 0.5


def test_commands_still_arrive_after_a_reconnection_and_after_a_handler_failed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    got: list[Message] = []

    def handler(message: Message) -> None:
        got.append(message)
        raise RuntimeError("bad command")

    with Mosquitto(tmp_path / "mosquitto") as broker, device(broker, tmp_path / "outbox") as one:
        one.publisher.subscribe(TOPIC, handler)
        one.connected()
        broker.kill()
        broker.start()
        with subscribed(broker, f"{PREFIX}/status") as requester:
            requester.wait_on("status")
            time.sleep(0.1)
            _ask(requester, "1")
            _ask(requester, "2")
            one.wait(lambda: len(got) == 2, "handled")
    assert [message.payload for message in got] == [b"1", b"2"]
    assert got[0].expiry_s is not None
    assert "a command on" in caplog.text


def test_an_answer_that_waited_too_long_for_the_broker_is_not_sent_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    got: list[Message] = []
    with Mosquitto(tmp_path / "mosquitto") as broker, device(broker, tmp_path / "outbox") as one:
        one.publisher.subscribe(TOPIC, got.append)
        with subscribed(broker, f"{PREFIX}/status") as requester:
            requester.wait_on("status")
            time.sleep(0.1)
            _ask(requester, answer_to="vision/v1/rsp/mes")
            one.wait(lambda: bool(got), "asked")
        one.lock_out()
        broker.kill()
        one.wait(lambda: not one.publisher.connected, "without a broker")
        monkeypatch.setattr(replies, "VALID_S", 0.0)
        assert one.publisher.respond(got[0], b"old")
        monkeypatch.setattr(replies, "VALID_S", 60.0)
        assert one.publisher.respond(got[0], b"still wanted")
        broker.start()
        with subscribed(broker, "vision/v1/rsp/#") as requester:
            one.let_in()
            requester.wait_on("mes")
            assert [answer.payload for answer in requester.on("mes")] == [b"still wanted"]


def test_a_retained_command_is_not_obeyed(mosquitto: Mosquitto, tmp_path: Path) -> None:
    got: list[Message] = []
    with subscribed(mosquitto, "x") as requester:
        _ask(requester, "old", retain=True)
        for protocol in ("5", "3.1.1"):
            with device(mosquitto, tmp_path / "outbox", protocol=protocol) as one:
                one.publisher.subscribe(TOPIC, got.append)
                one.connected()
                time.sleep(0.3)
                _ask(requester, "new")
                one.wait(lambda: bool(got), "handled")
            assert [message.payload for message in got] == [b"new"]
            got.clear()


@pytest.mark.parametrize(
    "hostile",
    ["vision/v1/plant1/l3/other/cap/cmd/start_single_job", "vision/v1/rspx", "vision/v1/rsp/" + "x" * 300],
)
def test_an_answer_goes_nowhere_but_to_the_reply_space(
    mosquitto: Mosquitto, tmp_path: Path, hostile: str, caplog: pytest.LogCaptureFixture
) -> None:
    answered: list[bool] = []
    with subscribed(mosquitto, "#") as requester, device(mosquitto, tmp_path / "outbox") as one:
        one.publisher.subscribe(
            TOPIC, lambda message: answered.append(one.publisher.respond(message, b"yes"))
        )
        one.connected()
        time.sleep(0.1)
        _ask(requester, answer_to=hostile)
        one.wait(lambda: bool(answered), "handled")
        one.put(result())
        requester.wait_on("result")
        assert answered == [False]
        assert not requester.on(hostile)
    assert "only topics below vision/v1/rsp/ are answered" in caplog.text


def test_a_slow_handler_stops_neither_results_nor_keepalive(mosquitto: Mosquitto, tmp_path: Path) -> None:
    inside, release = threading.Event(), threading.Event()

    def slow(_: Message) -> None:
        inside.set()
        release.wait(10)

    with (
        subscribed(mosquitto, f"{PREFIX}/+/result") as subscriber,
        device(mosquitto, tmp_path / "outbox") as one,
    ):
        one.publisher.subscribe(TOPIC, slow)
        one.connected()
        time.sleep(0.1)
        _ask(subscriber)
        assert inside.wait(5)
        for _ in range(20):
            one.put(result())
        subscriber.wait_on("result", 20)
        release.set()


def test_a_flood_of_commands_is_cut_and_those_after_it_arrive(mosquitto: Mosquitto, tmp_path: Path) -> None:
    inside, release = threading.Event(), threading.Event()
    got: list[bytes] = []

    def slow(message: Message) -> None:
        inside.set()
        release.wait(10)
        got.append(message.payload)

    with subscribed(mosquitto, "x") as requester, device(mosquitto, tmp_path / "outbox") as one:
        one.publisher.subscribe(TOPIC, slow)
        one.connected()
        time.sleep(0.1)
        for i in range(300):
            requester.client.publish(TOPIC, str(i), qos=0)
        assert inside.wait(5)
        one.wait(lambda: one.publisher._inbox.dropped > 0, "cut")
        release.set()
        one.wait(lambda: len(got) >= 100, "worked off")
        _ask(requester, "last")
        one.wait(lambda: b"last" in got, "answered")


def test_a_command_is_acknowledged_only_after_its_handler(mosquitto: Mosquitto, tmp_path: Path) -> None:
    inside, release = threading.Event(), threading.Event()

    def slow(_: Message) -> None:
        inside.set()
        release.wait(10)

    with (
        subscribed(mosquitto, "x") as requester,
        device(mosquitto, tmp_path / "outbox", client_id="dev") as one,
    ):
        one.publisher.subscribe(TOPIC, slow)
        one.connected()
        time.sleep(0.1)
        _ask(requester)
        assert inside.wait(5)
        assert "Received PUBACK from dev" not in mosquitto.log
        release.set()
        one.wait(lambda: "Received PUBACK from dev" in mosquitto.log, "acknowledged")
