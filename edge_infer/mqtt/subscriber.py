"""A small subscriber, for the demo: results in, in order of arrival."""

from __future__ import annotations

import queue
from typing import Any

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.reasoncodes import ReasonCode

from edge_infer.errors import DeliveryError


class Subscriber:
    """Connects to a broker on this machine with MQTT 5 and keeps what arrives until it is fetched."""

    def __init__(self, port: int, topic: str) -> None:
        self._arrived: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._topic = topic
        self._client = paho.Client(CallbackAPIVersion.VERSION2, protocol=paho.MQTTv5)
        self._client.on_connect = self._connected
        self._client.on_message = lambda _client, _data, message: self._arrived.put(bytes(message.payload))
        try:
            self._client.connect("127.0.0.1", port)
        except OSError as error:
            raise DeliveryError(
                f"cannot connect to the broker on 127.0.0.1:{port}: {error}", hint="is it still running?"
            ) from error
        self._client.loop_start()

    def next(self, timeout_s: float) -> bytes | None:
        """The next message's payload, None where none came in time."""
        try:
            return self._arrived.get(timeout=timeout_s)
        except queue.Empty:
            return None

    def close(self) -> None:
        """Disconnect."""
        self._client.disconnect()
        self._client.loop_stop()

    def _connected(
        self, client: paho.Client, _data: Any, _flags: Any, reason: ReasonCode, _props: Any
    ) -> None:
        # here and not once: a broker forgets a clean session's subscriptions
        if not reason.is_failure:
            client.subscribe(self._topic, qos=1)
