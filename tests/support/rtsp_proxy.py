"""A network between an RTSP camera and its reader that holds things up (RTSP over TCP)."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress


class RtspProxy:
    """Passes everything on, but keeps what the camera sends while told to."""

    def __init__(self, camera_port: int) -> None:
        self._camera_port = camera_port
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
                threading.Thread(target=self._pass, args=(camera, reader, self._flowing), daemon=True).start()

    @staticmethod
    def _pass(sender: socket.socket, receiver: socket.socket, may_flow: threading.Event) -> None:
        with suppress(OSError):
            while data := sender.recv(65536):
                may_flow.wait()
                receiver.sendall(data)
        with suppress(OSError):
            receiver.shutdown(socket.SHUT_RDWR)
        sender.close()
