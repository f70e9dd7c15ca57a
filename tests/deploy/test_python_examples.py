"""The examples for readers, run as they are against the site's broker and the real service."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.publishers import PREFIX, device
from tests.support.results import result
from tests.support.running import Running
from tests.support.site_broker import SiteBroker

EXAMPLES = Path(__file__).parents[2] / "deploy/python"
MODELS = Path(__file__).parents[2] / "models"
SITE = """\
format: 1
site: plant1
line: l3
device: ipc7
state_dir: state
mqtt: {{host: 127.0.0.1, port: {port}, tls: {{ca: {ca}, cert: {cert}, key: {key}}}}}
cameras:
  belt: {{type: synthetic, fps: 10, seed: 1}}
models:
  bottles: {{path: {models}/bottles, backend: {{type: onnxruntime}}}}
stations:
  filler:
    camera: belt
    trigger: {{type: camera}}
    model: bottles
    region: {{unit: fraction, box: [0.35, 0, 0.70, 1]}}
    rules: [{{name: one-bottle, count: {{labels: [bottle], at_least: 1, at_most: 1}}}}]
"""


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[SiteBroker]:
    one = SiteBroker(tmp_path / "broker")
    one.make("device", "ipc7", "--site", "plant1", "--line", "l3")
    for reader in ("mes", "gateway"):
        one.make("reader", reader)
    with one:
        yield one


class Example:
    """One of them as a process."""

    def __init__(self, script: str, broker: SiteBroker, name: str, *arguments: str) -> None:
        folder = Path(broker.files(name)["key"]).parent
        self.process = subprocess.Popen(
            [sys.executable, str(EXAMPLES / script), broker.host, PREFIX, *arguments,
             "--port", str(broker.port), "--tls", str(folder), "--name", name],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().rstrip()

    def end(self, number: signal.Signals = signal.SIGINT) -> int:
        self.process.send_signal(number)
        _, errors = self.process.communicate(timeout=10)
        assert "Traceback" not in errors
        return self.process.returncode


def until(done: Callable[[], bool], timeout_s: float = 20) -> None:
    end = time.monotonic() + timeout_s
    while not done():
        assert time.monotonic() < end
        time.sleep(0.05)


def stored(database: Path) -> list[tuple[Any, ...]]:
    if not database.exists():
        return []
    connection = sqlite3.connect(database)
    try:
        return connection.execute("SELECT seq, decision, part_id FROM results ORDER BY seq").fetchall()
    except sqlite3.OperationalError:
        return []
    finally:
        connection.close()


def test_each_result_of_the_service_is_in_the_database_once_though_the_reader_is_killed(
    broker: SiteBroker, tmp_path: Path
) -> None:
    site = tmp_path / "site.yaml"
    site.write_text(SITE.format(port=broker.port, models=MODELS, **broker.files("ipc7")))
    database = tmp_path / "results.db"
    reader = Example("results_to_sqlite.py", broker, "mes", str(database))
    until(lambda: "Sending SUBACK to mes" in broker.log)
    service = Running(site)
    try:
        until(lambda: len(stored(database)) >= 3)
        reader.end(signal.SIGKILL)
        before = len(stored(database))
        until(lambda: broker.log.count("/filler/result'") >= before + 8)
        reader = Example("results_to_sqlite.py", broker, "mes", str(database))
        until(lambda: len(stored(database)) >= before + 8)
    finally:
        assert service.stop() == 0, service.log
        time.sleep(0.5)
        assert reader.end() == 0
    rows = stored(database)
    assert [seq for seq, _, _ in rows] == list(range(1, len(rows) + 1))
    assert all(decision in ("OK", "NOK", "UNDEFINED") and part for _, decision, part in rows)


def test_the_word_for_a_plc_is_ok_only_while_it_holds(broker: SiteBroker, tmp_path: Path) -> None:
    gateway = Example("plc_word.py", broker, "gateway", "cap")
    assert gateway.line() == "UNDEFINED the status of the device is not known"
    with device(broker, tmp_path / "outbox", tls=broker.files("ipc7"), valid_s=2) as one:
        one.connected()
        one.publisher.decision("cap", result("cap", "NOK"))
        while (line := gateway.line()) != "NOK":
            assert line.startswith("UNDEFINED ")
        one.publisher.decision("cap", result("cap", "OK"))
        assert gateway.line() == "OK"
        assert gateway.line() == "UNDEFINED the last decision has expired"
    assert gateway.line() == "UNDEFINED the device is stopped"
    assert gateway.end() == 0


def test_an_example_that_cannot_read_its_certificates_says_so(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "results_to_sqlite.py"), "127.0.0.1", PREFIX, str(tmp_path / "db"),
         "--tls", str(tmp_path)],
        capture_output=True, text=True, timeout=20, check=False, env=os.environ,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.startswith("cannot use the certificate authority")
    assert done.stderr.count("\n") == 1
