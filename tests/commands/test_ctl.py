"""``edge-infer ctl``: what a person reads, and what it exits with."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from edge_infer.cli import cli
from edge_infer.commands import ctl as command
from edge_infer.ctl.protocol import SOCKET
from edge_infer.errors import EdgeInferError

STATUS: dict[str, Any] = {
    "version": "0.1.0", "pid": 7, "state": "running", "since": "2026-11-30T12:00:00Z",
    "configuration": {
        "file": "/etc/s.yaml", "number": 11, "sha256": "ab" * 32, "loadedAt": "2026-11-30T12:00:00Z",
        "by": "ctl:anna", "rolledBack": None, "nextStart": None, "fileIs": "running",
    },
    "kept": [], "stations": [
        {"station": "cap", "camera": "top", "model": "seals", "recipe": "small", "trouble": None},
        {"station": "ring", "camera": "top", "model": "gone", "recipe": None, "trouble": "it is\x1b[2J gone"},
    ],
    "cameras": [{"camera": "top", "state": "lost", "since": "2026-11-30T12:00:00Z", "text": "unplugged"}],
    "models": [
        {"model": "gone", "identity": None, "device": None, "backend": "openvino", "trouble": "no memory"}
    ],
    "last": {
        "what": "reload", "by": "SIGHUP", "at": "2026-11-30T12:00:00Z", "done": False, "changed": [],
        "mistakes": ["site.yaml:3:1: cameras: is missing"],
    },
}  # fmt: skip


@contextmanager
def answering(path: Path, **answer: Any) -> Iterator[list[Any]]:
    """A service that says just that; what it was asked."""
    listening, asked = socket.socket(socket.AF_UNIX), list[Any]()
    listening.bind(str(path))
    listening.listen(4)

    def serve() -> None:
        with listening.accept()[0] as asker:
            asked.append(json.loads(asker.recv(4096)))
            asker.sendall(json.dumps({"format": 1, "code": 0, "message": "", **answer}).encode() + b"\n")

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield asked
    finally:
        thread.join(10)
        listening.close()


def run(*arguments: str) -> Any:
    return CliRunner().invoke(cli, ["ctl", *arguments], standalone_mode=False)


@pytest.fixture
def sock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(tmp_path))
    return tmp_path / SOCKET


def test_status_says_what_runs_and_what_does_not_in_capitals(sock: Path) -> None:
    with answering(sock, status=STATUS):
        lines = run("status").stdout.splitlines()
    assert lines == [
        "edge-infer 0.1.0, running since 2026-11-30T12:00:00Z, process 7",
        (
            "runs: configuration 11 of /etc/s.yaml, sha256 abababababab, "
            "loaded 2026-11-30T12:00:00Z by ctl:anna"
        ),
        "station cap: camera top, model seals, recipe small",
        "station ring: camera top, model gone: JUDGES NOTHING: it is?[2J gone",
        "camera top: lost since 2026-11-30T12:00:00Z: unplugged",
        "model gone: CANNOT RUN: no memory",
        "last reload: 2026-11-30T12:00:00Z by SIGHUP: REFUSED: site.yaml:3:1: cameras: is missing",
    ]


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        (
            {"rolledBack": {"number": 12, "at": "2026-11-30T03:00:00Z", "by": "ctl:anna"}},
            (
                "ROLLED BACK from configuration 12 at 2026-11-30T03:00:00Z by ctl:anna: "
                "/etc/s.yaml DOES NOT RUN until it is changed and reloaded"
            ),
        ),
        ({"fileIs": "changed"}, "/etc/s.yaml WAS CHANGED since and is not loaded: edge-infer ctl reload"),
        ({"fileIs": "unreadable"}, "/etc/s.yaml CANNOT BE READ"),
        (
            {"number": None},
            (
                "runs: a configuration that the disk did not take, of /etc/s.yaml, "
                "sha256 abababababab, loaded 2026-11-30T12:00:00Z by ctl:anna"
            ),
        ),
        ({"nextStart": 9}, "FROM THE NEXT START ON configuration 9 runs: systemctl restart edge-infer"),
    ],
)
def test_status_cannot_be_misread_where_the_file_is_not_what_runs(
    sock: Path, keys: dict[str, Any], words: str
) -> None:
    status = STATUS | {"configuration": STATUS["configuration"] | keys}
    with answering(sock, status=status):
        assert words in run("status").stdout.splitlines()
    sock.unlink()
    with answering(sock, status=status):
        assert json.loads(run("status", "--json").stdout) == status


def test_mistakes_go_to_standard_error_and_the_exit_code_is_the_services(sock: Path) -> None:
    with answering(sock, code=78, message="1 mistake(s)", mistakes=["site.yaml:3:1: x: is wrong"]) as asked:
        done = run("reload")
    assert (done.return_value, done.stdout) == (78, "")
    assert done.stderr == "site.yaml:3:1: x: is wrong\n1 mistake(s)\n"
    assert asked == [{"format": 1, "do": "reload", "again": False, "number": None, "atRestart": False}]


def test_each_option_is_asked_for(sock: Path) -> None:
    for arguments, wanted in (
        (("reload", "--again"), {"do": "reload", "again": True}),
        (("rollback", "9"), {"do": "rollback", "number": 9}),
        (("rollback", "--at-restart"), {"do": "rollback", "number": None, "atRestart": True}),
    ):
        with answering(sock, changed=["stations.cap.rules"], message="configuration 9 runs") as asked:
            done = run(*arguments)
        assert done.return_value == 0
        assert done.stdout == "changed: stations.cap.rules\nconfiguration 9 runs\n"
        assert asked[0] | wanted == asked[0]
        sock.unlink()


def test_the_unit_is_asked_first_then_the_service_that_was_started_by_hand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RUNTIME_DIRECTORY", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("STATE_DIRECTORY", raising=False)
    monkeypatch.setattr(command, "UNIT", tmp_path / "unit")
    beside = tmp_path / ".local/state/edge-infer"
    beside.mkdir(parents=True)
    (tmp_path / "unit").mkdir()
    with answering(beside / SOCKET, message="by hand"):
        assert run("reload").stdout == "by hand\n"
    with answering(tmp_path / "unit" / SOCKET, message="the unit"):
        assert run("reload").stdout == "the unit\n"


@pytest.mark.parametrize(
    "text", ["state_dir: st\n", "state_dir: st\ncameras: [\n", "state_dir: st\nx: 1\nx: 2\n"]
)
def test_the_socket_of_a_file_is_found_as_far_as_it_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv("STATE_DIRECTORY", str(tmp_path / "default"))
    (tmp_path / "site.yaml").write_text(text)
    where = "default" if "[" in text else "st"
    done = run("status", "--config", str(tmp_path / "site.yaml"))
    assert isinstance(done.exception, EdgeInferError)
    assert str(tmp_path / where / SOCKET) in str(done.exception)
    # a file that does not say where its service listens is no proof that the service does not run
    assert ("does not run" in str(done.exception)) is (where == "st")
    if where == "default":
        assert "site.yaml:3:1" in str(done.exception)
        assert "--socket" in str(done.exception)


def test_the_units_service_is_not_told_as_one_that_does_not_run_where_its_file_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STATE_DIRECTORY", str(tmp_path / "default"))
    monkeypatch.setattr(command, "UNIT", tmp_path)
    (tmp_path / "site.yaml").write_text("format: 1\n")
    (tmp_path / SOCKET).touch()
    done = run("status", "--config", str(tmp_path / "site.yaml"))
    assert isinstance(done.exception, EdgeInferError)
    assert "does not run" not in str(done.exception)
    assert "the unit's service is asked without --config" in str(done.exception)
