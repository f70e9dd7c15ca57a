"""The service's half of systemd: what it is told over NOTIFY_SOCKET, and the watchdog that acts on it."""

from __future__ import annotations

import signal
import socket
import threading
import time
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from tests.support.running import Running


class Word(NamedTuple):
    """One datagram."""

    at: float
    """time.monotonic()"""
    fields: dict[str, str]


class FakeSystemd:
    """Starts the service, listens, ends and starts it again where it is silent after READY."""

    def __init__(
        self,
        folder: Path,
        config: Path,
        *,
        watchdog_s: float = 1.0,
        acts: bool = False,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """``acts``: kills what is silent for ``watchdog_s``, and starts it again."""
        self.words: list[Word] = []
        self.restarts = 0
        self.watchdog_s = watchdog_s
        self._acts = acts
        self._config = config
        self._changed = threading.Condition()
        path = folder / "notify"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(path))
        self._socket.settimeout(0.05)
        self._environment = {
            **(environment or {}),
            "NOTIFY_SOCKET": str(path),
            "WATCHDOG_USEC": str(int(watchdog_s * 1e6)),
        }
        self.running = Running(config, **self._environment)
        self._closing = False
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def __enter__(self) -> FakeSystemd:
        return self

    def __exit__(self, *_: object) -> None:
        self._closing = True
        self._thread.join(5)
        self.running.kill()
        self._socket.close()

    def _listen(self) -> None:
        fed_s: float | None = None
        while not self._closing:
            try:
                data = self._socket.recv(8192).decode()
            except TimeoutError:
                data = ""
            now_s = time.monotonic()
            if data:
                fields = dict(line.split("=", 1) for line in data.split("\n"))
                with self._changed:
                    self.words.append(Word(now_s, fields))
                    self._changed.notify_all()
                if "READY" in fields or (fed_s is not None and "WATCHDOG" in fields):
                    fed_s = now_s
            elif self._acts and fed_s is not None and now_s - fed_s > self.watchdog_s:
                fed_s = None
                self.running.process.send_signal(signal.SIGABRT)
                self.running.process.wait(10)
                self.restarts += 1
                self.running = Running(self._config, **self._environment)

    def heard(self, key: str) -> list[Word]:
        """With that field, in order."""
        with self._changed:
            return [word for word in self.words if key in word.fields]

    @property
    def statuses(self) -> list[str]:
        return [word.fields["STATUS"] for word in self.heard("STATUS")]

    def wait(self, wanted: Callable[[], object], timeout_s: float = 30) -> None:
        """Until it is so; looked at with each word."""
        end = time.monotonic() + timeout_s
        while not wanted():
            with self._changed:
                self._changed.wait(0.2)
            ended = not self._acts and self.running.process.poll() is not None
            if (ended and not wanted()) or time.monotonic() > end:
                last = [word.fields for word in self.words[-10:]]
                raise AssertionError(f"not in {timeout_s} s; {last}\n{self.running.log}")

    def ready(self, timeout_s: float = 30) -> Word:
        self.wait(lambda: self.heard("READY"), timeout_s)
        return self.heard("READY")[0]

    def longest_silence_s(self, since_s: float) -> float:
        """Without a ping, from then until now."""
        times = [word.at for word in self.heard("WATCHDOG") if word.at >= since_s]
        marks = [since_s, *times, time.monotonic()]
        return max(later - before for before, later in pairwise(marks))
