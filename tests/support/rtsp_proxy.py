"""A network between an RTSP camera and its reader that holds things up or loses them (RTSP over TCP)."""

from __future__ import annotations

import random
import socket
import threading
from contextlib import suppress

_VIDEO = 0
"""The channel of the video's RTP in a stream that shares its connection with RTSP (RFC 2326, 10.12)."""


class RtspProxy:
    """Passes everything on, but keeps what the camera sends while told to, and loses ``loss`` of the packets.

    It counts neither the connection's beginning nor what is not video among what may get lost.
    """

    def __init__(self, camera_port: int, *, loss: float = 0.0, seed: int = 1) -> None:
        self._camera_port = camera_port
        self._random = random.Random(seed)  # noqa: S311 - the same losses in each run
        self.loss = loss
        self.lost = 0
        self._flowing = threading.Event()
        self._flowing.set()
        self._open = threading.Event()
        self._open.set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        return f"rtsp://127.0.0.1:{self.port}/cam"

    def hold(self) -> None:
        self._flowing.clear()

    def release(self) -> None:
        self._flowing.set()

    def close(self) -> None:
        self._flowing.set()
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                reader, _ = self._listener.accept()
                camera = socket.create_connection(("127.0.0.1", self._camera_port))
                threading.Thread(target=self._pass, args=(reader, camera, self._open), daemon=True).start()
                threading.Thread(
                    target=self._pass, args=(camera, reader, self._flowing, _Packets(self)), daemon=True
                ).start()

    def loses(self) -> bool:
        """Whether the next packet of video gets lost."""
        gone = self._random.random() < self.loss
        self.lost += gone
        return gone

    @staticmethod
    def _pass(
        sender: socket.socket,
        receiver: socket.socket,
        may_flow: threading.Event,
        packets: _Packets | None = None,
    ) -> None:
        with suppress(OSError):
            while data := sender.recv(65536):
                may_flow.wait()
                receiver.sendall(data if packets is None else packets.without_lost(data))
        with suppress(OSError):
            receiver.shutdown(socket.SHUT_RDWR)
        sender.close()


class _Packets:
    """Takes what a camera sends apart: answers of RTSP as text, and packets of ``$``, channel, length."""

    def __init__(self, proxy: RtspProxy) -> None:
        self._proxy = proxy
        self._rest = b""

    def without_lost(self, data: bytes) -> bytes:
        """What of it is complete."""
        self._rest += data
        passed = bytearray()
        while (length := self._length()) is not None:
            piece, self._rest = self._rest[:length], self._rest[length:]
            if not (piece.startswith(b"$") and piece[1] == _VIDEO and self._proxy.loses()):
                passed += piece
        return bytes(passed)

    def _length(self) -> int | None:
        """Of the first piece; None while it is not complete."""
        rest = self._rest
        if rest.startswith(b"$"):
            length = 4 + int.from_bytes(rest[2:4], "big") if len(rest) >= 4 else None
        elif (head := rest.find(b"\r\n\r\n")) < 0:
            length = None
        else:
            fields = dict(line.lower().split(b":", 1) for line in rest[:head].splitlines()[1:])
            length = head + 4 + int(fields.get(b"content-length", b"0"))
        return None if length is None or length > len(rest) else length
