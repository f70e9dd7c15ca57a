"""`edge-infer run` and `mosquitto_sub` as processes of their own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.mosquitto import Mosquitto


@dataclass(frozen=True)
class Arrived:
    """One message as a foreign client saw it."""

    topic: str
    payload: bytes
    retained: bool
    properties: str
    """User properties as mosquitto_sub prints them."""

    @property
    def json(self) -> Any:
        return json.loads(self.payload)


class ForeignSubscriber:
    """`mosquitto_sub`: shares no line of code with the product."""

    def __init__(
        self, broker: Mosquitto, topic: str = "#", *, client_id: str = "", keep: bool = False
    ) -> None:
        """``keep``: a durable session, for messages that come while it is away."""
        command = [
            "mosquitto_sub", "-V", "mqttv5", "-h", broker.host, "-p", str(broker.port), "-u", broker.user,
            "-P", broker.password, "-q", "1", "-t", topic, "-F", "%t\t%r\t%P\t%x",
        ]  # fmt: skip
        if client_id:
            command += ["-i", client_id]
        if keep:
            command += ["-c", "-x", "3600"]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, bufsize=0)
        self._changed = threading.Condition()
        self._messages: list[Arrived] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        log_before = time.monotonic()
        while "SUBSCRIBE" not in broker.log and time.monotonic() - log_before < 5:
            time.sleep(0.01)

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in iter(self._process.stdout.readline, b""):
            topic, retained, properties, payload = line.rstrip(b"\n").split(b"\t", 3)
            message = Arrived(
                topic.decode(), bytes.fromhex(payload.decode()), retained == b"1", properties.decode()
            )
            with self._changed:
                self._messages.append(message)
                self._changed.notify_all()

    def messages(self, ending: str = "") -> list[Arrived]:
        """So far, in order, of topics that end so."""
        with self._changed:
            return [one for one in self._messages if one.topic.endswith(ending)]

    def wait(
        self, wanted: Callable[[Sequence[Arrived]], bool], ending: str = "", timeout_s: float = 20
    ) -> None:
        """Until the messages of topics that end so are as wanted."""
        end = time.monotonic() + timeout_s
        while not wanted(self.messages(ending)):
            with self._changed:
                if not self._changed.wait(max(0.0, end - time.monotonic())):
                    raise AssertionError(
                        f"not in {timeout_s} s; {len(self._messages)} messages: {self._tail()}"
                    )

    def _tail(self) -> list[str]:
        return [f"{one.topic}: {one.payload[:80]!r}" for one in self._messages[-5:]]

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.terminate()
        self._process.wait(5)
        self._reader.join(5)
        if self._process.stdout:
            self._process.stdout.close()


class Running:
    """`edge-infer run CONFIG`."""

    def __init__(self, config: Path, **environment: str) -> None:
        self._log = config.with_suffix(".log")
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "edge_infer", "run", str(config)],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                env={**os.environ, **environment},
            )

    @property
    def log(self) -> str:
        return self._log.read_text()

    def handles(self, number: signal.Signals, timeout_s: float = 20) -> None:
        """Wait until the process has a handler for the signal."""
        end = time.monotonic() + timeout_s
        while time.monotonic() < end:
            status = Path(f"/proc/{self.process.pid}/status").read_text()
            (caught,) = (line.split()[1] for line in status.splitlines() if line.startswith("SigCgt"))
            if int(caught, 16) >> (number - 1) & 1:
                return
            time.sleep(0.01)
        raise AssertionError(f"no handler for {number.name}:\n{self.log}")

    def wait(self, timeout_s: float = 60) -> int:
        """Its exit code."""
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise AssertionError(f"still running after {timeout_s} s:\n{self.log}") from None

    def stop(self, timeout_s: float = 10) -> int:
        """SIGTERM, and its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.wait(timeout_s)

    def kill(self) -> None:
        """As a power cut would."""
        self.process.kill()
        self.process.wait(5)
