"""`make bench-delivery`: how fast a real result of some 1.7 kB goes from `put` to a subscriber.

One process holds outbox and publisher as the service does; mosquitto and a subscriber (mosquitto_sub) are
processes of their own on the same machine. Plain TCP: TLS costs the same few microseconds a message on any
broker and is not what is measured here.
"""

from __future__ import annotations

import json
import logging
import os
import platform
import re
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from edge_infer.result import Result
from tests.support.mosquitto import Mosquitto, free_port
from tests.support.publishers import PREFIX, Device
from tests.support.results import result

RATES = {"fsync": 500, "normal": 3000}
"""Results a second that are promised, by `outbox.commit`."""
P99_MS = 1.0
QUEUED = 100_000
FLAT_MB = 10.0
"""So much may the memory grow over that queue."""
COUNT = 30_000
TIMEOUT_S = 300.0
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
    peak_mb: float
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
            if process.wait(TIMEOUT_S) != 0:
                raise SystemExit("the subscriber did not get all results")
            seconds = time.perf_counter() - began
            station.join()
            one.close()
        got = [json.loads(line)["seq"] for line in out.read_bytes().splitlines()]
        if sorted(set(got)) != list(range(1, count + 1)):
            raise SystemExit(f"of {count} results {len(set(got))} arrived")
    return seconds, took


def queue(folder: Path, count: int) -> Queue:
    """The service's process while the broker is away; one of its own, as other memory must not count."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); from pathlib import Path\n"
        "from tests.benchmarks import delivery\n"
        "delivery.fill(Path(sys.argv[2]), int(sys.argv[3]))\n"
    )
    root = str(Path(__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-c", code, root, str(folder), str(count)], check=True, stdout=subprocess.PIPE
    )
    before_mb, after_mb, peak_mb, disk_mb = json.loads(done.stdout)
    return Queue(count, before_mb, after_mb, peak_mb, disk_mb)


@dataclass(slots=True)
class _Nobody:
    """A port where nobody listens."""

    port: int
    host: str = "127.0.0.1"
    user: str = "edge-infer"
    password: str = ""


def fill(folder: Path, count: int) -> None:
    """Prints the resident memory in MB after the first twentieth and after all, its peak, and the disk's."""
    logging.disable()
    one = Device(_Nobody(free_port()), folder / "state", outbox={"commit": "normal"}).start()
    template, peak, before = real_result(), 0.0, 0.0
    for at in range(count):
        one.put(template.model_copy(update={"frame_seq": at}))
        if at % 500 == 0:
            # no faster than the disk takes it, as a station
            while one.outbox.stats.in_hand > 500:
                time.sleep(0.002)
        if at == count // 20:
            one.outbox.flush(60)
            before = _resident_mb()
        if before:
            peak = max(peak, _resident_mb()) if at % 1000 == 0 else peak
    one.outbox.flush(60)
    after = _resident_mb()
    if one.outbox.depth() != count:
        raise SystemExit(f"{one.outbox.depth()} of {count} results wait")
    disk = sum(file.stat().st_size for file in (folder / "state").iterdir()) / 1e6
    one.close()
    sys.stdout.write(json.dumps([before, after, max(peak, after), disk]))


def _resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def machine(load: float) -> list[str]:
    """What the figures belong to."""
    cpu = re.findall(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text(encoding="ascii"))
    broker = subprocess.run(["mosquitto", "-h"], capture_output=True, text=True, check=False).stdout
    return [
        f"machine {platform.node()}, {os.cpu_count()} × {cpu[0] if cpu else platform.machine()}",
        f"Linux {platform.release()}, Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}",
        f"paho-mqtt {version('paho-mqtt')}, {broker.splitlines()[0] if broker else 'mosquitto'}",
        f"load average before: {load:.1f} (what else the machine did)",
    ]


def report(deliveries: list[Delivery], queued: Queue, size: int, load: float) -> str:
    """The page for the documentation."""
    where = "".join(f"- {line}\n" for line in machine(load))
    rows = "".join(
        f"| `{one.commit}` | {one.rate:,.0f} | {RATES[one.commit]:,} |"
        f" {_ms(one.put_ms)} | {_ms(one.paced_ms)} |\n"
        for one in deliveries
    )
    return f"""# Delivery, measured

Written by `make bench-delivery`; do not edit.

{where}
A result of {size:,} bytes from `put` to a subscriber that has it: outbox, MQTT 5 with QoS 1 over plain \
TCP (no TLS), a real mosquitto, mosquitto_sub as subscriber, all on this machine. \
{deliveries[0].results:,} results a run; the subscriber's numbers are checked: none is missing.

| `outbox.commit` | results/s | wanted | `put`, ms: p50 / p99 / max | the same at the wanted rate |
|---|---|---|---|---|
{rows}
`put` is what a station's thread waits for; at most {P99_MS:g} ms at p99 is wanted.

Memory with the broker away (`normal`): {queued.before_mb:.1f} MB after {queued.results // 20:,} queued \
results, {queued.after_mb:.1f} MB after {queued.results:,} ({queued.disk_mb:.0f} MB on disk), at most \
{queued.peak_mb:.1f} MB in between.
"""


def _ms(of: tuple[float, float, float]) -> str:
    return " / ".join(f"{one:.3f}" for one in of)


def shortfalls(deliveries: list[Delivery], queued: Queue) -> list[str]:
    """What is not as promised."""
    found = []
    for one in deliveries:
        if one.rate < RATES[one.commit]:
            found.append(f"{one.commit}: {one.rate:.0f} results/s, wanted {RATES[one.commit]}")
        found += [
            f"{one.commit}: put takes {p99:.2f} ms at p99, wanted {P99_MS:g}"
            for _, p99, _ in (one.put_ms, one.paced_ms)
            if p99 > P99_MS
        ]
    if queued.peak_mb - queued.before_mb > FLAT_MB:
        found.append(f"memory grew by {queued.peak_mb - queued.before_mb:.1f} MB")
    return found


def main() -> None:
    """Measure, write the page, fail where a promise is not kept."""
    deliveries = []
    load = os.getloadavg()[0]
    # beside the sources, not in a /tmp that may be memory: fsync is what is measured
    with tempfile.TemporaryDirectory(dir=Path(__file__).parent, prefix=".run-") as name:
        folder = Path(name)
        for commit, wanted in RATES.items():
            seconds, took = run(folder / f"{commit}-full", commit, COUNT, rate=None)
            _, paced = run(folder / f"{commit}-paced", commit, wanted * 6, rate=wanted)
            deliveries.append(Delivery(commit, COUNT, seconds, percentiles(took), percentiles(paced)))
        queued = queue(folder / "queue", QUEUED)
    page = report(deliveries, queued, len(real_result().as_json()), load)
    REPORT.parent.mkdir(exist_ok=True)
    REPORT.write_text(page, encoding="utf-8")
    sys.stdout.write(page)
    if found := shortfalls(deliveries, queued):
        raise SystemExit("not as promised: " + "; ".join(found))


if __name__ == "__main__":
    main()
