"""A broker that does what a real one will not do on demand; speaks just enough MQTT 5."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable

CONNECT, CONNACK, PUBLISH, PUBACK, PINGREQ, DISCONNECT = 1, 2, 3, 4, 12, 14

OK = bytes([CONNACK << 4, 3, 0, 0, 0])
"""CONNACK without properties."""


def allowing(receive_maximum: int) -> bytes:
    """CONNACK with that ReceiveMaximum."""
    return bytes([CONNACK << 4, 6, 0, 0, 3, 0x21, *receive_maximum.to_bytes(2, "big")])


def leaving(reason: int) -> bytes:
    """DISCONNECT with that reason."""
    return bytes([DISCONNECT << 4, 2, reason, 0])


def acknowledging(packet: bytes) -> bytes:
    """PUBACK for a PUBLISH."""
    length = int.from_bytes(packet[:2], "big")
    return bytes([PUBACK << 4, 2]) + packet[2 + length : 4 + length]


class FakeBroker:
    """``answer(kind, body)`` says what is sent for a packet; None closes the connection."""

    def __init__(self, answer: Callable[[int, bytes], bytes | None]) -> None:
        self.host = "127.0.0.1"
        self.user, self.password = "edge-infer", "x"
        self.received: list[tuple[int, bytes]] = []
        self._answer = answer
        self._listener = socket.create_server((self.host, 0))
        self.port = int(self._listener.getsockname()[1])
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> FakeBroker:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(5)

    def _run(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(5)
                try:
                    self._serve(connection)
                except OSError:
                    continue

    def _serve(self, connection: socket.socket) -> None:
        while packet := _read(connection):
            self.received.append(packet)
            answer = self._answer(*packet)
            if answer is None:
                return
            connection.sendall(answer)


def _read(connection: socket.socket) -> tuple[int, bytes] | None:
    first = connection.recv(1)
    if not first:
        return None
    length = shift = 0
    while True:
        byte = connection.recv(1)[0]
        length |= (byte & 127) << shift
        shift += 7
        if not byte & 128:
            break
    body = b""
    while len(body) < length:
        body += connection.recv(length - len(body))
    return first[0] >> 4, body
