"""What every test may use."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.filesystems import small_disk
from tests.support.mosquitto import mosquitto
from tests.support.runs import run, subscribe
from tests.support.scraped import scraped

__all__ = ["mosquitto", "run", "scraped", "small_disk", "subscribe"]


@pytest.fixture(scope="session")
def shared() -> Path:
    """Real networks, videos and photos that lie beside the checkout; not part of the project."""
    folder = Path(__file__).parents[2] / "shared"
    if not folder.is_dir():
        pytest.fail(f"the test assets are missing: {folder} (real networks, videos, photos)")
    return folder


_ALLOWED_SKIPS = Path(__file__).with_name("allowed_skips.txt")
_skipped: list[str] = []


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Collect what was skipped."""
    if report.skipped:
        _skipped.append(report.nodeid)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A skipped check is not a green one: only those in allowed_skips.txt pass."""
    lines = _ALLOWED_SKIPS.read_text(encoding="utf-8").splitlines()
    allowed = {line.partition(": ")[0] for line in lines if line and not line.startswith("#")}
    if not set(_skipped) <= allowed and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say why a run with only skips failed."""
    for nodeid in _skipped:
        terminalreporter.write_line(
            f"skipped: {nodeid} (allowed only if tests/allowed_skips.txt gives a reason)"
        )
