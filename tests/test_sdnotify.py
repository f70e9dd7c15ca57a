from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from edge_infer.sdnotify import Notifier


@contextmanager
def systemd(name: str) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(name.replace("@", "\0", 1))
        sock.settimeout(5)
        yield sock


@pytest.mark.parametrize("abstract", [False, True])
def test_systemd_hears_each_field_on_its_line(tmp_path: Path, *, abstract: bool) -> None:
    name = f"@edge-infer-{tmp_path.name}-{os.getpid()}" if abstract else str(tmp_path / "notify")
    with systemd(name) as sock:
        Notifier({"NOTIFY_SOCKET": name}).send(READY="1", STATUS="2 station(s)")
        assert sock.recv(100) == b"READY=1\nSTATUS=2 station(s)"


def test_without_systemd_nothing_happens() -> None:
    notifier = Notifier({})
    notifier.send(READY="1")
    assert notifier.watchdog_s is None


def test_a_systemd_that_went_away_is_only_a_warning_and_only_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    notifier = Notifier({"NOTIFY_SOCKET": str(tmp_path / "gone")})
    for _ in range(5):
        notifier.send(WATCHDOG="1")
    assert caplog.text.count("systemd cannot be told") == 1


def test_a_socket_of_another_kind_is_told_once_and_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    Notifier({"NOTIFY_SOCKET": "vsock:2:1234"}).send(READY="1")
    assert "vsock:2:1234" in caplog.text


def test_a_systemd_that_reads_nothing_holds_nobody_up(tmp_path: Path) -> None:
    name = str(tmp_path / "notify")
    with systemd(name):
        notifier = Notifier({"NOTIFY_SOCKET": name})
        start = time.monotonic()
        for _ in range(2000):
            notifier.send(STATUS="x" * 900)
        assert time.monotonic() - start < 5


def test_who_must_be_heard_learns_that_it_was_not(tmp_path: Path) -> None:
    name = str(tmp_path / "notify")
    with systemd(name) as sock:
        notifier = Notifier({"NOTIFY_SOCKET": name})
        while notifier.send(STATUS="x" * 900):
            pass
        assert not notifier.send(READY="1")
        sock.recv(1000)
        assert notifier.send(READY="1")
    assert Notifier({}).send(READY="1"), "nobody wants to hear it"


def test_no_text_becomes_a_field_and_none_is_too_long_for_systemd(tmp_path: Path) -> None:
    name = str(tmp_path / "notify")
    with systemd(name) as sock:
        notifier = Notifier({"NOTIFY_SOCKET": name})
        notifier.send(STATUS="camera\nSTOPPING=1\udc80")
        assert sock.recv(4096) == b"STATUS=camera STOPPING=1 "
        notifier.send(STATUS="ä" * 5000)
        text = sock.recv(10_000).decode()
        assert len(text.encode()) < 1100
        assert text.endswith("ä…")


def test_a_reload_says_when_it_began(tmp_path: Path) -> None:
    name = str(tmp_path / "notify")
    with systemd(name) as sock:
        before = time.monotonic_ns() // 1000
        Notifier({"NOTIFY_SOCKET": name}).reloading()
        first, second = sock.recv(200).decode().split("\n")
        assert first == "RELOADING=1"
        assert before <= int(second.removeprefix("MONOTONIC_USEC=")) <= time.monotonic_ns() // 1000


def test_the_watchdog_is_fed_twice_in_its_time() -> None:
    assert Notifier({"WATCHDOG_USEC": "10000000"}).watchdog_s == 5.0
    ours = {"WATCHDOG_USEC": "10000000", "WATCHDOG_PID": str(os.getpid())}
    assert Notifier(ours).watchdog_s == 5.0


@pytest.mark.parametrize(
    "environ",
    [
        {"WATCHDOG_USEC": "0"},
        {"WATCHDOG_USEC": "soon"},
        {"WATCHDOG_USEC": "²"},
        {"WATCHDOG_USEC": "10000000", "WATCHDOG_PID": "1"},
    ],
)
def test_a_watchdog_that_is_off_or_not_ours_is_not_fed(environ: dict[str, str]) -> None:
    assert Notifier(environ).watchdog_s is None
