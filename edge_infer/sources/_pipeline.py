"""A GStreamer pipeline as a child process that hands pictures over through a pipe."""

from __future__ import annotations

import fcntl
import os
import re
import select
import shlex
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from edge_infer.errors import SourceError
from edge_infer.sources._driver import Capture

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from edge_infer.sources.gstreamer import Gstreamer

_TOOL = "gst-launch-1.0"
_INSTALL = (
    "`sudo apt-get install gstreamer1.0-tools gstreamer1.0-plugins-base gstreamer1.0-plugins-good`, then "
    "start again"
)
_POLL_S = 0.1
_PIPE_BYTES = 1_048_576
"""What users may ask for; fewer changes between the processes."""
_TOLD_BYTES = 4000
_KEPT_LINES = 4
_ENVIRONMENT = ("PATH", "HOME", "LANG", "XDG_RUNTIME_DIR", "XDG_CACHE_HOME")
"""Not the rest: secrets may stand there."""
_SECRETS = re.compile(r"(?<=://)[^\s\"'/@]*@|(?<=\?)[^\s\"']+")


class Pipeline:
    """Running (a Driver). It dies with us, however we end."""

    def __init__(self, settings: Gstreamer, camera: str) -> None:
        self._settings = settings
        self._label = f"camera {camera}: its pipeline"
        if shutil.which(_TOOL) is None:
            raise SourceError(f"camera {camera}: {_TOOL} is not installed", hint=_INSTALL)
        # GStreamer's rows of BGR begin at multiples of 4 bytes
        self._row_bytes = -(-settings.width * 3 // 4) * 4
        self._bytes = self._new()
        self._filled = 0
        self._began_s = 0.0
        self._told = b""
        self._pipe, theirs = os.pipe2(os.O_CLOEXEC)
        try:
            with suppress(OSError):
                fcntl.fcntl(self._pipe, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
            self._process = self._start(theirs)
        except BaseException:
            os.close(self._pipe)
            raise
        finally:
            os.close(theirs)
        assert self._process.stderr is not None  # noqa: S101 - for mypy: it is a pipe
        self._stderr = self._process.stderr.fileno()
        os.set_blocking(self._pipe, False)
        os.set_blocking(self._stderr, False)
        self._whole_s = time.monotonic()
        try:
            self._wait_for_the_first()
        except BaseException:
            self.close()
            raise

    def capture(self) -> Capture | None:
        """See Driver."""
        if self._filled < self._bytes.size:
            if self._readable(_POLL_S):
                self._read_on()
            elif (silent_s := time.monotonic() - self._whole_s) >= self._settings.read_timeout_s:
                raise self._error(f"is lost: it gave no picture for {silent_s:.1f} s")
        if self._filled < self._bytes.size:
            return None
        self._whole_s = time.monotonic()
        settings = self._settings
        rows = self._bytes.reshape(settings.height, self._row_bytes)[:, : settings.width * 3]
        pixels = np.ascontiguousarray(rows).reshape(settings.height, settings.width, 3)
        # the next one must not be written over this one
        self._bytes, self._filled = self._new(), 0
        return Capture(pixels, self._began_s)

    def close(self) -> None:
        """See Driver."""
        with suppress(ProcessLookupError):
            # its own group: also what it started
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._pipe)
        if self._process.stderr is not None:
            self._process.stderr.close()

    def _new(self) -> NDArray[np.uint8]:
        return np.empty(self._settings.height * self._row_bytes, np.uint8)

    def _start(self, theirs: int) -> subprocess.Popen[bytes]:
        settings = self._settings
        caps = f"video/x-raw,format=BGR,width={settings.width},height={settings.height}"
        words = [*shlex.split(settings.pipeline), "!", "videoconvert"]
        if settings.fps is not None:
            rate = Fraction(settings.fps).limit_denominator(1001)
            words += ["!", "videorate", "drop-only=true"]
            caps += f",framerate={rate.numerator}/{rate.denominator}"
        words += ["!", caps, "!", "fdsink", f"fd={theirs}", "sync=false"]
        environment = {
            key: value for key, value in os.environ.items() if key in _ENVIRONMENT or key.startswith("GST_")
        }
        try:
            return subprocess.Popen(
                # the kernel kills it when this thread ends
                ["setpriv", "--pdeathsig", "KILL", _TOOL, "-q", *words],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                pass_fds=(theirs,),
                start_new_session=True,
                env=environment,
            )
        except OSError as error:
            raise SourceError(
                f"{self._label} cannot be started: {error}", hint="`sudo apt-get install util-linux`"
            ) from error

    def _wait_for_the_first(self) -> None:
        limit_s = self._settings.open_timeout_s
        while not self._readable(_POLL_S):
            if time.monotonic() - self._whole_s >= limit_s:
                raise self._error(f"gave no picture within {limit_s:g} s")
        # a pipe that ended is readable too
        self._read_on()

    def _read_on(self) -> None:
        if self._filled == 0:
            self._began_s = time.monotonic()
        size = os.readv(self._pipe, [self._bytes[self._filled :].data])
        if not size:
            raise self._ended()
        self._filled += size

    def _readable(self, wait_s: float) -> bool:
        """Whether there is something of a picture, or its end. Takes in what is told meanwhile."""
        poll = select.poll()
        poll.register(self._pipe, select.POLLIN)
        poll.register(self._stderr, select.POLLIN)
        ready = {handle for handle, _ in poll.poll(wait_s * 1000)}
        if self._stderr in ready and not self._listen():
            # its end stays readable: not a busy loop while the pipe is still open
            time.sleep(0 if self._pipe in ready else wait_s)
        return self._pipe in ready

    def _listen(self) -> bool:
        try:
            told = os.read(self._stderr, 65_536)
        except BlockingIOError:
            return True
        self._told = (self._told + told)[-_TOLD_BYTES:]
        return bool(told)

    def _ended(self) -> SourceError:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)
        code = self._process.returncode
        how = "was killed" if code is not None and code < 0 else f"ended (exit code {code})"
        return self._error(how)

    def _error(self, what: str) -> SourceError:
        self._listen()
        lines = [" ".join(line.split()) for line in self._told.decode("utf-8", "replace").splitlines()]
        lines = [line for line in lines if line]
        # the first error is the cause of those behind it
        first = next((at for at, line in enumerate(lines) if line.startswith("ERROR")), -_KEPT_LINES)
        said = _SECRETS.sub("", " / ".join(lines[first:][:_KEPT_LINES]))
        hint = f"does `{_TOOL}` show it? width and height must be what comes out"
        return SourceError(f"{self._label} {what}{f': {said}' if said else ''}", hint=hint)
