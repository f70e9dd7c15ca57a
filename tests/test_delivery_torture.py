"""The promise of the delivery as a whole: none lost, none invented, whoever is killed whenever."""

from __future__ import annotations

import hashlib
import json
import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

from edge_infer.client import Broker, Result, Subscriber, Tls, Unreadable
from edge_infer.client import session as session_module
from tests.support.producer import STATIONS, Producer
from tests.support.publishers import PREFIX
from tests.support.site_broker import SiteBroker

Victim = Literal["broker", "service"]
WORDS = ("OK", "NOK", "UNDEFINED")
RATE = 200
SAVING = "Saving in-memory database"


@dataclass(frozen=True)
class Kill:
    """Who, when (seconds from the start), how long it hangs before, and for how long it is away."""

    at_s: float
    victim: Victim
    hangs_s: float
    """A broker that no longer answers: what was sent to it is on the wire when it dies."""
    away_s: float


def kills(chance: random.Random, seconds: float, broker: int, service: int) -> list[Kill]:
    victims: list[Victim] = []
    victims += ["broker"] * broker
    victims += ["service"] * service
    return sorted(
        (
            Kill(chance.uniform(1, seconds - 1), victim, chance.uniform(0, 0.3), chance.uniform(0, 2))
            for victim in victims
        ),
        key=lambda kill: kill.at_s,
    )


class ForeignDurable:
    """`mosquitto_sub` with a durable session and a certificate; writes a file, so that it is never slow.

    It ends by itself where a broker dies in the middle of a TLS handshake, so it is started again.
    """

    def __init__(self, broker: SiteBroker, folder: Path, protocol: str) -> None:
        files = broker.files("mes")
        version = {"5": ("mqttv5", "-x", "3600"), "3.1.1": ("mqttv311",)}[protocol]
        self._command = [
            "mosquitto_sub", "-V", *version, "-h", broker.host, "-p", str(broker.port), "-q", "1", "-c",
            "--cafile", files["ca"], "--cert", files["cert"], "--key", files["key"], "-i", "mes",
            "-t", f"{PREFIX}/+/result", "-t", f"{PREFIX}/+/counts", "-t", f"{PREFIX}/+/gap", "-F", "%t\t%x",
        ]  # fmt: skip
        self._file = folder / "foreign"
        self._closed = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._keep, name="mosquitto_sub")
        self._thread.start()

    def _keep(self) -> None:
        while not self._closed.wait(0.2):
            with self._file.open("ab") as out:
                self._process = subprocess.Popen(self._command, stdout=out, stderr=subprocess.DEVNULL)
            while self._process.poll() is None and not self._closed.wait(0.1):
                pass
            self._process.terminate()
            self._process.wait(5)

    def messages(self) -> list[tuple[str, bytes]]:
        """Topic below the prefix and payload."""
        lines = self._file.read_text().splitlines()
        pairs = (line.split("\t") for line in lines)
        return [(topic.removeprefix(f"{PREFIX}/"), bytes.fromhex(payload)) for topic, payload in pairs]

    def results(self) -> int:
        """How many, without reading them."""
        return self._file.read_bytes().count(b"/result\t")

    def close(self) -> None:
        self._closed.set()
        self._thread.join(10)


@contextmanager
def foreign(broker: SiteBroker, folder: Path, protocol: str) -> Iterator[ForeignDurable]:
    reader = ForeignDurable(broker, folder, protocol)
    try:
        until(lambda: "SUBACK to mes" in broker.log, 10)
        yield reader
    finally:
        reader.close()


def until(done: Any, timeout_s: float) -> None:
    end = time.monotonic() + timeout_s
    while not done():
        assert time.monotonic() < end, f"not within {timeout_s} s"
        time.sleep(0.02)


