"""A live camera's driver in a thread of its own, so that limits hold even where the driver hangs."""

from __future__ import annotations

import atexit
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from edge_infer.errors import SourceError, SourceStalledError
from edge_infer.frame import Frame, PartTrigger
from edge_infer.settings import Secrets
from edge_infer.sources import Source, SourceSettings

log = logging.getLogger(__name__)

GRACE_S = 0.5
"""How much later than the driver's own limit ours ends a wait, so that the driver's better text wins."""
CLOSE_S = 1.0
"""How long ``close`` waits for the driver to let go."""
KEPT = 8
"""Pictures of parts that may wait for the reader; of a part beyond them only its question does."""
QUESTIONS = 1000
"""Parts that may wait for the reader, with or without a picture."""
TOO_FAST = "parts came faster than their pictures were taken over"
"""Why the picture of such a part is not there."""


class Capture(NamedTuple):
    """One image as the driver gives it."""

    pixels: NDArray[np.uint8]
    """(height, width, 3) BGR."""
    time_s: float
    """When it was taken, monotonic clock."""
    damaged: str | None = None
    lost: int = 0
    """Pictures of the camera that never came, between the one before and this one."""
    kept: bool = False
    """Somebody asked for it: it gives way to no newer one."""
    part: bool = False
    """The camera's own line asked for it."""
    packets_lost: int | None = None
    """On the way from the camera, since it was opened; None where nobody tells."""


class Driver(Protocol):
    """What talks to one camera; only ever called by one thread. It may hang."""

    def capture(self) -> Capture | None:
        """The next image; None for a sign of life without one. SourceError where the camera is lost."""

    def close(self) -> None:
        """Give the camera back."""


@runtime_checkable
class OnDemandDriver(Driver, Protocol):
    """Of a camera that takes a picture only when it is told to."""

    def fire(self, at_s: float) -> None:
        """Take a picture at that monotonic time; any thread, hands over at once."""


class DriverSettings(SourceSettings):
    """What every camera with a driver has."""

    isolated: ClassVar[bool] = False
    """True: its library or the kernel may hang for good, or crash, so it runs in a process of its own."""
    library: ClassVar[str | None] = None
    """What a process of its own loads before the time for opening begins: small devices need seconds."""

    open_timeout_s: float = Field(default=5.0, gt=0, le=60)
    read_timeout_s: float = Field(default=5.0, gt=0, le=60)

    def connect(self, camera: str, secrets: Secrets) -> Driver:
        """Open it; called by the thread, or in the process, that will read it. May hang."""
        raise NotImplementedError

    def open(self, camera: str, secrets: Secrets) -> Source:
        """A source that keeps its limits whatever the driver does."""
        source: Source
        if self.isolated:
            from edge_infer.sources._isolated import IsolatedSource

            source = IsolatedSource(camera, self, secrets)
        else:
            source = DriverSource(
                camera,
                lambda: self.connect(camera, secrets),
                open_timeout_s=self.open_timeout_s,
                read_timeout_s=self.read_timeout_s,
            )
        return source


