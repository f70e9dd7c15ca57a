from __future__ import annotations

import socket
from pathlib import Path

import pytest

from edge_infer.sdnotify import Notifier


@pytest.mark.parametrize("abstract", [False, True])
def test_systemd_hears_each_field_on_its_line(tmp_path: Path, *, abstract: bool) -> None:
    name = f"@edge-infer-{tmp_path.name}" if abstract else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(name.replace("@", "\0", 1))
        systemd.settimeout(5)
        Notifier({"NOTIFY_SOCKET": name}).send(READY="1", STATUS="2 station(s)")
        assert systemd.recv(100) == b"READY=1\nSTATUS=2 station(s)"


def test_without_systemd_nothing_happens() -> None:
    notifier = Notifier({})
    notifier.send(READY="1")
    assert notifier.watchdog_s is None


def test_a_systemd_that_went_away_is_only_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    Notifier({"NOTIFY_SOCKET": str(tmp_path / "gone")}).send(WATCHDOG="1")
    assert "systemd cannot be told" in caplog.text


def test_the_watchdog_is_fed_twice_in_its_time() -> None:
    assert Notifier({"WATCHDOG_USEC": "10000000"}).watchdog_s == 5.0