class Ours:
    """`edge_infer.client` with a position, and what it handed out."""

    def __init__(self, broker: SiteBroker, folder: Path, protocol: Any) -> None:
        tls = Tls(**{kind: Path(path) for kind, path in broker.files("gateway").items()})
        self._broker = Broker(broker.host, broker.port, protocol, tls=tls)
        self._position = folder / "position"
        self.handled: list[Result] = []
        self.duplicates = 0
        self.subscriber = self._open()

    def _open(self) -> Subscriber:
        return Subscriber(self._broker, PREFIX, client_id="gateway", position=self._position)

    def take(self, timeout_s: float) -> None:
        """What comes in that time."""
        end = time.monotonic() + timeout_s
        while (left_s := end - time.monotonic()) > 0:
            message = self.subscriber.next(left_s)
            assert not isinstance(message, Unreadable)
            if isinstance(message, Result):
                self.handled.append(message)
        self.subscriber.acknowledge()

    def restart(self) -> None:
        """As after an update of the reader."""
        self.close()
        self.subscriber = self._open()

    def close(self) -> None:
        self.duplicates += self.subscriber.duplicates
        self.subscriber.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("protocol", "total", "killed"),
    [("5", 10_000, (5, 2)), ("3.1.1", 2_000, (2, 1))],
    ids=["mqtt5-10000", "mqtt3-2000"],
)
def test_nothing_is_lost_or_invented_whoever_is_killed(
    protocol: str, total: int, killed: tuple[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # so that the readers are back soon: mosquitto writes its whole queue for each message that waits
    monkeypatch.setattr(session_module, "RETRY_MAX_S", 1.0)
    seed = int(os.environ.get("TORTURE_SEED", random.SystemRandom().randrange(10**6)))
    plan = kills(random.Random(seed), total / RATE, *killed)  # noqa: S311 - not a secret
    say(f"TORTURE_SEED={seed}: {plan}")
    broker = SiteBroker(tmp_path / "broker")
    broker.make("device", "ipc7", "--site", "plant1", "--line", "l3")
    for reader in ("mes", "gateway"):
        broker.make("reader", reader)
    producer = Producer(
        tmp_path / "service", broker, total=total, rate=RATE, protocol=protocol, tls=broker.files("ipc7")
    )
    with broker, foreign(broker, tmp_path, protocol) as theirs:
        ours = Ours(broker, tmp_path, protocol)
        try:
            until(lambda: ours.subscriber.connected, 10)
            # mosquitto writes a new session down within a second, not at once
            saved = broker.log.count(SAVING)
            until(lambda: broker.log.count(SAVING) > saved, 10)
            began_s = time.monotonic()
            producer.start()
            for number, kill in enumerate(plan):
                ours.take(began_s + kill.at_s - time.monotonic())
                victim = broker if kill.victim == "broker" else producer
                if kill.victim == "broker":
                    broker.freeze()
                    ours.take(kill.hangs_s)
                victim.kill()
                ours.take(kill.away_s)
                victim.start()
                if number == len(plan) // 2:
                    ours.restart()
            end = time.monotonic() + 60
            while producer.count() < total or ours.subscriber.missing() or len(ours.handled) < total:
                assert time.monotonic() < end, (len(ours.handled), producer.count(), producer.log)
                ours.take(0.2)
            # results that were sent again late, and the last counts
            ours.take(1.5)
            assert producer.stop() == 0, producer.log
            ours.take(0.5)
            missing = ours.subscriber.missing()
        finally:
            ours.close()
            producer.close()
        until(lambda: theirs.results() >= total, 10)
        messages = theirs.messages()
    say(judge_foreign(messages, producer))
    say(judge_ours(ours, producer))
    assert missing == []


def say(text: str) -> None:
    """Shown where the test fails, and with ``-s``."""
    sys.stdout.write(f"\n{text}")


def judge_foreign(messages: list[tuple[str, bytes]], producer: Producer) -> str:
    """As a stranger counts who knows only docs/mqtt.md; what he found."""
    came: dict[tuple[str, str, int], bytes] = {}
    stations: dict[str, str] = {}
    counts: dict[str, dict[str, int]] = {}
    results = 0
    for topic, payload in messages:
        station, _, kind = topic.partition("/")
        raw = json.loads(payload)
        if kind == "counts":
            counts[station] = {word: raw[word] for word in WORDS}
            continue
        assert kind == "result", (topic, payload)
        results += 1
        assert stations.setdefault(raw["streamId"], station) == raw["station"]
        # a duplicate is the same result, byte for byte
        assert came.setdefault((raw["source"]["device"], raw["streamId"], raw["seq"]), payload) == payload
    digests = {key: hashlib.sha256(payload).hexdigest() for key, payload in came.items()}
    promised = producer.promised()
    lost = [one for one in promised if digests.get(("ipc7", one.stream_id, one.seq)) != one.sha256]
    assert lost == []
    assert sorted(stations.values()) == sorted(STATIONS)
    for stream, station in stations.items():
        of_station = {key[2]: json.loads(payload) for key, payload in came.items() if key[1] == stream}
        assert sorted(of_station) == list(range(1, len(of_station) + 1))
        seen = Counter(raw["decision"] for raw in of_station.values())
        assert counts[station] == {word: seen[word] for word in WORDS}
    return f"promised {len(promised)}, lost {len(lost)}, came {len(came)} and {results - len(came)} once more"


def judge_ours(ours: Ours, producer: Producer) -> str:
    """The client hands each result out once, and all of them; what it did."""
    keys = Counter((one.device, one.stream_id, one.seq) for one in ours.handled)
    assert max(keys.values()) == 1
    assert {("ipc7", one.stream_id, one.seq) for one in producer.promised()} <= keys.keys()
    return f"client: {len(keys)} handed out, {ours.duplicates} repetitions dropped"
