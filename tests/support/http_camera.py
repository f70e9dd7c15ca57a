"""A camera with a web server, on real sockets: a stream of MJPEG at ``/mjpeg``, a picture at ``/snapshot``.

Each picture has the clock and a counter burned in, as the RTSP camera's have.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from urllib.request import parse_http_list, parse_keqv_list

import cv2
import numpy as np

from tests.support.rtsp_camera import BITS, BLACK, CELL, HEIGHT, WHITE, WIDTH, _checksum

STREAM_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: multipart/x-mixed-replace; boundary=frame\r\n\r\n"
NONCE = "dcd98b7102dd2f0e"


@dataclass(frozen=True)
class Manner:
    """How a stream is written."""

    length: bool = True
    """Content-Length of each part."""
    wrong_by: int = 0
    """Added to it."""
    declared: str = "boundary=frame"
    line: bytes = b"--frame"
    newline: bytes = b"\r\n"
    preamble: bytes = b""
    chunked: int = 0
    """Bytes of a chunk."""
    after: bool = False
    """The boundary comes with the end of a picture, not with the next one."""
    stamp: Callable[[float], str] | None = None
    headers: bool = True
    padding: bytes = b""
    """Behind each picture."""
    texts: bool = False
    """A part that is no picture after each picture."""


class HttpCamera:
    """A running camera. Use it as a context manager; it ends with the test."""

    def __init__(
        self,
        manner: Manner | None = None,
        *,
        fps: float = 20,
        user: str | None = None,
        password: str = "",
        schemes: tuple[str, ...] = ("Digest MD5",),
        tls: tuple[str, str] | None = None,
        snapshot: bytes | None = None,
        snapshot_headers: bytes = b"",
        keeps: bool = True,
    ) -> None:
        """``tls``: files of certificate and key. ``keeps``: the connection lives on after a snapshot."""
        self.manner = manner or Manner()
        self.spoil: Callable[[bytes, int], bytes] = lambda data, _: data
        """What becomes of a picture on its way, by its number."""
        self.requests: list[str] = []
        """First lines, in order."""
        self.accepted = 0
        """Connections."""
        self._fps = fps
        self._user, self._password, self._schemes = user, password, schemes
        self._snapshot, self._snapshot_headers, self._keeps = snapshot, snapshot_headers, keeps
        self._context: ssl.SSLContext | None = None
        if tls is not None:
            self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._context.load_cert_chain(*tls)
        self._flowing = threading.Event()
        self._flowing.set()
        self._nonces = 0
        self._count = 0
        self._lock = threading.Lock()
        self._connections: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self.port = 0
        self.start()

    def url(self, path: str = "/mjpeg") -> str:
        scheme = "http" if self._context is None else "https"
        return f"{scheme}://127.0.0.1:{self.port}{path}"

    def start(self) -> None:
        """Again at the same port."""
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def freeze(self) -> None:
        """Nothing comes any more, the connections stay."""
        self._flowing.clear()

    def thaw(self) -> None:
        self._flowing.set()

    def forget_nonces(self) -> None:
        """Every login is stale now."""
        self._nonces += 1

    def kill(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.drop()

    def drop(self) -> None:
        """Only the connections."""
        with self._lock:
            for one in self._connections:
                with suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)
            self._connections.clear()

    def __enter__(self) -> HttpCamera:
        return self

    def __exit__(self, *_: object) -> None:
        self._flowing.set()
        self.kill()
        for thread in self._threads:
            thread.join(5)

    # -- a connection

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                self.accepted += 1
                thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
                self._threads.append(thread)
                thread.start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            with suppress(OSError):
                if self._context is not None:
                    connection.settimeout(5)
                    connection = self._context.wrap_socket(connection, server_side=True)
                with self._lock:
                    self._connections.add(connection)
                while self._answer(connection):
                    pass
        finally:
            connection.close()
            with self._lock:
                self._connections.discard(connection)

    def _answer(self, connection: socket.socket) -> bool:
        """One request; whether another may follow."""
        request = b""
        while b"\r\n\r\n" not in request:
            if not (data := connection.recv(4096)):
                return False
            request += data
            if not b"GET ".startswith(request[:4]):
                connection.sendall(b"HTTP/1.1 400 No\r\nContent-Length: 0\r\n\r\n")
                return False
        head = request.decode("latin-1")
        first, path = head.partition("\r\n")[0], head.split()[1].partition("?")[0]
        self.requests.append(first)
        if self._user is not None and (challenge := self._challenge(head)) is not None:
            connection.sendall(b"HTTP/1.1 401 No\r\n" + challenge + b"Content-Length: 0\r\n\r\n")
            return False
        if path == "/snapshot":
            return self._send_snapshot(connection)
        if path == "/mjpeg":
            self._stream(connection)
        elif path == "/silent":
            connection.recv(1)
        elif path == "/drip":
            self._drip(connection, b"HTTP/1.1 200 OK\r\n" + b"X-More: 1\r\n" * 99)
        elif path == "/drip-picture":
            connection.sendall(STREAM_HEAD)
            self._drip(connection, b"--frame\r\n\r\n" + self._picture()[1])
        elif path == "/endless":
            connection.sendall(STREAM_HEAD + b"--frame\r\n" + (b"" if "headers" in first else b"\r\n"))
            while True:
                connection.sendall(b"\xff\xd8" + b"x" * 1_000_000)
        else:
            connection.sendall(self._fixed(first, path))
        return False

    @staticmethod
    def _fixed(first: str, path: str) -> bytes:
        if path.startswith("/redirect/"):
            place = first.partition("?")[2].partition(" ")[0]
            return f"HTTP/1.1 302 Go\r\nLocation: {place}\r\nContent-Length: 0\r\n\r\n".encode()
        if path == "/page":
            return b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<html>log in</html>"
        if path == "/garbage":
            return b"SSH-2.0-OpenSSH_9.2\r\n"
        status = path[8:] if path.startswith("/status/") else "404"
        return f"HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n".encode()

    @staticmethod
    def _drip(connection: socket.socket, data: bytes) -> None:
        for at in range(len(data)):
            connection.sendall(data[at : at + 1])
            time.sleep(0.05)

    def _send_snapshot(self, connection: socket.socket) -> bool:
        self._flowing.wait()
        body = self._snapshot if self._snapshot is not None else self._picture()[1]
        head = b"HTTP/1.1 200 OK\r\nContent-Type: image/jpeg\r\n" + self._snapshot_headers
        head += f"Content-Length: {len(body)}\r\n".encode() + (
            b"" if self._keeps else b"Connection: close\r\n"
        )
        connection.sendall(head + b"\r\n" + self.spoil(body, self._count))
        return self._keeps

    def _picture(self) -> tuple[float, bytes]:
        with self._lock:
            self._count += 1
            count = self._count
        now_s = time.monotonic()
        return now_s, draw(now_s, count)

    def _stream(self, connection: socket.socket) -> None:
        manner, end = self.manner, self.manner.newline
        head = (
            b"HTTP/1.1 200 OK" + end + f"Content-Type: multipart/x-mixed-replace; {manner.declared}".encode()
        )
        head += end + (b"Transfer-Encoding: chunked" + end if manner.chunked else b"") + end
        connection.sendall(head)

        def send(data: bytes) -> None:
            if not manner.chunked:
                connection.sendall(data)
                return
            for at in range(0, len(data), manner.chunked):
                piece = data[at : at + manner.chunked]
                connection.sendall(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")

        send(manner.preamble)
        opening = manner.line + end
        if manner.after:
            send(opening)
        started, number = time.monotonic(), 0
        while True:
            time.sleep(max(0.0, started + number / self._fps - time.monotonic()))
            number += 1
            self._flowing.wait()
            drawn_s, picture = self._picture()
            picture = self.spoil(picture, number)
            part = b"" if manner.after else opening
            if manner.headers:
                part += b"Content-Type: image/jpeg" + end
            if manner.length:
                part += f"Content-Length: {len(picture) + manner.wrong_by}".encode() + end
            if manner.stamp is not None:
                part += f"X-Timestamp: {manner.stamp(drawn_s)}".encode() + end
            part += end + picture + manner.padding + end
            if manner.texts:
                part += opening + b"Content-Type: text/plain" + end + end + b"motion: 0" + end
            send(part + (opening if manner.after else b""))

    # -- who may

    def _challenge(self, head: str) -> bytes | None:
        """What to say to somebody who has not shown that he knows the password."""
        given = re.search(r"(?im)^Authorization: (.*?)\r$", head)
        if given is not None:
            scheme, _, rest = given[1].partition(" ")
            right = base64.b64encode(f"{self._user}:{self._password}".encode()).decode()
            if scheme == "Basic" and "Basic" in self._schemes and rest == right:
                return None
            if scheme == "Digest" and self._is_right(parse_keqv_list(parse_http_list(rest))):
                return None
        nonce = f"{NONCE}{self._nonces}"
        stale = ", stale=true" if given is not None and self._nonces else ""
        lines = b""
        for one in self._schemes:
            kind, _, algorithm = one.partition(" ")
            if kind == "Basic":
                lines += b'WWW-Authenticate: Basic realm="cam"\r\n'
            else:
                lines += (
                    f'WWW-Authenticate: Digest realm="cam, \\"front\\"", qop="auth,auth-int", '
                    f'nonce="{nonce}", opaque="5ccc069c", algorithm={algorithm}{stale}\r\n'
                ).encode()
        return lines

    def _is_right(self, fields: dict[str, str]) -> bool:
        algorithm = fields.get("algorithm", "MD5")
        if f"Digest {algorithm}" not in self._schemes or fields["nonce"] != f"{NONCE}{self._nonces}":
            return False
        sum_of = hashlib.sha256 if algorithm == "SHA-256" else hashlib.md5
        ha1 = sum_of(f'{self._user}:cam, "front":{self._password}'.encode()).hexdigest()
        ha2 = sum_of(f"GET:{fields['uri']}".encode()).hexdigest()
        whole = ":".join((ha1, fields["nonce"], fields["nc"], fields["cnonce"], "auth", ha2))
        return fields["response"] == sum_of(whole.encode()).hexdigest() and fields["opaque"] == "5ccc069c"


@functools.cache
def _background() -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    noise = np.random.default_rng(1).integers(80, 140, (HEIGHT // 8, WIDTH // 8), np.uint8)
    return np.repeat(np.repeat(noise, 8, 0), 8, 1)


def draw(time_s: float, count: int) -> bytes:
    """A JPEG with what `read_stamp` reads."""
    picture = _background().copy()
    first = int(time_s * 1000) & (1 << BITS) - 1
    second = count & 0xFFFFFF | _checksum(first, count & 0xFFFFFF) << 24
    for row, value in ((0, first), (CELL, second)):
        for bit in range(BITS):
            picture[row : row + CELL, bit * CELL : (bit + 1) * CELL] = WHITE if value >> bit & 1 else BLACK
    return cv2.imencode(".jpg", picture, [cv2.IMWRITE_JPEG_QUALITY, 85])[1].tobytes()
