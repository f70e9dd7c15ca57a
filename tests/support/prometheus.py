"""What Prometheus itself sees: a scrape, promtool's opinion, and a real server."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

PROMTOOL = Path(sys.prefix) / "prometheus/usr/bin/promtool"
"""Where `make test` puts it."""


def promtool(*arguments: str, text: str | bytes = "", cwd: Path | None = None) -> str:
    """What it says; fails where it finds something wrong."""
    if not PROMTOOL.exists():
        pytest.fail("promtool is missing: `make .venv/prometheus.stamp` fetches it")
    done = subprocess.run(
        [PROMTOOL, *arguments],
        input=text.encode() if isinstance(text, str) else text,
        capture_output=True,
        check=False,
        timeout=60,
        cwd=cwd,
    )
    said = (done.stdout + done.stderr).decode()
    assert done.returncode == 0, said
    return said


class Scrape:
    """One page, read by the client library's own parser."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.families = {family.name: family for family in text_string_to_metric_families(text)}
        self.samples = {
            (sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for family in self.families.values()
            for sample in family.samples
        }

    @property
    def names(self) -> set[str]:
        """Of all samples."""
        return {name for name, _ in self.samples}

    def value(self, name: str, /, **labels: str) -> float:
        """Of one series; ``name`` without ``edge_infer_``."""
        return self.samples[f"edge_infer_{name}", tuple(sorted(labels.items()))]

    def has(self, name: str, /, **labels: str) -> bool:
        """Whether there is that series."""
        return (f"edge_infer_{name}", tuple(sorted(labels.items()))) in self.samples


def scrape(port: int, timeout_s: float = 5) -> Scrape:
    """As Prometheus does it."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=timeout_s) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        return Scrape(answer.read().decode())


def wait_for(port: int, wanted: Callable[[Scrape], bool], timeout_s: float = 20) -> Scrape:
    """Scrape until it is as wanted."""
    until_s = time.monotonic() + timeout_s
    last: object = None
    while time.monotonic() < until_s:
        try:
            found = scrape(port)
        except (urllib.error.URLError, ConnectionError) as error:
            last = error
        else:
            last = found.text
            try:
                if wanted(found):
                    return found
            except KeyError:
                # what it asks for is not there yet
                pass
        # longer than a page is kept
        time.sleep(0.2)
    raise AssertionError(f"not in {timeout_s} s: {last}")


class Prometheus:
    """A real server that scrapes one port each second and watches alerts."""

    def __init__(self, folder: Path, target: int, rules: Path, port: int) -> None:
        """``port``: a free one for its API."""
        folder.mkdir()
        self._port = port
        (folder / "prometheus.yml").write_text(
            "global: {scrape_interval: 1s, evaluation_interval: 1s}\n"
            f"rule_files: [{json.dumps(str(rules))}]\n"
            "scrape_configs:\n"
            f'  - {{job_name: edge-infer, static_configs: [{{targets: ["127.0.0.1:{target}"]}}]}}\n'
        )
        self._log = folder / "prometheus.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [
                    PROMTOOL.with_name("prometheus"), f"--config.file={folder}/prometheus.yml",
                    f"--storage.tsdb.path={folder}/data", f"--web.listen-address=127.0.0.1:{port}",
                ],
                stdout=log, stderr=log,
            )  # fmt: skip

    def ask(self, expression: str) -> list[dict[str, Any]]:
        """Its instant answer."""
        query = urllib.parse.urlencode({"query": expression})
        with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/api/v1/query?{query}", timeout=5) as said:
            found: list[dict[str, Any]] = json.load(said)["data"]["result"]
            return found

    def wait(self, expression: str, timeout_s: float = 20) -> list[dict[str, Any]]:
        """Until the answer is not empty."""
        until_s = time.monotonic() + timeout_s
        while time.monotonic() < until_s:
            try:
                if found := self.ask(expression):
                    return found
            except urllib.error.URLError:
                # it has not come so far
                pass
            time.sleep(0.1)
        raise AssertionError(f"{expression}: nothing in {timeout_s} s\n{self._log.read_text()}")

    def __enter__(self) -> Prometheus:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(10)
