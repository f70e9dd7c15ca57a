"""The service's side of the socket. Nobody but the askers waits for it."""

from __future__ import annotations

import logging
import os
import pwd
import socket
import stat
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pydantic import ValidationError

from edge_infer.ctl.protocol import FORMAT, LONGEST_REQUEST, Answer, Request

log = logging.getLogger(__name__)

ASKERS = 8
"""At once; the next one is told to come again."""
QUEUE = 64
"""Askers whom nobody has looked at yet."""
READ_S = 5.0
"""For one line from an asker, and for it to take its answer."""
_NOBODY = 0xFFFFFFFF

Handle = Callable[[Request, str], Answer]
"""Carries out what was asked by whom; may take minutes."""


class Server:
    """`start`, then `stop`. Without its socket the service runs all the same."""

    def __init__(self, path: Path, handle: Handle) -> None:
        self._path = path
        self._handle = handle
        self._socket: socket.socket | None = None
        self._inode: int | None = None
        self._free = threading.BoundedSemaphore(ASKERS)
        self._away = threading.BoundedSemaphore(ASKERS)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ctl", daemon=True)

    def start(self) -> None:
        """Listen, for the service's user and root only; what a killed service left there is replaced."""
        try:
            self._socket = self._listen()
        except OSError as error:
            log.warning(
                "edge-infer ctl cannot reach this service: %s: %s", self._path, error.strerror or error
            )
            return
        self._thread.start()

    def stop(self) -> None:
        """Nobody new is heard; does not wait for those who are."""
        self._stopping.set()
        if self._socket is None:
            return
        with suppress(OSError):
            # wakes the thread that waits in accept
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        with suppress(OSError):
            if self._path.stat().st_ino == self._inode:
                self._path.unlink()

    def _listen(self) -> socket.socket:
        with reachable(self._path) as address:
            if _answers(address):
                raise OSError(0, "another service listens there")
            part = f"{address}.{os.getpid()}"
            listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
            try:
                with suppress(FileNotFoundError):
                    os.unlink(part)  # noqa: PTH108 - not a path that anybody should see
                listening.bind(part)
                # nobody can connect before it listens, and by then only those who may
                os.chmod(part, stat.S_IRUSR | stat.S_IWUSR)  # noqa: PTH101 - as above
                listening.listen(QUEUE)
                self._inode = os.stat(part).st_ino  # noqa: PTH116 - as above
                os.replace(part, address)  # noqa: PTH105 - as above
            except OSError:
                listening.close()
                raise
        return listening

    def _run(self) -> None:
        while not self._stopping.is_set() and self._socket is not None:
            try:
                asker, _ = self._socket.accept()
            except OSError as error:
                if self._stopping.is_set():
                    return
                # no file descriptors left: later there may be
                log.warning("edge-infer ctl was not heard: %s", error.strerror)
                self._stopping.wait(0.5)
                continue
            asker.settimeout(READ_S)
            if self._free.acquire(blocking=False):
                work = self._serve
            elif self._away.acquire(blocking=False):
                work = self._turn_away
            else:
                asker.close()
                continue
            threading.Thread(target=work, args=(asker,), name="ctl-asker", daemon=True).start()

    def _serve(self, asker: socket.socket) -> None:
        try:
            _say(asker, self._answer(asker))
        finally:
            self._free.release()

    def _turn_away(self, asker: socket.socket) -> None:
        try:
            _say(asker, Answer(code=1, message="too many ask at once; try again in a moment"))
        finally:
            self._away.release()

    def _answer(self, asker: socket.socket) -> Answer:
        try:
            who = peer(asker)
            request = Request.model_validate_json(_line(asker))
        except ValidationError as error:
            text = "; ".join(one["msg"] for one in error.errors(include_url=False, include_input=False))
            return Answer(code=1, message=f"not a request of format {FORMAT}: {text}"[:500])
        except (OSError, ValueError) as error:
            return Answer(code=1, message=f"no request came: {error}")
        try:
            return self._handle(request, who)
        except Exception as error:
            # the asker shall hear of it, and later ones be heard
            log.exception("a bug while ctl %s was carried out", request.do)
            return Answer(code=3, message=f"a bug in edge-infer: {type(error).__name__}: {error}")


@contextmanager
def reachable(path: Path) -> Iterator[str]:
    """A short address of a socket: those of the kernel have at most 107 bytes."""
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def peer(asker: socket.socket) -> str:
    """Who asks, as the kernel says; with whom he logged in as, where he is another one now (sudo)."""
    pid, uid, _ = struct.unpack("iII", asker.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    name = _user(uid)
    try:
        login = int(Path(f"/proc/{pid}/loginuid").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return f"ctl:{name}"
    return f"ctl:{name}" if login in (uid, _NOBODY) else f"ctl:{name} (login {_user(login)})"


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"


def _answers(address: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as other:
        other.settimeout(1.0)
        try:
            other.connect(address)
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except OSError:
            # it listens and is too busy, or it may not be asked
            return True
        return True


def _line(asker: socket.socket) -> bytes:
    data, end_s = b"", time.monotonic() + READ_S
    while not data.endswith(b"\n"):
        # one byte a second must not hold the place for ever
        if len(data) > LONGEST_REQUEST or time.monotonic() > end_s:
            raise ValueError(f"no line of at most {LONGEST_REQUEST} bytes within {READ_S:g} s")
        block = asker.recv(4096)
        if not block:
            raise ValueError("the line has no end")
        data += block
    return data


def _say(asker: socket.socket, answer: Answer) -> None:
    # who went away misses it
    with asker, suppress(OSError):
        asker.sendall(answer.model_dump_json(by_alias=True).encode() + b"\n")
        asker.shutdown(socket.SHUT_WR)
        # closed over what was not read, the kernel would take the answer back
        end_s = time.monotonic() + READ_S
        while asker.recv(65536) and time.monotonic() < end_s:
            pass
