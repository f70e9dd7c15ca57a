"""A device that nobody of the product wrote: paho says whatever the test wants said."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from edge_infer.result import Decision
from tests.support.mosquitto import Mosquitto
from tests.support.publishers import PREFIX
from tests.support.results import result


class ForeignPublisher:
    """Returns from each call when the broker has the message."""

    def __init__(self, broker: Mosquitto) -> None:
        self._client = paho.Client(CallbackAPIVersion.VERSION2, protocol=paho.MQTTv5)
        self._client.username_pw_set(broker.user, broker.password)
        self._client.connect(broker.host, broker.port)
        self._client.loop_start()

    def say(
        self,
        topic: str,
        payload: str | bytes | Mapping[str, Any],
        *,
        retain: bool = False,
        expiry_s: int | None = None,
        **user: str,
    ) -> None:
        """Below the prefix unless ``topic`` is a whole one; ``user``: user properties."""
        properties = Properties(PacketTypes.PUBLISH)
        if user:
            properties.UserProperty = list(user.items())
        if expiry_s is not None:
            properties.MessageExpiryInterval = expiry_s
        whole = topic if topic.startswith("vision/") else f"{PREFIX}/{topic}"
        text = json.dumps(payload) if isinstance(payload, Mapping) else payload
        self._client.publish(whole, text, 1, retain, properties).wait_for_publish(5)

    def result(
        self,
        seq: int,
        stream_id: str = "s1",
        decision: Decision = "OK",
        *,
        station: str = "cap",
        prefix: str = PREFIX,
        device: str = "ipc7",
        **changes: Any,
    ) -> None:
        """``changes`` of the JSON; None takes the key away."""
        raw = result(station, decision).model_copy(update={"seq": seq, "stream_id": stream_id})
        message = {**json.loads(raw.as_json()), **changes}
        message["source"]["device"] = device
        self.say(
            f"{prefix}/{station}/result",
            {key: value for key, value in message.items() if key not in changes or value is not None},
        )

    def status(self, state: str = "online") -> None:
        """Retained, as a device does."""
        message = {"state": state, "bootId": "b0", "version": "0.1.0", "since": None}
        self.say("status", message, retain=True)

    def gap(self, *ranges: tuple[int, int], stream_id: str = "s1", station: str = "cap") -> None:
        """Results that were given up."""
        told = [{"fromSeq": first, "toSeq": last} for first, last in ranges]
        message = {"schema": "gap/1", "station": station, "streamId": stream_id, "reason": "full"}
        self.say(f"{station}/gap", {**message, "ranges": told, "time": "2026-11-30T12:00:00+00:00"})

    def event(self, kind: str, data: Mapping[str, Any], station: str | None = None) -> None:
        """Something happened."""
        message = {"schema": "event/1", "kind": kind, "station": station, "bootId": "b0", "data": data}
        self.say("event", {**message, "time": datetime.now().astimezone().isoformat()})

    def close(self) -> None:
        """Disconnects."""
        self._client.disconnect()
        self._client.loop_stop()


@contextmanager
def foreign_publisher(broker: Mosquitto) -> Iterator[ForeignPublisher]:
    """Connected while the block runs."""
    publisher = ForeignPublisher(broker)
    try:
        yield publisher
    finally:
        publisher.close()
