from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from edge_infer.mqtt.publisher import Timing
from tests.support.fake_broker import CONNECT, OK, PUBLISH, FakeBroker, acknowledging
from tests.support.mosquitto import Mosquitto
from tests.support.publishers import PREFIX, Device, device
from tests.support.results import result
from tests.support.subscriber import subscribed

TOPIC = f"{PREFIX}/cap/image/raw"
JPEG = b"\xff\xd8\xff\xe0" + bytes(range(256)) * 40


def _send(one: Device, payload: bytes = JPEG, topic: str = TOPIC) -> bool:
    return one.publisher.image(topic, payload, content_type="image/jpeg", user=(("resultId", "r-1"),))


def test_a_picture_arrives_as_binary_with_its_type_and_its_result(
    mosquitto: Mosquitto, tmp_path: Path
) -> None:
    with subscribed(mosquitto, f"{PREFIX}/#") as subscriber, device(mosquitto, tmp_path / "outbox") as one:
        one.connected()
        assert _send(one)
        message = subscriber.wait_on("/image/raw")[0]
        assert message.payload == JPEG
        assert (message.qos, message.retained) == (1, False)
        assert message.properties["ContentType"] == "image/jpeg"
        assert message.properties.get("PayloadFormatIndicator", 0) == 0
        assert message.user == {"resultId": "r-1"}
        one.wait(lambda: one.publisher.stats.images == 1, "counted")
        with subscribed(mosquitto, f"{PREFIX}/#") as later:
            later.wait_on("/status")
            assert not later.on("/image/raw")


def test_results_and_states_pass_pictures_and_the_newest_pictures_win(tmp_path: Path) -> None:
    topics: list[str] = []
    hold = threading.Event()

    def answer(kind: int, body: bytes) -> bytes:
        if kind == CONNECT:
            return OK
        if kind != PUBLISH:
            return b""
        length = int.from_bytes(body[:2], "big")
        topics.append(body[2 : 2 + length].decode())
        if topics[-1].endswith("/image/0"):
            hold.wait(10)
        return acknowledging(body)

    with (
        FakeBroker(answer) as broker,
        device(broker, tmp_path / "outbox", timing=Timing(ack_s=60)) as one,
    ):
        one.connected()
        one.delivered()
        assert _send(one, topic="p/image/0")
        one.wait(lambda: "p/image/0" in topics, "sent")
        for i in range(1, 7):
            assert _send(one, topic=f"p/image/{i}")
        for _ in range(3):
            one.put(result())
        one.publisher.decision("cap", result("cap", "NOK"))
        # committed is not yet ready to be sent
        one.wait(lambda: len(one.outbox._ready._waiting) == 3, "ready")
        hold.set()
        one.wait(lambda: "p/image/6" in topics, "sent")
        pictures = [topic for topic in topics if topic.startswith("p/image/")]
        assert pictures == [f"p/image/{i}" for i in (0, 3, 4, 5, 6)]
        between = topics[topics.index("p/image/0") + 1 : topics.index("p/image/3")]
        assert sorted(between) == [f"{PREFIX}/cap/decision", *[f"{PREFIX}/cap/result"] * 3]
        one.wait(lambda: one.publisher.stats.images_dropped == 2, "counted")


def test_a_picture_larger_than_the_setting_is_handed_back(mosquitto: Mosquitto, tmp_path: Path) -> None:
    with device(mosquitto, tmp_path / "outbox", max_image_bytes="10kB") as one:
        one.connected()
        assert one.publisher.image_limit == 10_000
        assert not _send(one, b"x" * 10_001)
        assert one.publisher.stats.images_dropped == 1
        assert _send(one, b"x" * 10_000)


def test_d07_a_picture_larger_than_the_broker_takes_is_handed_back_and_the_result_is_sent(
    tmp_path: Path,
) -> None:
    with (
        Mosquitto(tmp_path / "mosquitto", lines=("max_packet_size 128000",)) as broker,
        subscribed(broker, f"{PREFIX}/#") as subscriber,
        device(broker, tmp_path / "outbox", max_image_bytes="1MB") as one,
    ):
        assert one.publisher.image_limit == 1_000_000
        one.connected()
        assert 120_000 < one.publisher.image_limit < 128_000
        assert not _send(one, b"x" * 300_000)
        # made smaller by the caller
        assert _send(one, b"x" * one.publisher.image_limit)
        one.put(result())
        subscriber.wait_on("/result")
        subscriber.wait_on("/image/raw")
        assert one.publisher.stats.connections == 1


def test_a_picture_without_a_connection_is_given_up_and_not_sent_late(
    mosquitto: Mosquitto, tmp_path: Path
) -> None:
    mosquitto.stop()
    with device(mosquitto, tmp_path / "outbox") as one:
        one.wait(lambda: one.publisher.stats.trouble is not None, "in trouble")
        assert not _send(one)
        assert one.publisher.stats.images_dropped == 1
        one.lock_out()
        mosquitto.start()
        with subscribed(mosquitto, f"{PREFIX}/#") as subscriber:
            one.let_in()
            one.connected()
            one.put(result())
            subscriber.wait_on("/result")
            assert not subscriber.on("/image/raw")


@pytest.mark.parametrize("topic", ["", "a/+", "a/#", "a\0"])
def test_a_picture_for_no_topic_is_the_callers_mistake(
    mosquitto: Mosquitto, tmp_path: Path, topic: str
) -> None:
    with device(mosquitto, tmp_path / "outbox") as one, pytest.raises(ValueError, match="published on"):
        _send(one, topic=topic)


def test_an_acl_refusal_of_pictures_is_counted_and_results_go_on(tmp_path: Path) -> None:
    acl = f"user edge-infer\ntopic readwrite {PREFIX}/cap/result\ntopic readwrite {PREFIX}/status\n"
    with (
        Mosquitto(tmp_path / "mosquitto", acl=acl) as broker,
        device(broker, tmp_path / "outbox") as one,
    ):
        one.connected()
        assert _send(one)
        one.wait(lambda: one.publisher.stats.images_dropped == 1, "refused")
        one.put(result())
        one.delivered()
        assert one.publisher.stats.delivered == 1


def test_a_large_picture_on_a_slow_link_is_waited_for(tmp_path: Path) -> None:
    def answer(kind: int, body: bytes) -> bytes:
        if kind == CONNECT:
            return OK
        if kind != PUBLISH:
            return b""
        if b"/image/" in body[:80]:
            time.sleep(1.2)
        return acknowledging(body)

    with (
        FakeBroker(answer) as broker,
        device(broker, tmp_path / "outbox", timing=Timing(ack_s=0.8)) as one,
    ):
        one.connected()
        one.delivered()
        assert _send(one, b"x" * 20_000)
        one.wait(lambda: one.publisher.stats.images == 1, "sent")
        assert one.publisher.stats.connections == 1


def test_pictures_pause_after_a_connection_was_lost_with_one_on_its_way(tmp_path: Path) -> None:
    def answer(kind: int, body: bytes) -> bytes | None:
        if kind == CONNECT:
            return OK
        if kind != PUBLISH:
            return b""
        return None if b"/image/" in body[:80] else acknowledging(body)

    with FakeBroker(answer) as broker, device(broker, tmp_path / "outbox") as one:
        one.connected()
        assert _send(one)
        one.wait(lambda: one.publisher.stats.connections == 2, "connected again")
        one.connected()
        assert not _send(one)
        one.put(result())
        one.delivered()
        assert one.publisher.stats.connections == 2
        assert one.publisher.stats.images_dropped == 2
