"""The flow of deploy/node-red in Node-RED itself."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.foreign_publisher import ForeignPublisher, foreign_publisher
from tests.support.mosquitto import Mosquitto, free_port
from tests.support.publishers import Device, device
from tests.support.results import result

FLOWS = Path(__file__).parents[2] / "deploy/node-red/flows.json"
NODE_RED = Path(sys.prefix) / "node-red/node_modules/node-red/red.js"
OK, NOK, UNDEFINED, BEAT = 1, 2, 4, 0x8000


class Plc:
    """What arrives at the PLC's port."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self._socket.settimeout(30)
        self.port: int = self._socket.getsockname()[1]

    def word(self) -> int:
        """The next one."""
        return int.from_bytes(self._socket.recv(100), "big")

    def until(self, wanted: int, timeout_s: float = 10) -> float:
        """Seconds until it is the word."""
        began_s = time.monotonic()
        while self.word() & ~BEAT != wanted:
            assert time.monotonic() < began_s + timeout_s
        return time.monotonic() - began_s

    def drain(self) -> None:
        """What waits is old."""
        self._socket.setblocking(False)
        try:
            while True:
                self._socket.recv(100)
        except BlockingIOError:
            self._socket.settimeout(30)

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def plc() -> Iterator[Plc]:
    one = Plc()
    yield one
    one.close()


@contextmanager
def node_red(broker: Mosquitto, plc: Plc, folder: Path) -> Iterator[Callable[[], str]]:
    """Running, connected; what it printed so far."""
    node = shutil.which("node", path=f"{Path(sys.prefix) / 'bin'}:{os.environ.get('PATH', '')}")
    if node is None or not NODE_RED.is_file():
        pytest.fail(f"Node-RED is missing ({NODE_RED}): make test-release")
    flows = json.loads(FLOWS.read_text(encoding="utf-8"))
    for one in flows:
        if one["type"] == "mqtt-broker":
            one["port"] = str(broker.port)
        elif one["type"] == "udp out":
            one["port"] = str(plc.port)
        elif one["type"] == "debug":
            one["console"] = True
    folder.mkdir()
    (folder / "flows.json").write_text(json.dumps(flows))
    access = {"user": broker.user, "password": broker.password}
    (folder / "flows_cred.json").write_text(json.dumps({"edge-state": access, "edge-results": access}))
    settings = {
        "uiPort": free_port(), "uiHost": "127.0.0.1", "flowFile": "flows.json", "credentialSecret": False,
        "telemetry": {"enabled": False}, "mqttReconnectTime": 500,
    }  # fmt: skip
    (folder / "settings.js").write_text(f"module.exports = {json.dumps(settings)};\n")
    log = folder / "log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [node, str(NODE_RED), "--userDir", str(folder), "--settings", str(folder / "settings.js")],
            stdout=out, stderr=out,
        )  # fmt: skip
    try:
        end = time.monotonic() + 60
        while broker.log.count("Sending SUBACK") < 5:
            assert time.monotonic() < end, log.read_text()
            assert process.poll() is None, log.read_text()
            time.sleep(0.1)
        yield log.read_text
    finally:
        process.terminate()
        process.wait(15)


def say(one: Device, station: str = "filler") -> None:
    one.publisher.decision(station, result(station, "OK"))


def test_the_plc_is_told_ok_only_while_it_holds(mosquitto: Mosquitto, plc: Plc, tmp_path: Path) -> None:
    with node_red(mosquitto, plc, tmp_path / "red"), device(mosquitto, tmp_path / "outbox") as one:
        words = [plc.word() for _ in range(4)]
        assert {word & ~BEAT for word in words} == {UNDEFINED}
        assert {word & BEAT for word in words} == {0, BEAT}
        one.connected()
        say(one)
        plc.until(OK)
        one.publisher.decision("filler", result("filler", "NOK"))
        plc.until(NOK)
        say(one)
        plc.until(OK)
        # nothing more is inspected: nobody says that it is over
        assert 2 < plc.until(UNDEFINED) < 6
        say(one)
        plc.until(OK)
        # the broker is gone and says nothing at all
        mosquitto.kill()
        plc.drain()
        assert plc.until(UNDEFINED) < 6
        mosquitto.start()
        one.wait(lambda: one.publisher.connected, "connected", 20)
        end = time.monotonic() + 20
        while plc.word() & ~BEAT != OK:
            assert time.monotonic() < end
            say(one)
        one.close()
        # `stopped`
        assert plc.until(UNDEFINED) < 2


def test_results_are_passed_on_once_and_holes_are_said(
    mosquitto: Mosquitto, plc: Plc, tmp_path: Path
) -> None:
    with (
        node_red(mosquitto, plc, tmp_path / "red") as printed,
        foreign_publisher(mosquitto) as foreign,
    ):
        for seq in (1, 2, 2, 5, 1):
            foreign.result(seq)
        foreign.gap((3, 4))
        finish(foreign, printed)
        text = printed()
    assert [text.count(f"seq: {seq},") for seq in (1, 2, 5)] == [1, 1, 1]
    assert text.count("ipc7/cap: results 3 to 4 did not come yet") == 1
    assert "ipc7/cap: the device gave up results 3 to 4" in text


def finish(foreign: ForeignPublisher, printed: Callable[[], str]) -> None:
    foreign.event("last_word", {})
    end = time.monotonic() + 20
    while "last_word" not in printed():
        assert time.monotonic() < end, printed()
        time.sleep(0.1)
