"""A publisher that talks to the broker of the test."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from edge_infer.mqtt.publisher import Publisher, Timing
from edge_infer.mqtt.settings import MqttSettings
from edge_infer.outbox import Outbox, OutboxSettings
from edge_infer.result import Result
from edge_infer.settings import Secrets

PREFIX = "vision/v1/plant1/l3/ipc7"
QUICK = Timing(connack_s=1.5, ack_s=2.0, retry_min_s=0.1, retry_max_s=0.3, steady_s=30)


class Broker(Protocol):
    """Where to connect and as whom."""

    host: str
    port: int
    user: str
    password: str


class Device:
    """Outbox and publisher as the service makes them."""

    def __init__(
        self, broker: Broker, folder: Path, *, timing: Timing = QUICK, outbox: Any = None, **mqtt: Any
    ) -> None:
        written = {
            "host": broker.host,
            "port": broker.port,
            "user": broker.user,
            "password": {"env": "PASSWORD"},
            **mqtt,
        }
        settings = MqttSettings.model_validate_json(json.dumps(written))
        self._environ = {"PASSWORD": broker.password, "WRONG": "wrong"}
        self._password = broker.password
        self.outbox = Outbox.open(folder, OutboxSettings.model_validate(outbox or {}))
        self.publisher = Publisher(
            settings,
            self.outbox,
            prefix=PREFIX,
            secrets=Secrets(self._environ),
            device="ipc7",
            boot_id="b0",
            version="0.1.0",
            timing=timing,
        )

    def start(self) -> Device:
        """And wait for nothing."""
        self.publisher.start()
        return self

    def lock_out(self) -> None:
        """The next attempts to connect fail, so that a subscriber can be there first."""
        self._environ.pop("PASSWORD")

    def let_in(self) -> None:
        """They may succeed again."""
        self._environ["PASSWORD"] = self._password

    def put(self, result: Result, committed: Callable[[Result], None] | None = None) -> None:
        """As a station does."""
        self.outbox.put(f"{PREFIX}/{result.station}/result", result, committed)

    def wait(self, done: Callable[[], bool], what: str, timeout_s: float = 10.0) -> None:
        """Until it is so."""
        until = time.monotonic() + timeout_s
        while not done():
            assert time.monotonic() < until, f"not {what} after {timeout_s} s: {self.publisher.stats}"
            time.sleep(0.01)

    def connected(self) -> Device:
        """Wait for the broker."""
        self.wait(lambda: self.publisher.connected, "connected")
        return self

    def delivered(self, timeout_s: float = 10.0) -> None:
        """Wait until the outbox is empty."""
        self.wait(lambda: self.outbox.idle, "delivered", timeout_s)

    def close(self, timeout_s: float = 2.0) -> None:
        """As the service does."""
        self.publisher.stop(timeout_s)
        self.outbox.close(timeout_s)


@contextmanager
def device(broker: Broker, folder: Path, **settings: Any) -> Iterator[Device]:
    """Started, not necessarily connected."""
    one = Device(broker, folder, **settings).start()
    try:
        yield one
    finally:
        one.close()
