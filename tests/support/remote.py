"""Requests over a real broker to a device whose levers the test holds."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from edge_infer import clock
from edge_infer.delivery import Delivery
from edge_infer.frame import Frame
from edge_infer.remote.commands import Commands
from edge_infer.remote.reach import Reach
from edge_infer.remote.recent import Recent
from edge_infer.remote.settings import CommandSettings
from edge_infer.station import StationSettings
from edge_infer.station.setup import Setup
from edge_infer.station.station import Station
from tests.support.mosquitto import Mosquitto
from tests.support.publishers import PREFIX, Device
from tests.support.stations import IDENTITY
from tests.support.subscriber import Received, Subscriber

EVERYTHING = (
    "snapshot",
    "set_threshold",
    "select_recipe",
    "reset_counts",
    "reload",
    "get_status",
    "get_result",
    "ping",
)


class Levers:
    """A `Control` that waits or fails when the test says so: the real one will not on demand."""

    def __init__(self) -> None:
        self.done: list[tuple[Any, ...]] = []
        self.error: Exception | None = None
        self.go = threading.Event()
        self.go.set()
        self.begun = threading.Semaphore(0)
        self.frame: Frame | None = None

    def select_recipe(self, station: str, recipe: str | None, *, by: str) -> None:
        self._do("select_recipe", station, recipe, by)

    def set_threshold(self, station: str, rule: str | None, value: float, *, by: str) -> None:
        self._do("set_threshold", station, rule, value, by)

    def reload(self, *, by: str) -> Sequence[str]:
        self._do("reload", by)
        return ["stations.cap.rules"]

    def newest_frame(self, station: str) -> Frame | None:
        self._do("newest_frame", station)
        return self.frame

    def _do(self, *what: Any) -> None:
        self.begun.release()
        assert self.go.wait(20)
        if self.error is not None:
            raise self.error
        self.done.append(what)


class Asker:
    """A requester that nobody of the product wrote."""

    def __init__(
        self, subscriber: Subscriber, prefix: str = PREFIX, answers: str = "vision/v1/rsp/mes"
    ) -> None:
        self._subscriber = subscriber
        self._prefix = prefix
        self.answers = answers
        self._count = 0

    def send(
        self,
        verb: str,
        payload: Any = None,
        *,
        expiry_s: int | None = 30,
        correlation: bytes | None = None,
        response_topic: str | None = None,
        user: tuple[str, str] | None = None,
        retain: bool = False,
    ) -> None:
        """``verb`` with its station before it, like ``cap/snapshot``; ``payload`` is JSON or bytes."""
        station, _, name = verb.rpartition("/")
        topic = f"{self._prefix}/{station}/cmd/{name}" if station else f"{self._prefix}/cmd/{name}"
        properties = Properties(PacketTypes.PUBLISH)
        if expiry_s is not None:
            properties.MessageExpiryInterval = expiry_s
        if response_topic is not None:
            properties.ResponseTopic = response_topic
        if correlation is not None:
            properties.CorrelationData = correlation
        if user is not None:
            properties.UserProperty = [user]
        data = payload if isinstance(payload, bytes) else json.dumps(payload or {})
        self._subscriber.client.publish(topic, data, qos=1, retain=retain, properties=properties)

    def ask(self, verb: str, payload: Any = None, *, correlation: bytes | None = None, **more: Any) -> Any:
        """The answer's JSON."""
        self._count += 1
        correlation = correlation or f"c-{time.monotonic_ns()}-{self._count}".encode()
        before = len(self._answers(correlation))
        self.send(verb, payload, correlation=correlation, response_topic=self.answers, **more)
        self._subscriber.wait_for(lambda _: len(self._answers(correlation)) > before)
        return self._answers(correlation)[-1].json

    def answered(self) -> list[Received]:
        """Every answer so far."""
        return self._subscriber.on(self.answers)

    def _answers(self, correlation: bytes) -> list[Received]:
        return [
            one
            for one in self._subscriber.on(self.answers)
            if one.properties.get("CorrelationData") == correlation.hex()
        ]


@dataclass
class Commanded:
    """Device, station ``cap`` with a part trigger, commands."""

    device: Device
    levers: Levers
    commands: Commands
    station: Station
    recent: Recent
    state: Path


@contextmanager
def commanded(
    broker: Mosquitto,
    folder: Path,
    *,
    allow: Sequence[str] = EVERYTHING,
    per_minute: int = 6000,
    levers: Levers | None = None,
    **mqtt: Any,
) -> Iterator[Commanded]:
    """Connected and subscribed."""
    device = Device(broker, folder, **mqtt).start()
    levers = levers or Levers()
    recent = Recent(scenes=True)
    settings = '{"camera": "top", "model": "m", "trigger": {"type": "mqtt"}}'
    setup = Setup.new(StationSettings.model_validate_json(settings), replace(IDENTITY, station="cap"), None)
    station = Station(
        setup, Delivery(device.outbox, device.publisher, PREFIX, recent), recorded=False, max_age_s=1.0
    )
    reach = Reach(
        control=levers,
        stations={"cap": station},
        cameras={},
        outbox=device.outbox,
        publisher=device.publisher,
        recent=recent,
        prefix=PREFIX,
        valid_s=5.0,
        boot_id="b0",
        version="0.1.0",
        started_at=clock.now(),
        started_s=time.monotonic(),
    )
    commands = Commands(reach, folder)
    allowed = json.dumps({"allow": allow, "per_minute": per_minute})
    commands.listen(CommandSettings.model_validate_json(allowed))
    device.connected()
    # the last one to be listened to
    until(lambda: f"{PREFIX}/cmd/ping (QoS" in broker.log.rpartition("New client connected")[2], "heard")
    try:
        yield Commanded(device, levers, commands, station, recent, folder)
    finally:
        levers.go.set()
        commands.close()
        device.close()


def until(done: Callable[[], bool], what: str, timeout_s: float = 10.0) -> None:
    """Wait until it is so."""
    end = time.monotonic() + timeout_s
    while not done():
        assert time.monotonic() < end, f"not {what} after {timeout_s} s"
        time.sleep(0.01)