class DriverSource:
    """A Source over a driver that may hang.

    The thread always drains the driver, whose own buffers would hand out ever older frames, and holds only
    the newest: a slow reader sees gaps in ``seq``, never an old frame. Pictures that somebody asked for all
    wait for the reader, in order. A driver that hangs is left behind
    with its thread, which closes it as soon as it comes back.
    """

    def __init__(
        self, camera: str, connect: Callable[[], Driver], *, open_timeout_s: float, read_timeout_s: float
    ) -> None:
        """Waits until ``connect`` has opened the camera. SourceError from it, or where it takes too long."""
        self._camera = camera
        self._connect = connect
        self._read_timeout_s = read_timeout_s
        self._changed = threading.Condition()
        self._connected = False
        self._closed = False
        self._failure: Exception | None = None
        self._waiting: deque[Frame] = deque()
        """Of frames that nobody asked for only the last."""
        self._alive_s = time.monotonic()
        self._driver: Driver | None = None
        self.packets_lost: int | None = None
        """See CountsPackets."""
        self._thread = threading.Thread(target=self._run, name=f"driver-{camera}", daemon=True)
        self._thread.start()
        with self._changed:
            self._changed.wait_for(lambda: self._connected or self._failure, open_timeout_s + GRACE_S)
            if self._connected:
                # a thread that is inside OpenCV while the interpreter ends aborts the process
                atexit.register(self.close)
                return
            self._closed = True
            self._raise_failure()
        raise SourceError(
            f"camera {camera} did not open within {open_timeout_s:g} s",
            hint="is it switched on, is the cable in, is the address right?",
        )

    def read(self, timeout_s: float) -> Frame | None:
        """The newest frame that was not read yet, see Source."""
        with self._changed:
            silence_s = self._alive_s + self._read_timeout_s + GRACE_S - time.monotonic()
            self._changed.wait_for(
                lambda: self._closed or self._waiting or self._failure, min(timeout_s, max(0.0, silence_s))
            )
            if self._closed:
                raise SourceError(f"camera {self._camera} is closed")
            if self._waiting:
                return self._waiting.popleft()
            self._raise_failure()
            silent_s = time.monotonic() - self._alive_s
        raise nothing_came(self._camera, silent_s, self._read_timeout_s)

    def fire(self, at_s: float) -> None:
        """Have a picture taken, by a driver that takes none unless it is asked. Any thread."""
        if isinstance(self._driver, OnDemandDriver):
            self._driver.fire(at_s)

    def close(self) -> None:
        """End a pending read, let the camera go; a driver that hangs is left behind."""
        with self._changed:
            if self._closed:
                return
            self._closed = True
            self._waiting.clear()
            self._changed.notify_all()
        atexit.unregister(self.close)
        self._thread.join(CLOSE_S)
        if self._thread.is_alive():
            log.warning("camera %s: its driver hangs and is left behind", self._camera)

    def _raise_failure(self) -> None:
        if isinstance(self._failure, SourceError):
            # a copy: one error raised again and again would drag a growing traceback along
            raise type(self._failure)(self._failure.message, hint=self._failure.hint)
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        driver: Driver | None = None
        try:
            driver = self._driver = self._connect()
            with self._changed:
                self._connected = True
                self._alive_s = time.monotonic()
                self._changed.notify_all()
            seq = 0
            while not self._closed:
                if (capture := driver.capture()) is not None:
                    seq += 1 + capture.lost
                    self._give(capture, seq)
                self._alive_s = time.monotonic()
        except Exception as error:  # noqa: BLE001 - nothing may be lost in this thread: the reader raises it
            with self._changed:
                self._failure = error
                self._changed.notify_all()
        finally:
            if driver is not None:
                driver.close()

    def _give(self, capture: Capture, seq: int) -> None:
        self.packets_lost = capture.packets_lost
        damaged, pixels = capture.damaged, capture.pixels
        if capture.kept and len(self._waiting) >= KEPT:
            damaged, pixels = TOO_FAST, np.zeros_like(pixels)
        frame = frame_of(self._camera, capture._replace(pixels=pixels, damaged=damaged), seq)
        with self._changed:
            if self._closed:
                return
            if not capture.kept:
                self._waiting.clear()
            elif len(self._waiting) >= QUESTIONS:
                log.error("camera %s: nobody takes its pictures; one of a part is given up", self._camera)
                return
            self._waiting.append(frame)
            self._changed.notify_all()


def frame_of(camera: str, capture: Capture, seq: int) -> Frame:
    """What a station gets of it; its pixels are the frame's from now on."""
    capture.pixels.flags.writeable = False
    age_s = max(0.0, time.monotonic() - capture.time_s)
    captured_at = datetime.now(UTC) - timedelta(seconds=age_s)
    return Frame(
        camera=camera,
        seq=seq,
        pixels=capture.pixels,
        time_s=capture.time_s,
        captured_at=captured_at,
        triggers=(PartTrigger(capture.time_s, captured_at),) if capture.part else (),
        damaged=capture.damaged,
    )


def nothing_came(camera: str, silent_s: float, limit_s: float) -> SourceError:
    """Lost where it was silent for longer than its limit, else stalled."""
    if silent_s >= limit_s:
        return SourceError(
            f"camera {camera}: nothing came for {silent_s:.1f} s", hint="is it switched on, is the cable in?"
        )
    return SourceStalledError(f"camera {camera}: no frame for {silent_s:.1f} s")
