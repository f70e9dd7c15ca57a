"""What Prometheus itself sees: a scrape, and promtool's opinion."""

from __future__ import annotations

import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

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
