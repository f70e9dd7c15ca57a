from __future__ import annotations

import errno
import http.client
import resource
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from edge_infer.metrics import server as module
from edge_infer.metrics.server import CLIENTS, REQUEST_BYTES, Server
from tests.support.mosquitto import free_port

PAGE = b"edge_infer_up 1\n"
GET = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"


class Served:
    """One server and what it said."""

    def __init__(
        self, page: Callable[[], bytes] = lambda: PAGE, *, host: str = "127.0.0.1", retry_s: float = 10
    ) -> None:
        self.host, self.port = host, free_port()
        self.said: list[str | None] = []
        self.idle = 0
        self.changed = threading.Condition()
        self.server = Server(
            host, self.port, page, "text/plain", changed=self._changed, idle=self._idle, retry_s=retry_s
        )

    def _changed(self, why: str | None) -> None:
        with self.changed:
            self.said.append(why)
            self.changed.notify_all()

    def _idle(self) -> None:
        self.idle += 1

    def wait(self, count: int, timeout_s: float = 10) -> None:
        """Until so much was said."""
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.said) >= count, timeout_s), self.said

    def until(self, condition: Callable[[], bool], timeout_s: float = 10) -> None:
        """Of what its thread does."""
        until_s = time.monotonic() + timeout_s
        while not condition():
            assert time.monotonic() < until_s
            time.sleep(0.01)

    def connect(self) -> socket.socket:
        """A client of its own."""
        until_s = time.monotonic() + 5
        while True:
            try:
                return socket.create_connection((self.host, self.port), timeout=5)
            except ConnectionRefusedError:
                # its thread has not come so far
                assert time.monotonic() < until_s
                time.sleep(0.01)

    def ask(self, request: bytes = GET) -> bytes:
        """All of the answer."""
        with self.connect() as client:
            client.sendall(request)
            return everything(client)


def everything(client: socket.socket) -> bytes:
    """Until the server closes."""
    parts = []
    try:
        while part := client.recv(65536):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)


@contextmanager
def serving(page: Callable[[], bytes] = lambda: PAGE) -> Iterator[Served]:
    one = Served(page)
    one.server.start()
    try:
        yield one
    finally:
        assert one.server.stop(2)


def test_get_metrics_gives_the_page_to_any_http_client() -> None:
    with serving() as one:
        one.connect().close()
        client = http.client.HTTPConnection(one.host, one.port, timeout=5)
        for target in ("/metrics", "/metrics?name[]=x"):
            client.request("GET", target)
            answer = client.getresponse()
            assert (answer.status, answer.read()) == (200, PAGE)
            assert answer.headers["Content-Type"] == "text/plain"
        client.close()


def test_it_is_served_on_ipv6_too() -> None:
    one = Served(host="::1")
    one.server.start()
    try:
        assert one.ask().endswith(PAGE)
    finally:
        assert one.server.stop(2)


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", b"404"),
        (b"GET /metrics/ HTTP/1.1\r\n\r\n", b"404"),
        (b"GET /metrics/../../../etc/passwd HTTP/1.1\r\n\r\n", b"404"),
        (b"GET /%6detrics HTTP/1.1\r\n\r\n", b"404"),
        (b"GET http://elsewhere/metrics HTTP/1.1\r\n\r\n", b"404"),
        (b"POST /metrics HTTP/1.1\r\n\r\n", b"405"),
        (b"DELETE /metrics HTTP/1.1\r\n\r\n", b"405"),
        (b"PUT /etc HTTP/1.1\r\n\r\n", b"404"),
        (b"GET /metrics\r\n\r\n", b"400"),
        (b"GET  HTTP/1.1\r\n\r\n", b"400"),
        (b"\r\n\r\n", b"400"),
        (b"\x16\x03\x01\x02\x00\x01\x00\n\n", b"400"),
        (b"GET /metrics HTTP/1.1\r\n" + b"A: b\r\n" * 2000, b"431"),
        (b"x" * REQUEST_BYTES, b"431"),
    ],
)
def test_nothing_else_is_answered_with_more_than_a_refusal(request_: bytes, status: bytes) -> None:
    with serving() as one:
        answer = one.ask(request_)
        # the kernel takes an answer back where more comes than was read
        assert answer.startswith(b"HTTP/1.1 " + status) or (status == b"431" and answer == b"")
        assert PAGE not in answer
        assert one.ask().endswith(PAGE)


def test_a_request_may_come_in_pieces() -> None:
    with serving() as one, one.connect() as client:
        for at in range(len(GET)):
            client.sendall(GET[at : at + 1])
        assert everything(client).endswith(PAGE)


def test_clients_that_say_nothing_hold_nobody_up_and_are_sent_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CLIENT_S", 1.5)
    with serving() as one, ExitStack() as stack:
        silent = [stack.enter_context(one.connect()) for _ in range(CLIENTS - 1)]
        for client in silent:
            client.sendall(b"GET /met")
        began_s = time.monotonic()
        assert one.ask().endswith(PAGE)
        assert time.monotonic() - began_s < 1.2
        for client in silent:
            assert everything(client) == b""
        assert time.monotonic() - began_s < 8


