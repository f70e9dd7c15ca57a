from __future__ import annotations

from tests.support.mosquitto import Mosquitto
from tests.support.subscriber import subscribed


def test_the_broker_of_the_tests_delivers(mosquitto: Mosquitto) -> None:
    with subscribed(mosquitto, "t/#") as subscriber:
        subscriber.client.publish("t/1", "hello", qos=1)
        assert subscriber.wait_on("1")[0].payload == b"hello"
