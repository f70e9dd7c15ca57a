"""The real service, which can measure everything, asked by Prometheus' means while it judges."""

from __future__ import annotations

import socket
import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.mosquitto import Mosquitto, free_port
from tests.support.pki import Pki
from tests.support.prometheus import Scrape, scrape, wait_for
from tests.support.publishers import PREFIX
from tests.support.remote import Asker
from tests.support.running import Running
from tests.support.runs import RULE, site
from tests.support.subscriber import Subscriber, subscribed
from tests.support.sysfs import fanless_pc, use

FRAMES, PARTS = 40, 7


@dataclass(frozen=True)
class Scraped:
    """What it told while it ran, and when a recording and some parts were judged."""

    first: Scrape
    last: Scrape
    later: Scrape
    """Some tenths of a second after ``last``."""
    results: list[dict[str, Any]]
    """Of the recording and of the parts, which are over."""
    textfile: str
    listening: list[str]
    """Where somebody listens on its port, as the kernel writes addresses."""
    stop_s: float = 0.0
    """How long it took to stop while clients had not said what they want."""


@pytest.fixture(scope="session")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> Scraped:
    """All of it; the service has stopped."""
    folder = tmp_path_factory.mktemp("scraped")
    pki, port = Pki(folder / "pki"), free_port()
    sysfs = fanless_pc(folder / "sys")
    on = {"model": "m", "rules": [RULE]}
    with Mosquitto(folder / "mosquitto", lines=pki.lines(client=True)) as broker:
        path = site(
            folder / "site",
            broker,
            cameras={
                "scene": {"type": "synthetic", "fps": 20, "seed": 1},
                "tape": {"type": "synthetic", "fps": 20, "seed": 2, "frames": FRAMES},
            },
            stations={
                "cap": {**on, "camera": "scene"},
                "tape": {**on, "camera": "tape"},
                "part": {**on, "camera": "scene", "trigger": {"type": "mqtt"}},
            },
            evidence={"min_free_bytes": 0},
            metrics={"port": port, "textfile": "own.prom", "every_s": 1, "sysfs": str(sysfs)},
        )
        data = yaml.safe_load(path.read_text())
        files = pki.path("ca.crt"), pki.path("ipc7.crt"), pki.path("ipc7.key")
        data["mqtt"]["tls"] = dict(zip(("ca", "cert", "key"), files, strict=True))
        path.write_text(yaml.safe_dump(data, sort_keys=False))
        with subscribed(broker, f"{PREFIX}/#", "vision/v1/rsp/#", tls=files) as subscriber:
            service = Running(path)
            try:
                seen = _ask(service, subscriber, port, sysfs, path.parent / "own.prom")
                return replace(seen, stop_s=_stop_while_clients_hold_on(service, port))
            finally:
                assert service.stop() == 0, service.log


def _ask(service: Running, subscriber: Subscriber, port: int, sysfs: Path, file: Path) -> Scraped:
    first = wait_for(
        port,
        lambda page: (
            page.value("decisions_total", station="cap", decision="NOK") > 0
            and page.value("mqtt_connected") == 1
        ),
    )
    use(sysfs, "intel-rapl:0", 8_500_000)
    asker = Asker(subscriber)
    for number in range(PARTS):
        asker.ask("part/start_single_job", {"partId": f"p-{number}"})
        subscriber.wait_on("/part/result", number + 1)
    results = [one.json for one in subscriber.wait_on("/part/result", PARTS)]
    results += [one.json for one in subscriber.wait_on("/tape/result", FRAMES)]
    last = wait_for(
        port,
        lambda page: (
            page.value("camera_state", camera="tape", state="ended") == 1
            and page.has("camera_frames_per_second", camera="scene")
        ),
    )
    time.sleep(0.7)
    return Scraped(first, last, scrape(port), results, file.read_text(), _listening(service, port))


def _stop_while_clients_hold_on(service: Running, port: int) -> float:
    with ExitStack() as clients:
        for _ in range(30):
            client = clients.enter_context(socket.create_connection(("127.0.0.1", port), timeout=5))
            client.sendall(b"GET /metr")
        began_s = time.monotonic()
        assert service.stop() == 0, service.log
        return time.monotonic() - began_s


def _listening(service: Running, port: int) -> list[str]:
    lines = [
        line.split()
        for table in ("tcp", "tcp6")
        for line in Path(f"/proc/{service.process.pid}/net/{table}").read_text().splitlines()[1:]
    ]
    # 0A: it listens
    return [line[1] for line in lines if line[3] == "0A" and line[1].endswith(f":{port:04X}")]
