"""A network between device and broker that does what networks do."""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import suppress

from tests.support.mosquitto import Mosquitto


class BadNetwork:
    """Stands where the broker stands; passes everything on until told otherwise."""

    def __init__(self, broker: Mosquitto, *, chunk: int = 65536) -> None:
        """``chunk``: at most so many bytes at a time in both directions."""
        self.host = "127.0.0.1"
        self.user, self.password = broker.user, broker.password
        self._broker = broker
        self._chunk = chunk
        self._flowing = threading.Event()
        self._flowing.set()
        self._left: int | None = None
        """Bytes from the device that are passed on before the connection is cut."""
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self.connections = 0
        self._listener = socket.create_server((self.host, 0))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> BadNetwork:
        return self

    def __exit__(self, *_: object) -> None:
        self._flowing.set()
        self._listener.close()
        self.reset()

    def stall(self) -> None:
        """Takes bytes and passes none on: no end is ever heard of."""
        self._flowing.clear()

    def flow(self) -> None:
        """Go on after ``stall``."""
        self._flowing.set()

    def reset(self) -> None:
        """Every connection ends with RST on both sides."""
        for pair in self._pairs:
            for sock in pair:
                with suppress(OSError):
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    sock.shutdown(socket.SHUT_RDWR)
                sock.close()
        self._pairs.clear()

    def cut_after(self, bytes_: int) -> None:
        """So much of what the device sends is still passed on, then every connection is reset."""
        self._left = bytes_

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                device, _ = self._listener.accept()
                try:
                    broker = socket.create_connection((self._broker.host, self._broker.port), 5)
                except OSError:
                    device.close()
                    continue
                broker.settimeout(None)
                self.connections += 1
                for sock in (device, broker):
                    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._pairs.append((device, broker))
                for sender, receiver in ((device, broker), (broker, device)):
                    threading.Thread(
                        target=self._pass, args=(sender, receiver, sender is device), daemon=True
                    ).start()

    def _pass(self, sender: socket.socket, receiver: socket.socket, from_device: bool) -> None:
        with suppress(OSError):
            while data := sender.recv(self._chunk):
                self._flowing.wait()
                if from_device and self._left is not None:
                    data, self._left = data[: self._left], self._left - len(data)
                receiver.sendall(data)
                if from_device and self._left is not None and self._left <= 0:
                    self._left = None
                    self.reset()
                    return
        for sock in (sender, receiver):
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()
