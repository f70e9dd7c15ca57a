"""A service that judges nothing: results at a steady rate through the real delivery, as a process to kill.

Each committed result is noted in a file beside the outbox's own, so that what was promised is known without
asking the product. Run as ``python -m tests.support.producer SETTINGS``.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from edge_infer.mqtt.publisher import Timing
from edge_infer.result import Decision, Result
from tests.support.publishers import Device
from tests.support.results import result

STATIONS = ("cap", "label", "level", "seal")
DECISIONS: tuple[Decision, ...] = ("OK", "OK", "NOK", "OK", "UNDEFINED")
TIMING = Timing(retry_max_s=2.0)


@dataclass(frozen=True)
class Promised:
    """One committed result."""

    station: str
    stream_id: str
    seq: int
    decision: str
    sha256: str
    """Of the payload."""


class Producer:
    """The process, from the test's side."""

    def __init__(self, folder: Path, broker: Any, *, total: int, rate: float, **mqtt: Any) -> None:
        folder.mkdir()
        self._folder = folder
        self._notes = folder / "notes"
        self._notes.touch()
        self._settings = folder / "settings.json"
        written = {"host": broker.host, "port": broker.port, "total": total, "rate": rate, "mqtt": mqtt}
        self._settings.write_text(json.dumps(written))
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Returns at once."""
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.producer", str(self._settings)], stdout=log, stderr=log
            )

    def kill(self) -> None:
        """As a power cut would."""
        assert self._process is not None
        assert self._process.poll() is None, self.log
        self._process.kill()
        self._process.wait(5)

    def stop(self) -> int:
        """SIGTERM, and its exit code."""
        assert self._process is not None
        self._process.terminate()
        return self._process.wait(10)

    def close(self) -> None:
        """Whatever happened."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait(5)

    @property
    def log(self) -> str:
        """What it said."""
        return (self._folder / "log").read_text()

    def promised(self) -> list[Promised]:
        """So far."""
        return list(_read(self._notes))

    def count(self) -> int:
        """How many, without reading them."""
        return self._notes.read_bytes().count(b"\n")


def _read(notes: Path) -> Iterator[Promised]:
    for line in notes.read_text().splitlines():
        station, stream_id, seq, decision, digest = line.split()
        yield Promised(station, stream_id, int(seq), decision, digest)


def _main(settings: Mapping[str, Any], folder: Path) -> None:
    ended = False

    def end(*_: object) -> None:
        nonlocal ended
        ended = True

    signal.signal(signal.SIGTERM, end)
    made = len(list(_read(folder / "notes")))
    broker = SimpleNamespace(host=settings["host"], port=settings["port"], user="nobody", password="nothing")
    device = Device(broker, folder / "outbox", timing=TIMING, **settings["mqtt"])
    notes = os.open(folder / "notes", os.O_WRONLY | os.O_APPEND)

    def committed(final: Result) -> None:
        digest = hashlib.sha256(final.as_json().encode()).hexdigest()
        os.write(notes, f"{final.station} {final.stream_id} {final.seq} {final.decision} {digest}\n".encode())
        device.publisher.last(final.station, final)
        device.publisher.counts(final.station, device.outbox.counts(final.station))

    device.start()
    due = time.monotonic()
    while not ended:
        if made < settings["total"]:
            one = result(STATIONS[made % len(STATIONS)], DECISIONS[made % len(DECISIONS)])
            device.publisher.decision(one.station, one)
            device.put(one, committed)
            made += 1
        due += 1 / settings["rate"]
        time.sleep(max(0.0, due - time.monotonic()))
    device.outbox.flush(1.2)
    device.close(1.0)


if __name__ == "__main__":
    path = Path(sys.argv[1])
    _main(json.loads(path.read_text()), path.parent)
