"""The process of one camera whose driver may hang or crash.

``python -m edge_infer.sources._child FD PARENT``: what to open it is told over a socket, never on its command
line, where everybody could read a password.
"""

from __future__ import annotations

import ctypes
import faulthandler
import json
import logging
import os
import resource
import signal
import socket
import sys
import threading
import time
import traceback
from contextlib import suppress
from importlib import import_module
from typing import Any

from edge_infer.errors import SourceError
from edge_infer.registry import resolve
from edge_infer.settings import Secrets
from edge_infer.sources._driver import KEPT, Capture, Driver, DriverSettings, OnDemandDriver
from edge_infer.sources._shared_frames import SharedFrames

LONGEST = 100_000
"""Bytes of a message."""
NEWEST_SLOTS = 3
"""The reader copies one, the newest waits in another, the next is written to the third."""
_ALIVE_S = 0.1
"""How often a sign of life without a picture is passed on."""
_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Until the parent closes the socket or the camera is lost."""
    _leave_the_end_to_the_parent()
    line = _Line(socket.socket(fileno=int(sys.argv[1])))
    job = line.receive()
    if job is None:
        return
    logging.getLogger("edge_infer").addHandler(_Logs(line))
    logging.getLogger("edge_infer").setLevel(job["level"])
    try:
        settings: DriverSettings = resolve({"it": job["class"]}, "it").model_validate_json(job["settings"])
        if settings.library is not None:
            import_module(settings.library)
        line.send({"is": "started"})
        driver = settings.connect(job["camera"], Secrets(job["environ"]))
        try:
            _Pump(line, driver, KEPT if settings.waits else NEWEST_SLOTS).run()
        finally:
            driver.close()
    except SourceError as error:
        line.send(
            {"is": "error", "class": type(error).__name__, "message": error.message, "hint": error.hint}
        )
    except Exception as error:  # noqa: BLE001 - the parent raises it
        text = f"{type(error).__name__}: {error}"
        line.send({"is": "bug", "message": text, "trace": traceback.format_exc()})


def _leave_the_end_to_the_parent() -> None:
    # the service's manager signals every process of it: a camera must not be lost before the service stops
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    # also where a driver hangs while the parent is killed
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(sys.argv[2]):
        os._exit(0)
    # a core file would hold the camera's password
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    faulthandler.enable()


class _Line:
    """Messages to and from the parent. Any thread."""

    def __init__(self, link: socket.socket) -> None:
        self._socket = link

    def receive(self) -> dict[str, Any] | None:
        """None once the parent has gone."""
        raw = b""
        with suppress(ConnectionError):
            raw = self._socket.recv(LONGEST)
        return json.loads(raw) if raw else None

    def send(self, message: dict[str, Any], *, wait: bool = True, handle: int | None = None) -> None:
        """Dropped where the parent has gone, or without ``wait`` does not keep up."""
        raw = json.dumps(message).encode()
        with suppress(BlockingIOError, ConnectionError):
            if handle is not None:
                socket.send_fds(self._socket, [raw], [handle])
            else:
                self._socket.send(raw, 0 if wait else socket.MSG_DONTWAIT)


class _Logs(logging.Handler):
    def __init__(self, line: _Line) -> None:
        super().__init__()
        self._line = line

    def emit(self, record: logging.LogRecord) -> None:
        message = {"is": "log", "name": record.name, "level": record.levelno, "text": self.format(record)}
        self._line.send(message, wait=False)


class _Pump:
    """Drains the driver into shared memory."""

    def __init__(self, line: _Line, driver: Driver, slots: int) -> None:
        self._line = line
        self._driver = driver
        self._slots = slots
        self._frames: SharedFrames | None = None
        self._closing = threading.Event()
        self._seq = self._number = 0
        self._asked = self._taken = 0
        """Pictures that somebody asked for: written, and copied by the parent."""

    def run(self) -> None:
        """Until the parent closes the line; SourceError from the driver."""
        threading.Thread(target=self._listen, name="parent", daemon=True).start()
        self._line.send({"is": "opened"})
        told_s = 0.0
        while not self._closing.is_set():
            capture = self._driver.capture()
            if capture is not None:
                self._seq += 1 + capture.lost
                self._give(capture)
            elif time.monotonic() > told_s + _ALIVE_S:
                told_s = time.monotonic()
                self._line.send({"is": "alive"}, wait=False)

    def _listen(self) -> None:
        while (message := self._line.receive()) is not None:
            if "fire" in message and isinstance(self._driver, OnDemandDriver):
                self._driver.fire(message["fire"])
            elif "taken" in message:
                self._taken += 1
        self._closing.set()

    def _give(self, capture: Capture) -> None:
        height, width = capture.pixels.shape[:2]
        full = capture.kept and self._asked - self._taken >= self._slots
        if not full:
            self._number += 1
            self._write(capture)
            self._asked += capture.kept
        message = {
            "is": "frame",
            "seq": self._seq,
            # of a part beyond those that may wait only the question is passed on
            "number": None if full else self._number,
            "size": [height, width],
            **{name: value for name, value in capture._asdict().items() if name != "pixels"},
        }
        self._line.send(message, wait=capture.kept)

    def _write(self, capture: Capture) -> None:
        height, width = capture.pixels.shape[:2]
        if self._frames is None or not self._frames.fits(capture.pixels):
            handle = SharedFrames.allocate(height, width, self._slots)
            try:
                self._frames = SharedFrames(handle, height, width, self._slots, writer=True)
                self._line.send(
                    {"is": "memory", "size": [height, width], "slots": self._slots}, handle=handle
                )
            finally:
                os.close(handle)
        self._frames.write(self._number, capture.pixels)


if __name__ == "__main__":
    main()
