"""`make bench-delivery`: how fast a real result of some 1.7 kB goes from `put` to a subscriber.

One process holds outbox and publisher as the service does; mosquitto and a subscriber (mosquitto_sub) are
processes of their own on the same machine. Plain TCP: TLS costs the same few microseconds a message on any
broker and is not what is measured here.
"""

from __future__ import annotations

import gc
import json
import os
import platform
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from edge_infer.result import Result
from tests.support.mosquitto import Mosquitto
from tests.support.publishers import PREFIX, Device
from tests.support.results import result

RATES = {"fsync": 500, "normal": 3000}
"""Results a second that are promised, by `outbox.commit`."""
P99_MS = 1.0
QUEUED = 100_000
FLAT_MB = 10.0
"""So much may the memory grow over that queue."""
SECONDS = 15.0
AHEAD = 1500
"""Results that may wait: the queue is never empty and never grows, so the rate is the delivery's own."""
REPORT = Path(__file__).parents[2] / "docs" / "benchmarks" / "delivery.md"


@dataclass(frozen=True, slots=True)
class Delivery:
    """One run against a broker that is there."""

    commit: str
    results: int
    seconds: float
    put_ms: tuple[float, float, float]
    """p50, p99, max under that load."""
    paced_ms: tuple[float, float, float]
    """The same at the promised rate."""

    @property
    def rate(self) -> float:
        return self.results / self.seconds


@dataclass(frozen=True, slots=True)
class Queue:
    """A broker that is away."""

    results: int
    before_mb: float
    after_mb: float
    disk_mb: float


def real_result() -> Result:
    """What a station with a few findings publishes."""
    return result(label="bottle-cap", found=5)


def percentiles(seconds: list[float]) -> tuple[float, float, float]:
    """p50, p99 and max in milliseconds."""
    ordered = sorted(seconds)
    return (
        ordered[len(ordered) // 2] * 1000,
        ordered[int(len(ordered) * 0.99)] * 1000,
        ordered[-1] * 1000,
    )


@contextmanager
def subscriber(broker: Mosquitto, count: int, out: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Ends by itself after ``count`` results; writes them to ``out``."""
    with out.open("wb") as file:
        process = subprocess.Popen(
            [
                "mosquitto_sub", "-V", "mqttv5", "-h", broker.host, "-p", str(broker.port), "-u", broker.user,
                "-P", broker.password, "-q", "1", "-t", f"{PREFIX}/+/result", "-C", str(count), "-F", "%p",
            ],
            stdout=file,
        )  # fmt: skip
        try:
            while "SUBSCRIBE" not in broker.log:
                time.sleep(0.01)
            yield process
        finally:
            process.kill()
            process.wait(5)


def inspect(one: Device, count: int, *, rate: float | None) -> list[float]:
    """What a station's thread does: make a result, hand it over; seconds of each `put`.

    Without a ``rate`` as fast as results leave the outbox.
    """
    template = real_result()
    took: list[float] = []
    began = time.perf_counter()
    for at in range(count):
        if rate is not None:
            left = began + at / rate - time.perf_counter()
            if left > 0:
                time.sleep(left)
        else:
            while one.outbox.depth() + one.outbox.stats.in_hand > AHEAD:
                time.sleep(0.005)
        new = template.model_copy(update={"frame_seq": at})
        start = time.perf_counter()
        one.put(new)
        took.append(time.perf_counter() - start)
    return took


def run(folder: Path, commit: str, count: int, *, rate: float | None) -> tuple[float, list[float]]:
    """Seconds until the subscriber had all of them, and those of each `put`."""
    with Mosquitto(folder / "broker", lines=("log_type subscribe",)) as broker:
        out = folder / "received"
        with subscriber(broker, count, out) as process:
            one = Device(broker, folder / "state", outbox={"commit": commit}).start().connected()
            took: list[float] = []
            began = time.perf_counter()
            station = threading.Thread(
                target=lambda: took.extend(inspect(one, count, rate=rate)), name="station-cap"
            )
            station.start()
            if process.wait(SECONDS * 20) != 0:
                raise SystemExit("the subscriber did not get all results")
            seconds = time.perf_counter() - began
            station.join()
            one.close()
        got = [json.loads(line)["seq"] for line in out.read_bytes().splitlines()]
        if sorted(set(got)) != list(range(1, count + 1)):
            raise SystemExit(f"of {count} results {len(set(got))} arrived")
    return seconds, took
if __name__ == "__main__":
    for commit in ("fsync", "normal"):
        with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR")) as d:
            s, t = run(Path(d), commit, 20000, rate=None)
            print(commit, 20000 / s, percentiles(t), len(real_result().as_json()))
        with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR")) as d:
            s, t = run(Path(d), commit, RATES[commit]*6, rate=RATES[commit])
            print(commit, "paced", RATES[commit]*6 / s, percentiles(t))
