"""What networks and brokers do: nothing is lost, nothing hangs, and the reason is said."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edge_infer.mqtt import refusals
from edge_infer.mqtt.publisher import Timing
from tests.support.bad_network import BadNetwork
from tests.support.fake_broker import (
    CONNACK,
    CONNECT,
    OK,
    PUBACK,
    PUBLISH,
    FakeBroker,
    acknowledging,
    leaving,
)
from tests.support.mosquitto import Mosquitto
from tests.support.publishers import PREFIX, Device, device
from tests.support.results import result
from tests.support.subscriber import Subscriber, subscribed

TWICE = Timing(connack_s=1.0, ack_s=1.0, retry_min_s=0.05, retry_max_s=0.2)


@pytest.fixture
def subscriber(mosquitto: Mosquitto) -> Iterator[Subscriber]:
    with subscribed(mosquitto, f"{PREFIX}/+/result") as one:
        yield one


def _all_arrive(one: Device, subscriber: Subscriber, count: int) -> None:
    one.delivered(20)
    subscriber.wait_for(lambda _: {m.json["seq"] for m in subscriber.messages} == set(range(1, count + 1)))
    assert len({message.json["streamId"] for message in subscriber.messages}) == 1


def test_a_network_that_delivers_byte_by_byte_is_slow_and_nothing_else(
    mosquitto: Mosquitto, subscriber: Subscriber, tmp_path: Path
) -> None:
    with BadNetwork(mosquitto, chunk=1) as network, device(network, tmp_path / "outbox") as one:
        one.connected()
        for _ in range(5):
            one.put(result())
        _all_arrive(one, subscriber, 5)
        assert one.publisher.stats.connections == 1


def test_a_network_that_resets_loses_nothing(
    mosquitto: Mosquitto, subscriber: Subscriber, tmp_path: Path
) -> None:
    with BadNetwork(mosquitto) as network, device(network, tmp_path / "outbox", timing=TWICE) as one:
        one.connected()
        for i in range(60):
            one.put(result())
            if i in (20, 40):
                one.wait(lambda: one.publisher.stats.in_flight > 0 or one.outbox.idle, "sending")
                network.reset()
                one.wait(lambda: not one.publisher.connected, "noticed")
        _all_arrive(one, subscriber, 60)


@pytest.mark.parametrize("bytes_", [1, 3, 40, 700, 2500])
def test_a_connection_that_is_cut_in_the_middle_of_a_packet_loses_nothing(
    mosquitto: Mosquitto, subscriber: Subscriber, tmp_path: Path, bytes_: int
) -> None:
    with BadNetwork(mosquitto) as network, device(network, tmp_path / "outbox", timing=TWICE) as one:
        one.connected()
        network.cut_after(bytes_)
        for _ in range(20):
            one.put(result())
        one.wait(lambda: one.publisher.stats.connections >= 2, "connected again")
        _all_arrive(one, subscriber, 20)


def test_a_network_that_stalls_is_noticed_and_what_was_on_the_wire_comes_again(
    mosquitto: Mosquitto, subscriber: Subscriber, tmp_path: Path
) -> None:
    with BadNetwork(mosquitto) as network, device(network, tmp_path / "outbox", timing=TWICE) as one:
        one.connected()
        one.delivered()
        network.stall()
        for _ in range(10):
            one.put(result())
        one.wait(lambda: "acknowledges nothing" in str(one.publisher.stats.trouble), "noticed")
        # what is connected now gets no CONNACK either
        one.wait(lambda: "says nothing" in str(one.publisher.stats.trouble), "noticed again")
        network.flow()
        _all_arrive(one, subscriber, 10)
        assert one.publisher.stats.taken_over == 0


def test_a_broker_that_is_frozen_and_thawed_gets_everything(
    mosquitto: Mosquitto, subscriber: Subscriber, tmp_path: Path
) -> None:
    with device(mosquitto, tmp_path / "outbox", timing=TWICE) as one:
        one.connected()
        mosquitto.freeze()
        for _ in range(30):
            one.put(result())
        one.wait(lambda: one.publisher.stats.trouble is not None, "noticed")
        mosquitto.thaw()
        _all_arrive(one, subscriber, 30)


def _publishing(answer: Any) -> FakeBroker:
    """CONNACK, then ``answer(body)`` to each PUBLISH."""

    def reply(kind: int, body: bytes) -> bytes | None:
        if kind == CONNECT:
            return OK
        said: bytes | None = answer(body) if kind == PUBLISH else b""
        return said

    return FakeBroker(reply)


def _topic(body: bytes) -> str:
    return body[2 : 2 + int.from_bytes(body[:2], "big")].decode()


@pytest.mark.parametrize(
    ("code", "reason"),
    [(0x80, "Unspecified error"), (0x83, "Implementation specific error"), (0x87, "Not authorized"),
     (0x90, "Topic name invalid"), (0x97, "Quota exceeded"), (0x99, "Payload format invalid")],
)  # fmt: skip
def test_a_refused_result_is_kept_aside_with_the_brokers_reason_and_the_next_one_goes(
    tmp_path: Path, code: int, reason: str
) -> None:
    refused: list[str] = []

    def answer(body: bytes) -> bytes:
        if _topic(body).endswith("/cap/result") and not refused:
            refused.append(_topic(body))
            length = int.from_bytes(body[:2], "big")
            return bytes([PUBACK << 4, 4]) + body[2 + length : 4 + length] + bytes([code, 0])
        return acknowledging(body)

    with _publishing(answer) as broker, device(broker, tmp_path / "outbox") as one:
        one.connected()
        one.put(result())
        one.put(result())
        one.wait(lambda: one.outbox.stats.dead == 1, "kept aside")
        # the second result and the event about the first
        one.wait(lambda: one.publisher.stats.delivered >= 2, "delivered")
        assert one.publisher.stats.refused_topics == {f"{PREFIX}/cap/result": reason}


def test_refused_topics_are_told_once_each_and_not_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(refusals, "MOST", 3)

    def answer(body: bytes) -> bytes:
        length = int.from_bytes(body[:2], "big")
        refused = bytes([PUBACK << 4, 4]) + body[2 + length : 4 + length] + bytes([0x87, 0])
        return refused if _topic(body).endswith("/result") else acknowledging(body)

    with _publishing(answer) as broker, device(broker, tmp_path / "outbox") as one:
        one.connected()
        for i in range(10):
            one.put(result(f"s{i % 5}"))
        one.wait(lambda: one.outbox.stats.dead == 10, "kept aside")
        assert len([one for one in caplog.records if "the broker refuses" in one.getMessage()]) == 3
        assert len(one.publisher.stats.refused_topics) == 3


def test_a_puback_that_is_a_success_with_a_reason_deletes_the_result(tmp_path: Path) -> None:
    def answer(body: bytes) -> bytes:
        length = int.from_bytes(body[:2], "big")
        return bytes([PUBACK << 4, 3]) + body[2 + length : 4 + length] + b"\x10"

    with _publishing(answer) as broker, device(broker, tmp_path / "outbox") as one:
        one.put(result())
        one.delivered()
        assert (one.outbox.stats.dead, one.publisher.stats.refused) == (0, 0)


@pytest.mark.parametrize(
    ("code", "reason"),
    [(0x89, "Server busy"), (0x8B, "Server shutting down"), (0x97, "Quota exceeded"),
     (0x98, "Administrative action"), (0x9C, "Use another server")],
)  # fmt: skip
def test_a_broker_that_says_goodbye_is_quoted_and_asked_again(tmp_path: Path, code: int, reason: str) -> None:
    left: list[bytes] = []

    def answer(body: bytes) -> bytes:
        if _topic(body).endswith("/result") and not left:
            left.append(body)
            return leaving(code)
        return acknowledging(body)

    with _publishing(answer) as broker, device(broker, tmp_path / "outbox", timing=TWICE) as one:
        one.put(result())
        one.delivered()
        assert one.publisher.stats.last_trouble is not None
        assert reason in one.publisher.stats.last_trouble[0]
        assert one.outbox.stats.dead == 0
        assert one.publisher.stats.delivered == 1


def test_a_broker_that_acknowledges_late_is_waited_for(tmp_path: Path) -> None:
    def answer(kind: int, body: bytes) -> bytes:
        if kind == CONNECT:
            time.sleep(0.6)
            return OK
        if kind == PUBLISH:
            time.sleep(0.05)
            return acknowledging(body)
        return b""

    with FakeBroker(answer) as broker, device(broker, tmp_path / "outbox") as one:
        one.put(result())
        one.delivered()
        assert one.publisher.stats.connections == 1


def test_a_broker_that_acknowledges_what_was_never_sent_is_not_believed(tmp_path: Path) -> None:
    def answer(body: bytes) -> bytes:
        return bytes([PUBACK << 4, 2]) + b"\xff\xfe" + acknowledging(body) * 2

    with _publishing(answer) as broker, device(broker, tmp_path / "outbox") as one:
        for _ in range(5):
            one.put(result())
        one.delivered()
        assert one.publisher.stats.delivered == 5


def test_a_second_connack_is_nonsense_and_costs_the_connection(tmp_path: Path) -> None:
    answers = iter([OK + OK])

    def answer(kind: int, body: bytes) -> bytes:
        if kind == CONNECT:
            return next(answers, OK)
        return acknowledging(body) if kind == PUBLISH else b""

    with FakeBroker(answer) as broker, device(broker, tmp_path / "outbox", timing=TWICE) as one:
        one.put(result())
        one.delivered()
        assert "answers CONNECT twice" in str(one.publisher.stats.last_trouble)


@pytest.mark.parametrize(
    "connack",
    [bytes([CONNACK << 4, 3, 0, 0x84, 0]), bytes([CONNACK << 4, 2, 0, 1]), bytes([CONNACK << 4, 2, 0, 2])],
    ids=["MQTT 5", "MQTT 3.1.1", "MQTT 3.1.1, identifier"],
)
def test_a_broker_that_refuses_mqtt_5_leads_to_the_setting(tmp_path: Path, connack: bytes) -> None:
    with FakeBroker(lambda *_: connack) as broker, device(broker, tmp_path / "outbox") as one:
        one.wait(lambda: one.publisher.stats.trouble is not None, "told")
        assert 'protocol: "3.1.1"' in str(one.publisher.stats.trouble)


def test_a_broker_that_refuses_mqtt_3_1_1_leads_to_the_setting(tmp_path: Path) -> None:
    connack = bytes([CONNACK << 4, 2, 0, 1])
    with (
        FakeBroker(lambda *_: connack) as broker,
        device(broker, tmp_path / "outbox", protocol="3.1.1") as one,
    ):
        one.wait(lambda: one.publisher.stats.trouble is not None, "told")
        assert 'protocol: "5"' in str(one.publisher.stats.trouble)


@pytest.mark.parametrize(
    ("protocol", "connack"),
    [("5", bytes([CONNACK << 4, 3, 0, 0x85, 0])), ("3.1.1", bytes([CONNACK << 4, 2, 0, 2]))],
)
def test_a_broker_that_does_not_like_our_id_leads_to_the_setting(
    tmp_path: Path, protocol: str, connack: bytes
) -> None:
    with (
        FakeBroker(lambda *_: connack) as broker,
        device(broker, tmp_path / "outbox", protocol=protocol) as one,
    ):
        one.wait(lambda: one.publisher.stats.trouble is not None, "told")
        assert "set client_id under mqtt" in str(one.publisher.stats.trouble)


@pytest.mark.parametrize("protocol", ["5", "3.1.1"])
@pytest.mark.parametrize("password", ["#pa:ss@w/ord?%", "pä ss wörd", "密码" * 20])
def test_a_password_of_any_signs_lets_us_in(tmp_path: Path, protocol: str, password: str) -> None:
    broker = Mosquitto(tmp_path / "mosquitto", users={"ipc-7": password})
    broker.user, broker.password = "ipc-7", password
    with broker, device(broker, tmp_path / "outbox", protocol=protocol) as one:
        one.connected()


def test_a_broker_that_knows_another_broker_is_quoted(tmp_path: Path) -> None:
    server = b"other.example"
    properties = bytes([0x1C, 0, len(server)]) + server
    connack = bytes([CONNACK << 4, 3 + len(properties), 0, 0x9D, len(properties)]) + properties
    with FakeBroker(lambda *_: connack) as broker, device(broker, tmp_path / "outbox") as one:
        one.wait(lambda: one.publisher.stats.trouble is not None, "told")
        assert "other.example" in str(one.publisher.stats.trouble)


def test_a_broker_that_never_acknowledges_gets_no_result_deleted(tmp_path: Path) -> None:
    with _publishing(lambda _: b"") as broker, device(broker, tmp_path / "outbox", timing=TWICE) as one:
        for _ in range(3):
            one.put(result())
        one.wait(lambda: one.publisher.stats.connections >= 3, "tried again", 15)
        assert (one.outbox.depth(), one.outbox.stats.dead) == (3, 0)


def test_a_broker_that_only_takes_qos_0_is_not_trusted_with_results(tmp_path: Path) -> None:
    connack = bytes([CONNACK << 4, 5, 0, 0, 2, 0x24, 0])
    with FakeBroker(lambda *_: connack) as broker, device(broker, tmp_path / "outbox") as one:
        one.put(result())
        one.wait(lambda: "QoS 0" in str(one.publisher.stats.trouble), "told")
        assert not [kind for kind, _ in broker.received if kind == PUBLISH]


def test_a_name_that_no_name_server_knows_is_asked_again(
    mosquitto: Mosquitto, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import socket

    known = threading.Event()
    real = socket.getaddrinfo

    def getaddrinfo(host: Any, *rest: Any, **more: Any) -> Any:
        if host == "broker.plant1.example":
            if not known.is_set():
                raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
            host = "127.0.0.1"
        return real(host, *rest, **more)

    # at boot the network is not there yet; no real name server can be asked to fail once
    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    mosquitto.host = "broker.plant1.example"
    with device(mosquitto, tmp_path / "outbox") as one:
        one.put(result())
        one.wait(lambda: "name resolution" in str(one.publisher.stats.trouble), "told")
        known.set()
        one.delivered()


def test_a_network_thread_that_a_bug_ended_is_told_to_the_service(
    mosquitto: Mosquitto, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("a bug")

    with device(mosquitto, tmp_path / "outbox") as one:
        one.connected()
        monkeypatch.setattr(one.publisher._pump, "_tell", fail)
        mosquitto.kill()
        one.wait(lambda: one.publisher.failure is not None, "told")
        assert not one.publisher.connected


def test_a_broker_is_reached_over_ipv6(tmp_path: Path) -> None:
    broker = Mosquitto(tmp_path / "mosquitto", host="::1")
    with broker, device(broker, tmp_path / "outbox") as one:
        one.put(result())
        one.delivered()
        assert one.publisher.stats.delivered == 1


def test_without_a_password_a_user_is_sent_alone(tmp_path: Path) -> None:
    seen: list[bytes] = []

    def answer(kind: int, body: bytes) -> bytes:
        if kind == CONNECT:
            seen.append(body)
        return OK if kind == CONNECT else acknowledging(body) if kind == PUBLISH else b""

    with FakeBroker(answer) as broker, device(broker, tmp_path / "outbox", password=None) as one:
        one.connected()
    # flags: a user, no password, retained will with QoS 1, clean start
    assert seen[0][7] == 0b1010_1110


def test_a_subscription_that_is_refused_is_told(tmp_path: Path) -> None:
    def answer(kind: int, body: bytes) -> bytes:
        if kind == CONNECT:
            return OK
        if kind == 8:
            return bytes([9 << 4, 4]) + body[:2] + b"\x00\x87"
        return acknowledging(body) if kind == PUBLISH else b""

    with FakeBroker(answer) as broker, device(broker, tmp_path / "outbox") as one:
        one.publisher.subscribe(f"{PREFIX}/cap/cmd/ping", lambda _: None)
        one.wait(lambda: bool(one.publisher.stats.refused_topics), "told")
        assert one.publisher.stats.refused_topics == {f"{PREFIX}/cap/cmd/ping": "Not authorized"}
