"""Serves one page over HTTP. Read-only, and nothing that a client does holds anybody else up."""

from __future__ import annotations

import logging
import os
import selectors
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

log = logging.getLogger(__name__)

PATH = "/metrics"
CLIENTS = 16
"""Connections at once; for one more the oldest is closed."""
CLIENT_S = 5.0
"""From connecting until the whole answer is taken; later it is closed."""
REQUEST_BYTES = 8192
PAUSE_S = 0.05
"""After a connection that could not be accepted."""
FRESH_S = 0.5
"""A page is made at most so often, however many ask."""
RETRY_S = 2.0
"""How often a port that is in use is tried again."""
IDLE_S = 30.0
"""How often `idle` is called while nobody asks."""


@dataclass(slots=True, eq=False)
class _Client:
    sock: socket.socket
    until_s: float
    request: bytearray = field(default_factory=bytearray)
    answer: memoryview = field(default_factory=lambda: memoryview(b""))


class Server:
    """One thread for all clients."""

    def __init__(
        self,
        address: str,
        port: int,
        page: Callable[[], bytes],
        content_type: str,
        *,
        changed: Callable[[str | None], None],
        idle: Callable[[], object],
        retry_s: float = RETRY_S,
    ) -> None:
        """``changed`` with why it cannot be served, with None once it can be after that; not at each try."""
        self._address, self._port = address, port
        self._page = page
        self._content_type = content_type
        self._changed = changed
        self._idle = idle
        self._retry_s = retry_s
        self._failed = False
        self._page_failed = False
        self._page_now: bytes | None = None
        self._page_until_s = 0.0
        self._clients: dict[int, _Client] = {}
        self._stopping = False
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._thread = threading.Thread(target=self._run, name="metrics-http", daemon=True)

    def start(self) -> None:
        """Listen as soon as the port is free."""
        self._thread.start()

    def stop(self, timeout_s: float) -> bool:
        """Close the port and all connections; False where a page that is being made does not end."""
        self._stopping = True
        if self._thread.is_alive():
            os.eventfd_write(self._wake, 1)
            self._thread.join(timeout_s)
            if not self._thread.is_alive():
                os.close(self._wake)
        return not self._thread.is_alive()

    def _run(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._wake, selectors.EVENT_READ)
            while not self._stopping:
                listener = self._listen()
                if listener is None:
                    selector.select(self._retry_s)
                    self._idle()
                    continue
                with listener:
                    selector.register(listener, selectors.EVENT_READ)
                    try:
                        self._serve(selector, listener)
                    except Exception as error:
                        # numbers are never worth the inspection; in a moment it listens again
                        log.exception("a bug in the server of metrics")
                        self._fail(f"a bug in edge-infer: {type(error).__name__}: {error}")
                    finally:
                        selector.unregister(listener)
                        for client in list(self._clients.values()):
                            self._close(selector, client)
                if not self._stopping:
                    selector.select(self._retry_s)

    def _listen(self) -> socket.socket | None:
        try:
            listener = _listening(self._address, self._port)
        except OSError as error:
            self._fail(f"cannot listen on {self._address} port {self._port}: {error.strerror or error}")
            return None
        if self._failed:
            self._failed = False
            self._changed(None)
        return listener

    def _fail(self, why: str) -> None:
        if not self._failed:
            self._failed = True
            self._changed(why)

    def _serve(self, selector: selectors.BaseSelector, listener: socket.socket) -> None:
        idle_s = time.monotonic()
        while not self._stopping:
            now_s = time.monotonic()
            if now_s >= idle_s:
                self._idle()
                idle_s = now_s + IDLE_S
            wait_s = min([idle_s, *(client.until_s for client in self._clients.values())]) - now_s
            for key, _ in selector.select(max(0.0, wait_s)):
                if key.fileobj is listener:
                    self._accept(selector, listener)
                elif isinstance(key.data, _Client) and key.fd in self._clients:
                    self._go_on(selector, key.data)
            now_s = time.monotonic()
            for client in [one for one in self._clients.values() if one.until_s <= now_s]:
                self._close(selector, client)

    def _accept(self, selector: selectors.BaseSelector, listener: socket.socket) -> None:
        try:
            sock, _ = listener.accept()
        except OSError:
            # it has gone; or no file descriptor is left, and what waits would be seen again at once, for ever
            time.sleep(PAUSE_S)
            return
        if len(self._clients) >= CLIENTS:
            # a scrape is over in milliseconds: whoever is here longest is none
            self._close(selector, next(iter(self._clients.values())))
        sock.setblocking(False)
        client = _Client(sock, time.monotonic() + CLIENT_S)
        self._clients[sock.fileno()] = client
        selector.register(sock, selectors.EVENT_READ, client)

    def _go_on(self, selector: selectors.BaseSelector, client: _Client) -> None:
        try:
            if not client.answer:
                received = client.sock.recv(REQUEST_BYTES)
                client.request += received
                if not received:
                    self._close(selector, client)
                elif (answer := self._answer(bytes(client.request))) is not None:
                    client.answer = memoryview(answer)
                    selector.modify(client.sock, selectors.EVENT_WRITE, client)
                return
            client.answer = client.answer[client.sock.send(client.answer) :]
            if not client.answer:
                self._close(selector, client)
        except BlockingIOError:
            return
        except OSError:
            # it has gone
            self._close(selector, client)

    def _close(self, selector: selectors.BaseSelector, client: _Client) -> None:
        del self._clients[client.sock.fileno()]
        selector.unregister(client.sock)
        client.sock.close()

    def _answer(self, request: bytes) -> bytes | None:
        """None while the request is not whole."""
        if b"\r\n\r\n" not in request and b"\n\n" not in request:
            too_long = len(request) >= REQUEST_BYTES
            return _error("431 Request Header Fields Too Large") if too_long else None
        words = request.split(b"\n", 1)[0].split()
        if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
            return _error("400 Bad Request")
        method, target = words[0], words[1].partition(b"?")[0]
        if target != PATH.encode():
            return _error("404 Not Found")
        if method != b"GET":
            return _error("405 Method Not Allowed", "Allow: GET\r\n")
        page = self._made()
        return (
            _error("500 Internal Server Error")
            if page is None
            else _whole("200 OK", self._content_type, page)
        )

    def _made(self) -> bytes | None:
        """A page, the same for all who ask within a moment; None where a bug keeps it from being made."""
        now_s = time.monotonic()
        if self._page_now is None or now_s >= self._page_until_s:
            try:
                self._page_now = self._page()
                self._page_failed = False
            except Exception:
                # numbers are never worth the inspection
                self._page_now = None
                if not self._page_failed:
                    self._page_failed = True
                    log.exception("the metrics cannot be read")
            self._page_until_s = now_s + FRESH_S
        return self._page_now


def _listening(address: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, port))
        # some more: those that connect at once must not try again after a second
        listener.listen(8 * CLIENTS)
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener


def _whole(status: str, content_type: str, body: bytes, more: str = "") -> bytes:
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n"
        f"{more}Connection: close\r\n\r\n"
    )
    return head.encode("ascii") + body


def _error(status: str, more: str = "") -> bytes:
    return _whole(status, "text/plain; charset=utf-8", f"{status}; ask for GET {PATH}\n".encode(), more)
