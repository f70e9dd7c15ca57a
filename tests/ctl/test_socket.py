"""The running service's socket: real sockets, askers that misbehave, services that were killed."""

from __future__ import annotations

import getpass
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from edge_infer.ctl import server as serving
from edge_infer.ctl.client import ask
from edge_infer.ctl.protocol import LONGEST_REQUEST, SOCKET, Answer, Request
from edge_infer.ctl.server import ASKERS, Server, reachable
from edge_infer.errors import EdgeInferError

STATUS = Request(do="status")
Handle = Callable[[Request, str], Answer]


def who(request: Request, by: str) -> Answer:
    """Says what was asked by whom."""
    return Answer(code=0, message=f"{request.do} {by}")


@contextmanager
def served(path: Path, handle: Handle = who) -> Iterator[Server]:
    server = Server(path, handle)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def raw(path: Path, data: bytes) -> Any:
    """What is answered to these bytes."""
    with socket.socket(socket.AF_UNIX) as sock, reachable(path) as address:
        sock.settimeout(20)
        sock.connect(address)
        try:
            sock.sendall(data)
            sock.shutdown(socket.SHUT_WR)
        except BrokenPipeError:
            # it has read enough
            pass
        answer = b""
        while block := sock.recv(65536):
            answer += block
            time.sleep(0.05)  # a slow reader: by then the other side is closed
        return json.loads(answer)


def test_an_asker_is_known_by_the_kernels_word_not_by_his_own(tmp_path: Path) -> None:
    with served(tmp_path / SOCKET):
        assert ask(tmp_path / SOCKET, STATUS, 5)["message"].startswith(f"status ctl:{getpass.getuser()}")


def test_only_the_services_user_and_root_may_ask(tmp_path: Path) -> None:
    with served(tmp_path / SOCKET):
        assert (tmp_path / SOCKET).stat().st_mode & 0o777 == 0o600


def test_a_socket_in_a_deep_folder_can_be_used(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 100) / ("e" * 100)
    deep.mkdir(parents=True)
    with served(deep / SOCKET):
        assert ask(deep / SOCKET, STATUS, 5)["code"] == 0
    assert list(deep.iterdir()) == []


def test_what_a_killed_service_left_there_is_replaced(tmp_path: Path) -> None:
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(tmp_path / SOCKET))
    left.close()
    with pytest.raises(EdgeInferError, match="the service does not run"):
        ask(tmp_path / SOCKET, STATUS, 5)
    with served(tmp_path / SOCKET):
        assert ask(tmp_path / SOCKET, STATUS, 5)["code"] == 0


def test_a_second_service_does_not_take_the_socket_of_the_first(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with served(tmp_path / SOCKET, lambda *_: Answer(code=0, message="first")):
        with served(tmp_path / SOCKET, lambda *_: Answer(code=0, message="second")):
            assert ask(tmp_path / SOCKET, STATUS, 5)["message"] == "first"
        assert "another service listens there" in caplog.text
        assert ask(tmp_path / SOCKET, STATUS, 5)["message"] == "first", "nor takes it away at its end"


def test_a_folder_that_takes_no_socket_costs_only_the_socket(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with served(tmp_path / "gone" / SOCKET):
        assert "cannot reach this service" in caplog.text


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"x" * (LONGEST_REQUEST + 5000), "no line of at most"),
        (b'{"format": 2, "do": "status"}\n', "not a request of format 1"),
        (b'{"format": 1, "do": "shutdown"}\n', "not a request of format 1"),
        (b'{"do": "status", "more": 1}\n', "not a request of format 1"),
        (b"\xff\xfe\n", "not a request of format 1"),
        (b'{"do": "status"}', "the line has no end"),
        (b"", "the line has no end"),
    ],
)
def test_what_is_no_request_is_answered_so(tmp_path: Path, data: bytes, words: str) -> None:
    with served(tmp_path / SOCKET):
        answer = raw(tmp_path / SOCKET, data)
        assert answer["code"] == 1
        assert words in answer["message"]
        assert ask(tmp_path / SOCKET, STATUS, 5)["code"] == 0


def test_an_asker_who_says_nothing_is_let_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "READ_S", 0.2)
    with served(tmp_path / SOCKET), socket.socket(socket.AF_UNIX) as silent:
        silent.connect(str(tmp_path / SOCKET))
        assert ask(tmp_path / SOCKET, STATUS, 5)["code"] == 0, "he holds up nobody"
        silent.settimeout(20)
        assert b"no request came" in silent.recv(4096)


def test_more_askers_than_there_is_room_for_are_told(tmp_path: Path) -> None:
    go, busy = threading.Event(), threading.Semaphore(0)

    def slow(_request: Request, _by: str) -> Answer:
        busy.release()
        assert go.wait(20)
        return Answer(code=0, message="done")

    answers: list[Any] = []
    with served(tmp_path / SOCKET, slow):
        askers = [
            threading.Thread(target=lambda: answers.append(ask(tmp_path / SOCKET, STATUS, 20)))
            for _ in range(ASKERS)
        ]
        for asker in askers:
            asker.start()
        for _ in askers:
            assert busy.acquire(timeout=20)
        assert "too many ask at once" in ask(tmp_path / SOCKET, STATUS, 5)["message"]
        go.set()
        for asker in askers:
            asker.join(20)
    assert [one["message"] for one in answers] == ["done"] * ASKERS


def test_a_bug_behind_the_socket_is_told_and_the_next_asker_is_heard(tmp_path: Path) -> None:
    def broken(_request: Request, _by: str) -> Answer:
        raise ZeroDivisionError

    with served(tmp_path / SOCKET, broken):
        for _ in range(ASKERS + 1):
            assert ask(tmp_path / SOCKET, STATUS, 5)["code"] == 3


def test_an_asker_hears_that_the_service_ended_before_it_answered(tmp_path: Path) -> None:
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(tmp_path / SOCKET))
    listening.listen(1)

    def hang_up() -> None:
        asker, _ = listening.accept()
        asker.recv(100)
        asker.close()

    thread = threading.Thread(target=hang_up)
    thread.start()
    with pytest.raises(EdgeInferError, match="ended before it answered"):
        ask(tmp_path / SOCKET, STATUS, 5)
    thread.join(5)
    with pytest.raises(EdgeInferError, match="did not answer within"):
        ask(tmp_path / SOCKET, STATUS, 0.2)
    listening.close()


def test_after_the_stop_nobody_listens(tmp_path: Path) -> None:
    with served(tmp_path / SOCKET) as server:
        server.stop()
        with pytest.raises(EdgeInferError, match="the service does not run"):
            ask(tmp_path / SOCKET, STATUS, 5)
        server._thread.join(5)
        assert not server._thread.is_alive()
    assert list(tmp_path.iterdir()) == []


def test_an_asker_waits_his_turn_before_a_full_queue(tmp_path: Path) -> None:
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(tmp_path / SOCKET))
    listening.listen(0)
    first = socket.socket(socket.AF_UNIX)
    first.connect(str(tmp_path / SOCKET))
    answers: list[Any] = []
    thread = threading.Thread(target=lambda: answers.append(ask(tmp_path / SOCKET, STATUS, 20)))
    thread.start()
    thread.join(0.2)
    assert thread.is_alive()
    first.close()
    for _ in range(2):
        asker, _ = listening.accept()
        if asker.recv(1000):
            asker.sendall(b'{"format": 1, "code": 0}\n')
        asker.close()
    thread.join(20)
    listening.close()
    assert answers == [{"format": 1, "code": 0}]
