"""A subscriber that nobody of the product wrote: paho with its own thread."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode
from paho.mqtt.subscribeoptions import SubscribeOptions

from tests.support.mosquitto import Mosquitto


@dataclass(frozen=True)
class Received:
    """One message as it came."""

    topic: str
    payload: bytes
    retained: bool
    qos: int
    at: float
    """time.monotonic()"""
    user: dict[str, str] = field(default_factory=dict)
    """User properties."""
    properties: dict[str, Any] = field(default_factory=dict)
    """The other properties, by their MQTT 5 name without blanks."""

    @property
    def json(self) -> Any:
        """The payload's object."""
        return json.loads(self.payload)


class Subscriber:
    """Collects messages; reconnects by itself when the broker is killed."""

    def __init__(
        self,
        broker: Mosquitto,
        *topics: str,
        client_id: str = "",
        durable: bool = False,
        v5: bool = True,
        tls: tuple[str, str, str] | None = None,
    ) -> None:
        self.messages: list[Received] = []
        self._changed = threading.Condition()
        self._subscribed = threading.Event()
        self._topics = topics
        self._v5 = v5
        self.client = paho.Client(
            CallbackAPIVersion.VERSION2,
            client_id=client_id,
            protocol=paho.MQTTv5 if v5 else paho.MQTTv311,
            clean_session=None if v5 else not durable,
        )
        self.client.username_pw_set(broker.user, broker.password)
        if tls is not None:
            self.client.tls_set(*tls)
        self.client.reconnect_delay_set(1, 1)
        self.client.on_connect = self._on_connect
        self.client.on_subscribe = lambda *_: self._subscribed.set()
        self.client.on_message = self._on_message
        self.client.on_disconnect = lambda *_: self._subscribed.clear()
        if v5:
            properties = Properties(PacketTypes.CONNECT)
            properties.SessionExpiryInterval = 600 if durable else 0
            self.client.connect(broker.host, broker.port, clean_start=not durable, properties=properties)
        else:
            self.client.connect(broker.host, broker.port)
        self.client.loop_start()
        self.listening()

    def listening(self) -> None:
        """Wait until the broker knows that we listen (again)."""
        assert self._subscribed.wait(10), "the test's subscriber got no SUBACK"

    def _on_connect(
        self, client: paho.Client, _data: object, _flags: object, code: ReasonCode, _properties: object
    ) -> None:
        if code.is_failure:
            return
        if self._v5:
            client.subscribe([(topic, SubscribeOptions(qos=1)) for topic in self._topics])
        else:
            client.subscribe([(topic, 1) for topic in self._topics])

    def _on_message(self, _client: paho.Client, _data: object, message: paho.MQTTMessage) -> None:
        known = message.properties.json() if message.properties else {}
        received = Received(
            message.topic,
            bytes(message.payload),
            message.retain,
            message.qos,
            time.monotonic(),
            dict(known.pop("UserProperty", [])),
            known,
        )
        with self._changed:
            self.messages.append(received)
            self._changed.notify_all()

    def wait_for(self, done: Callable[[list[Received]], bool], timeout: float = 15) -> list[Received]:
        """All messages so far, once ``done`` says so of them."""
        with self._changed:
            assert self._changed.wait_for(lambda: done(self.messages), timeout), (
                f"after {timeout} s only: {[(m.topic, m.payload[:80]) for m in self.messages[-20:]]}"
            )
            return list(self.messages)

    def wait_on(self, ending: str, count: int = 1, timeout: float = 15) -> list[Received]:
        """At least ``count`` messages whose topic ends so."""
        self.wait_for(lambda _: len(self.on(ending)) >= count, timeout)
        return self.on(ending)

    def on(self, ending: str) -> list[Received]:
        """The messages so far whose topic ends so."""
        return [message for message in list(self.messages) if message.topic.endswith(ending)]

    def close(self) -> None:
        """Disconnects."""
        self.client.disconnect()
        self.client.loop_stop()


@contextmanager
def subscribed(
    broker: Mosquitto,
    *topics: str,
    client_id: str = "",
    durable: bool = False,
    v5: bool = True,
    tls: tuple[str, str, str] | None = None,
) -> Iterator[Subscriber]:
    """A subscriber that listens when the block starts."""
    subscriber = Subscriber(broker, *topics, client_id=client_id, durable=durable, v5=v5, tls=tls)
    try:
        yield subscriber
    finally:
        subscriber.close()