def test_one_that_sends_a_byte_now_and_then_is_sent_away_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "CLIENT_S", 0.4)
    with serving() as one, one.connect() as client:
        until_s = time.monotonic() + 5
        with suppress(ConnectionError):
            while time.monotonic() < until_s:
                client.sendall(b"G")
                time.sleep(0.05)
        assert time.monotonic() < until_s


def test_one_that_does_not_take_its_answer_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CLIENT_S", 0.5)
    large = b"#" * 20_000_000
    with serving(lambda: large) as one, one.connect() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.sendall(GET)
        assert one.ask().endswith(large)
        one.until(lambda: one.server._clients == {})


def test_more_clients_than_may_be_there_push_out_the_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CLIENT_S", 60)
    with serving() as one, ExitStack() as stack:
        clients = [stack.enter_context(one.connect()) for _ in range(4 * CLIENTS)]
        assert one.ask().endswith(PAGE)
        for client in clients[: 3 * CLIENTS]:
            assert everything(client) == b""
        assert len(one.server._clients) <= CLIENTS


def test_however_many_ask_a_page_is_made_only_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FRESH_S", 30)
    made: list[int] = []

    def page() -> bytes:
        made.append(1)
        return PAGE

    with serving(page) as one:
        for _ in range(50):
            assert one.ask().endswith(PAGE)
    assert len(made) == 1


def test_a_bug_in_a_number_costs_that_page_only_and_is_logged_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "FRESH_S", 0)
    broken = threading.Event()
    broken.set()

    def page() -> bytes:
        if broken.is_set():
            raise RuntimeError("a bug")
        return PAGE

    with serving(page) as one:
        for _ in range(3):
            assert one.ask().startswith(b"HTTP/1.1 500")
        broken.clear()
        assert one.ask().endswith(PAGE)
    assert sum("cannot be read" in record.getMessage() for record in caplog.records) == 1


def test_a_port_in_use_is_said_once_and_served_once_it_is_free() -> None:
    one = Served(retry_s=0.1)
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind((one.host, one.port))
        other.listen()
        one.server.start()
        one.wait(1)
        # it has tried again, and again
        one.until(lambda: one.idle >= 2)
        assert len(one.said) == 1
        assert f"port {one.port}: Address already in use" in str(one.said[0])
    one.wait(2)
    assert one.said[1] is None
    assert one.ask().endswith(PAGE)
    assert one.server.stop(2)


def test_a_stop_does_not_wait_for_clients_and_frees_the_port_at_once() -> None:
    one = Served()
    one.server.start()
    with one.connect() as client:
        client.sendall(b"GET /met")
        began_s = time.monotonic()
        assert one.server.stop(2)
        assert time.monotonic() - began_s < 1.5
        assert everything(client) == b""
    with socket.socket() as again:
        again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        again.bind((one.host, one.port))


def test_a_process_without_free_file_descriptors_does_not_spin() -> None:
    one = Served()

    class Full(socket.socket):
        asked = 0

        def accept(self) -> tuple[socket.socket, object]:
            Full.asked += 1
            raise OSError(errno.EMFILE, "Too many open files")

    def listen() -> socket.socket:
        listener = Full()
        listener.bind((one.host, one.port))
        listener.listen()
        return listener

    one.server._listen = listen  # type: ignore[method-assign] # the kernel says it only to a process that is full
    one.server.start()
    with one.connect():
        time.sleep(0.5)
        assert 1 <= Full.asked < 20
        assert one.server.stop(2)


def test_a_process_without_a_free_file_descriptor_serves_again_once_it_has_one() -> None:
    one = Served(retry_s=0.05)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with socket.create_server((one.host, one.port)):
        one.server.start()
        one.wait(1)
        with Path("/dev/null").open("rb") as lowest:
            free = lowest.fileno()
        tried = one.idle
        resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
        try:
            one.until(lambda: one.idle > tried + 2)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    one.wait(2)
    assert one.said[1] is None
    assert one.ask().endswith(PAGE)
    assert one.server.stop(2)


def test_one_that_was_never_started_can_be_stopped() -> None:
    assert Served().server.stop(1)


def test_a_stop_does_not_wait_for_a_page_that_hangs() -> None:
    hangs = threading.Event()

    def page() -> bytes:
        hangs.wait(10)
        return PAGE

    one = Served(page)
    one.server.start()
    with one.connect() as client:
        client.sendall(GET)
        time.sleep(0.1)
        began_s = time.monotonic()
        assert not one.server.stop(0.2)
        assert time.monotonic() - began_s < 1
        hangs.set()
        one.server._thread.join(5)


def test_a_clients_sudden_end_is_nothing() -> None:
    with serving() as one:
        for _ in range(20):
            client = one.connect()
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            client.sendall(GET[:9])
            client.close()
        assert one.ask().endswith(PAGE)


def test_numbers_that_must_be_looked_at_often_are_though_nobody_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "IDLE_S", 0.05)
    with serving() as one:
        one.until(lambda: one.idle >= 3)
