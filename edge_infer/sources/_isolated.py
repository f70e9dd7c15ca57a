"""A live camera's driver in a process of its own: where it hangs for good or crashes, only it is ended."""

from __future__ import annotations

import json
import logging
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from edge_infer import errors
from edge_infer.errors import SourceError
from edge_infer.frame import Frame
from edge_infer.settings import Secrets
from edge_infer.sources._child import LONGEST
from edge_infer.sources._driver import (
    CLOSE_S,
    GRACE_S,
    QUESTIONS,
    TOO_FAST,
    Capture,
    DriverSettings,
    frame_of,
    nothing_came,
)
from edge_infer.sources._shared_frames import SharedFrames

log = logging.getLogger(__name__)

START_S = 30.0
"""Until a new process has loaded the camera's library; not counted in ``open_timeout_s``."""
KILL_S = 0.5
"""How long a killed process may take to be gone."""


class DriverBugError(Exception):
    """A bug ended the camera's process; holds what it said."""


class _Waiting(NamedTuple):
    """A frame that was not read yet."""

    message: dict[str, Any]
    frames: SharedFrames | None
    """Where its pixels are."""


class IsolatedSource:
    """A Source over a driver in a child process; behaves as DriverSource does.

    Needs no thread here: the child drains the driver, the newest picture lies in shared memory and is copied
    once, when it is read. Only words go over the socket.
    """

    def __init__(self, camera: str, settings: DriverSettings, secrets: Secrets) -> None:
        """Waits until the driver has opened the camera. SourceError from it, or where it takes too long."""
        self._camera = camera
        self._read_timeout_s = settings.read_timeout_s
        self.packets_lost: int | None = None
        """See CountsPackets."""
        self._said: set[str] = set()
        self._failure: Exception | None = None
        self._frames: SharedFrames | None = None
        self._waiting: deque[_Waiting] = deque()
        """Of frames that nobody asked for only the last."""
        self._closed = False
        self._reading = threading.Lock()
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.setblocking(False)
        with theirs:
            self._process = _start(theirs.fileno(), secrets)
        self._alive_s = time.monotonic()
        try:
            self._open(settings, secrets)
        except BaseException:
            self.close()
            raise

    def read(self, timeout_s: float) -> Frame | None:
        """The newest frame that was not read yet, see Source."""
        end_s = time.monotonic() + timeout_s
        with self._reading:
            while True:
                if self._closed:
                    raise SourceError(f"camera {self._camera} is closed")
                self._drain()
                if (frame := self._next()) is not None:
                    return frame
                self._raise_failure()
                now_s = time.monotonic()
                until_s = min(end_s, self._alive_s + self._read_timeout_s + GRACE_S)
                if now_s >= until_s:
                    raise nothing_came(self._camera, now_s - self._alive_s, self._read_timeout_s)
                self._wait(until_s - now_s)

    def fire(self, at_s: float) -> None:
        """Have a picture taken, by a driver that takes none unless it is asked. Any thread."""
        self._send({"fire": at_s})

    def close(self) -> None:
        """End a pending read, let the camera go; a driver that hangs is killed."""
        if self._closed:
            return
        self._closed = True
        # the child sees the end of the line and closes its driver; a pending read wakes up
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        with self._reading:
            self._socket.close()
            self._waiting.clear()
            self._frames = None
        try:
            self._process.wait(CLOSE_S)
            return
        except subprocess.TimeoutExpired:
            log.warning("camera %s: its driver hangs and is killed", self._camera)
        self._process.kill()
        try:
            self._process.wait(KILL_S)
        except subprocess.TimeoutExpired:
            # only the kernel can hold a killed process; it ends as soon as that lets it go
            log.error("camera %s: the kernel's driver hangs, process %d stays behind", self._camera,
                      self._process.pid)  # fmt: skip

    def _open(self, settings: DriverSettings, secrets: Secrets) -> None:
        kind = type(settings)
        self._send(
            {
                "class": f"{kind.__module__}:{kind.__qualname__}",
                "settings": settings.model_dump_json(),
                "camera": self._camera,
                "environ": secrets.needed_by(settings),
                "level": logging.getLogger("edge_infer").getEffectiveLevel(),
            }
        )
        self._await("started", START_S)
        self._await("opened", settings.open_timeout_s + GRACE_S, settings.open_timeout_s)

    def _await(self, word: str, limit_s: float, told_s: float | None = None) -> None:
        until_s = time.monotonic() + limit_s
        while word not in self._said:
            self._drain()
            if word in self._said:
                return
            self._raise_failure()
            left_s = until_s - time.monotonic()
            if left_s <= 0:
                raise SourceError(
                    f"camera {self._camera} did not open within {told_s or limit_s:g} s",
                    hint="is it switched on, is the cable in, is the address right?",
                )
            self._wait(left_s)

    def _raise_failure(self) -> None:
        if isinstance(self._failure, SourceError):
            # a copy: one error raised again and again would drag a growing traceback along
            raise type(self._failure)(self._failure.message, hint=self._failure.hint)
        if self._failure is not None:
            raise self._failure

    # -- the line

    def _wait(self, timeout_s: float) -> None:
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        poll.poll(max(1.0, timeout_s * 1000))

    def _send(self, message: dict[str, Any]) -> None:
        # where the child is gone the reader finds out
        with suppress(OSError):
            self._socket.send(json.dumps(message).encode())

    def _drain(self) -> None:
        """All that the child has said so far."""
        while self._failure is None:
            try:
                raw, handles, _, _ = socket.recv_fds(self._socket, LONGEST, 1)
            except BlockingIOError:
                return
            except OSError:
                raw, handles = b"", []
            if not raw:
                self._failure = None if self._closed else self._ended()
                return
            self._alive_s = time.monotonic()
            try:
                self._hear(json.loads(raw), handles)
            finally:
                for handle in handles:
                    os.close(handle)

    def _hear(self, message: dict[str, Any], handles: list[int]) -> None:
        kind = message["is"]
        self._said.add(kind)
        if kind == "frame":
            self._take(message)
        elif kind == "memory":
            height, width = message["size"]
            self._frames = SharedFrames(handles[0], height, width, message["slots"], writer=False)
        elif kind == "log":
            logging.getLogger(message["name"]).log(message["level"], "%s", message["text"])
        elif kind == "error":
            self._failure = getattr(errors, message["class"], SourceError)(
                message["message"], hint=message["hint"]
            )
        elif kind == "bug":
            log.error("camera %s: %s", self._camera, message["trace"])
            self._failure = DriverBugError(message["message"])

    def _take(self, message: dict[str, Any]) -> None:
        self.packets_lost = message["packets_lost"]
        if not message["kept"]:
            self._waiting.clear()
        elif len(self._waiting) >= QUESTIONS:
            log.error("camera %s: nobody takes its pictures; one of a part is given up", self._camera)
            return
        self._waiting.append(_Waiting(message, self._frames))

    def _next(self) -> Frame | None:
        while self._waiting:
            message, frames = self._waiting.popleft()
            number, (height, width) = message["number"], message["size"]
            pixels = None if number is None or frames is None else frames.read(number)
            if message["kept"] and number is not None:
                self._send({"taken": number})
            damaged = message["damaged"]
            if pixels is None:
                if not message["kept"]:
                    # a newer one was written over it, which the child tells of next
                    continue
                pixels, damaged = np.zeros((height, width, 3), np.uint8), TOO_FAST
            capture = Capture(pixels, message["time_s"], damaged, part=message["part"])
            return frame_of(self._camera, capture, message["seq"])
        return None

    def _ended(self) -> SourceError:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(KILL_S)
        code = self._process.returncode
        how = "ended" if code is None else f"ended with {code}"
        if code is not None and code < 0:
            how = f"crashed ({signal.Signals(-code).name})"
        return SourceError(
            f"camera {self._camera}: its driver {how}", hint="it is started again; look for a newer driver"
        )


def _start(handle: int, secrets: Secrets) -> subprocess.Popen[bytes]:
    flags = ["-I"] * sys.flags.isolated + ["-B"] * sys.flags.dont_write_bytecode
    return subprocess.Popen(
        [sys.executable, *flags, "-m", "edge_infer.sources._child", str(handle), str(os.getpid())],
        pass_fds=[handle],
        stdin=subprocess.DEVNULL,
        # what a library prints stands in the service's log
        stdout=2,
        env=secrets.without_secrets(),
        start_new_session=True,
    )
