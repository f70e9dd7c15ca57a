from __future__ import annotations

import os
import resource
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from edge_infer.mqtt.identity import default_client_id
from edge_infer.mqtt.publisher import Timing
from tests.support.fake_broker import (
    CONNECT,
    OK,
    PUBLISH,
    FakeBroker,
    acknowledging,
    allowing,
    leaving,
)
from tests.support.mosquitto import Mosquitto
from tests.support.publishers import device
from tests.support.results import result

SLOW = Timing(ack_s=60, connack_s=60, retry_min_s=0.1, retry_max_s=0.3)


def test_the_brokers_receive_maximum_is_never_exceeded(tmp_path: Path) -> None:
    waiting: list[bytes] = []
    most = 0

    def answer(kind: int, body: bytes) -> bytes:
        nonlocal most
        if kind == CONNECT:
            return allowing(1)
        if kind != PUBLISH:
            return b""
        waiting.append(body)
        most = max(most, len(waiting))
        time.sleep(0.005)
        return acknowledging(waiting.pop(0))

    with FakeBroker(answer) as broker, device(broker, tmp_path / "outbox") as one:
        for _ in range(50):
            one.put(result())
        one.connected()
        one.delivered()
        assert most == 1


def test_not_more_than_twenty_are_on_the_wire_even_where_the_broker_allows_more(tmp_path: Path) -> None:
    hold = False

    def answer(kind: int, body: bytes) -> bytes:
        if kind == CONNECT:
            return OK
        return b"" if hold or kind != PUBLISH else acknowledging(body)

    with FakeBroker(answer) as broker, device(broker, tmp_path / "outbox", timing=SLOW) as one:
        one.connected()
        for _ in range(30):
            one.put(result())
        one.delivered()
        hold = True
        before = len(broker.received)
        for _ in range(60):
            one.put(result())
        one.wait(lambda: len(broker.received) >= before + 20, "sent")
        time.sleep(0.3)
        assert len(broker.received) == before + 20
        one.close(0.2)


def test_the_first_message_of_a_connection_is_alone_on_the_wire(tmp_path: Path) -> None:
    # a broker that closes the connection for a message then has nothing else of ours unread, which would
    # cost us its answer
    def answer(kind: int, _: bytes) -> bytes:
        return OK if kind == CONNECT else b""

    with FakeBroker(answer) as broker, device(broker, tmp_path / "outbox", timing=SLOW) as one:
        for _ in range(10):
            one.put(result())
        one.connected()
        one.wait(lambda: len(broker.received) == 2, "sent")
        time.sleep(0.2)
        assert len(broker.received) == 2
        one.close(0.2)


def test_a_broker_that_says_taken_over_is_believed(tmp_path: Path) -> None:
    def answer(kind: int, body: bytes) -> bytes | None:
        return OK if kind == CONNECT else acknowledging(body) + leaving(0x8E) if kind == PUBLISH else b""

    with FakeBroker(answer) as broker, device(broker, tmp_path / "outbox") as one:
        one.wait(lambda: one.publisher.stats.taken_over > 0, "noticed")
        assert "Session taken over" in str(one.publisher.stats.trouble)


def test_a_broker_without_mqtt_5_that_hangs_up_is_named_as_such(tmp_path: Path) -> None:
    with FakeBroker(lambda *_: None) as broker, device(broker, tmp_path / "outbox") as one:
        one.wait(lambda: one.publisher.stats.trouble is not None, "told")
        assert 'does it speak MQTT 5? else set protocol: "3.1.1"' in str(one.publisher.stats.trouble)


def test_a_broker_that_talks_nonsense_costs_only_its_connection(tmp_path: Path) -> None:
    answers: Iterator[bytes] = iter([b"\x20\xff\xff\xff\xff\xff", b"\x20\x00", os.urandom(64)])

    def answer(kind: int, body: bytes) -> bytes | None:
        if kind == CONNECT:
            return next(answers, OK)
        return acknowledging(body) if kind == PUBLISH else b""

    with FakeBroker(answer) as broker, device(broker, tmp_path / "outbox") as one:
        one.put(result())
        one.wait(lambda: one.publisher.stats.delivered == 1, "delivered", 20)


def test_the_socket_does_not_wait_for_company(
    mosquitto: Mosquitto, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: list[tuple[object, ...]] = []
    set_option = socket.socket.setsockopt

    def note(sock: socket.socket, *option: object) -> None:
        options.append(option)
        set_option(sock, *option)  # type: ignore[call-overload]

    monkeypatch.setattr(socket.socket, "setsockopt", note)
    with device(mosquitto, tmp_path / "outbox") as one:
        one.connected()
    assert (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1) in options


def test_a_descriptor_above_1023_is_as_good_as_any(mosquitto: Mosquitto, tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(2000, hard), hard))
    held = [os.dup(0) for _ in range(1100)]
    try:
        with device(mosquitto, tmp_path / "outbox") as one:
            one.connected()
            one.put(result())
            one.delivered()
            assert one.publisher.stats.delivered == 1
    finally:
        for descriptor in held:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_client_ids_differ_by_device_and_prefix_and_stay() -> None:
    assert default_client_id("ipc7", "a/b") == default_client_id("ipc7", "a/b")
    assert default_client_id("ipc7", "a/b") != default_client_id("ipc7", "a/c")
    assert default_client_id("ipc7", "a/b").startswith("edge-infer-ipc7-")
