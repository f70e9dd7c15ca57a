"""One camera's thread: opens it, reads it, hands each frame to its stations, opens it again when lost."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Protocol

from edge_infer import clock
from edge_infer.camera_meter import Meter
from edge_infer.errors import SourceBusyError, SourceError, SourceStalledError
from edge_infer.frame import Frame
from edge_infer.imagehealth.frozen import Stillness
from edge_infer.messages.camera import CameraMessage, CameraState
from edge_infer.progress import Loop
from edge_infer.settings import Secrets
from edge_infer.sources import OnDemand, Source, SourceSettings

log = logging.getLogger(__name__)

State = CameraState

FIRST_WAIT_S, LONGEST_WAIT_S = 0.5, 30.0
STEADY_S = 10.0
"""A camera that did not stay for so long comes and goes: it is opened ever less often."""
READ_S = 0.5
"""How often a waiting reader looks whether it should stop."""
STALL_S = 1.0
"""Beyond ``max_age_s``: a camera of one frame a second is slow, not stalled."""
HANG_S = 10.0
"""A read that breaks its promise for so long is told, and its stations are UNDEFINED."""
PATIENCE_S = 50.0
"""After that it is a reason to start the service again, where no other camera comes on."""
OPENING_S = 120.0
"""Each source has time-outs of its own, of a minute at most each; this is the limit behind them."""
AFTER_S = 10.0
"""How long a camera whose settings changed waits for itself with the old ones."""
TELL_S = 5.0
"""How often the numbers of a camera that does not change are told."""


class Viewer(Protocol):
    """A station as its camera sees it."""

    def offer(self, frame: Frame) -> None:
        """A new frame; on a recording waits until there is room."""


class Watcher(Protocol):
    """Who wants to know how a camera is."""

    def camera_changed(self, camera: str, state: State, text: str) -> None:
        """Called at each change, from the camera's thread."""

    def camera_counted(self, message: CameraMessage) -> None:
        """Called after each change, and at most every ``TELL_S`` where numbers or the text changed."""


class Camera:
    """Runs until stopped; a recording ends by itself. Reconnects with back-off and jitter for ever."""

    def __init__(
        self,
        name: str,
        settings: SourceSettings,
        secrets: Secrets,
        viewers: Sequence[Viewer],
        watcher: Watcher,
        *,
        after: Camera | None = None,
    ) -> None:
        """``after``: was asked to stop and takes its device with it; this one waits for that."""
        self.name = name
        self.settings = settings
        self.state: State = "opening"
        self._text = "it is opened for the first time"
        self._since = clock.now()
        self._meter = Meter()
        self.ended = threading.Event()
        """A recording is over, well or not."""
        self.failure: Exception | None = None
        """A bug that ended its thread."""
        self.loop = Loop(f"camera {name}", limit_s=HANG_S, patience_s=PATIENCE_S, group="cameras")
        self._secrets = secrets
        self._viewers = tuple(viewers)
        self._after = after
        self._watcher = watcher
        self._told: CameraMessage | None = None
        self._told_s = -TELL_S
        self._stopping = threading.Event()
        self._source: Source | None = None
        # over reconnections: one that comes back with the same picture is still frozen
        self._stillness = Stillness(settings.frozen_s)
        self._thread = threading.Thread(target=self._run, name=f"camera-{name}", daemon=True)

    @property
    def told(self) -> CameraMessage | None:
        """Its numbers as they were published last, some seconds ago at most; None before the first time."""
        return self._told

    def start(self) -> None:
        """Open and read in its own thread."""
        self._thread.start()

    @property
    def text(self) -> str:
        """Why it is as it is, in words."""
        return self._text

    @property
    def blinds(self) -> str | None:
        """Why its stations judge nothing though frames come; they see it frame by frame only. Else None."""
        return f"camera {self.name} is frozen" if self.state == "frozen" else None

    @property
    def since(self) -> datetime:
        """Wall clock, UTC: since when it is as it is."""
        return self._since

    def show_to(self, viewers: Sequence[Viewer]) -> None:
        """From the next frame on to these only."""
        self._viewers = tuple(viewers)

    def fire(self, at_s: float) -> None:
        """Have a picture taken at that monotonic time, by a camera that takes none unless it is asked."""
        source = self._source
        if isinstance(source, OnDemand):
            source.fire(at_s)

    def stop(self) -> None:
        """Ask the thread to end, which closes its source; does not wait."""
        self._stopping.set()

    def join(self, timeout_s: float) -> bool:
        """False where the driver did not come back in time."""
        if self._thread.ident is not None:
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            self._wait_for_the_one_before()
            self._keep_open()
        except Exception as error:
            # the service looks at it, ends and is started again
            log.exception("camera %s: a bug ended its thread", self.name)
            self.failure = error
        finally:
            self.loop.rest()

    def _wait_for_the_one_before(self) -> None:
        """A driver that does not come back shall not hold us up for ever: the device will say `busy`."""
        end_s = time.monotonic() + AFTER_S
        while self._after is not None and not self._stopping.is_set() and time.monotonic() < end_s:
            if self._after.join(READ_S):
                break
        self._after = None

    def _keep_open(self) -> None:
        wait_s, opened_s, short = FIRST_WAIT_S, 0.0, 0
        while not self._stopping.is_set():
            try:
                self._tell()
                self.loop.passed(OPENING_S)
                self._source = self.settings.open(self.name, self._secrets)
                self._meter.opened(self._source)
                opened_s = time.monotonic()
                if self._read_all(self._source):
                    self._change("ended", "the recording has ended")
                    self.ended.set()
                    return
                wait_s = FIRST_WAIT_S
            except Exception as error:
                if not isinstance(error, SourceError):
                    # one camera's bug is not the end of the other cameras
                    log.exception("camera %s: a bug in its source", self.name)
                if self._stopping.is_set():
                    return
                if self.state in {"connected", "stalled", "frozen"}:
                    wait_s = min(FIRST_WAIT_S * 2**short, LONGEST_WAIT_S)
                    short = min(short + 1, 10) if time.monotonic() - opened_s < STEADY_S else 0
                if self.settings.recorded and not self.settings.waits:
                    # from its start again it would judge parts twice
                    self._change("failed", str(error))
                    self.ended.set()
                    return
                self._change("busy" if isinstance(error, SourceBusyError) else "lost", str(error))
            finally:
                self.loop.passed()
                if self._source is not None:
                    self._source.close()
                    self._source = None
            # jitter: cameras that were lost together must not come back in step
            pause_s = wait_s * random.uniform(0.8, 1.2)  # noqa: S311 - no secret
            self.loop.passed(pause_s)
            self._stopping.wait(pause_s)
            wait_s = min(wait_s * 2, LONGEST_WAIT_S)

    def _read_all(self, source: Source) -> bool:
        """True once a recording has ended, False when asked to stop."""
        last_s = time.monotonic()
        if self.settings.waits:
            self._change("connected", "it waits for parts")
        while not self._stopping.is_set():
            self.loop.passed()
            try:
                frame = source.read(READ_S)
            except SourceStalledError:
                silent_s = time.monotonic() - last_s
                if not self.settings.waits and silent_s > self.settings.max_age_s + STALL_S:
                    # not the source's words: a sign of life without a picture ends its silence, not ours
                    self._change("stalled", f"camera {self.name}: no frame for {silent_s:.1f} s")
                self._tell()
                continue
            if frame is None:
                return True
            last_s = time.monotonic()
            self._meter.count(frame, last_s)
            frozen = self._stillness.see(frame)
            if frozen is None:
                self._change("connected", f"{frame.width}x{frame.height}")
            else:
                frame = replace(frame, frozen=frozen)
                self._change("frozen", frozen)
            self._tell()
            viewers = self._viewers
            if frame.settled is not None and len(viewers) > 1:
                frame = replace(frame, settled=_Together(frame.settled, len(viewers)))
            if self.settings.recorded:
                # it waits for the network, which has limits of its own
                self.loop.rest()
            for viewer in viewers:
                self._show(viewer, frame)
        return False

    def _show(self, viewer: Viewer, frame: Frame) -> None:
        try:
            viewer.offer(frame)
        except Exception:
            # one station's bug is not the camera's, and not the other stations'
            log.exception("camera %s: a bug in one of its stations", self.name)

    def _change(self, state: State, text: str) -> None:
        self._text = text
        if state == self.state:
            return
        self.state, self._since = state, clock.now()
        if state in ("ended", "failed"):
            # until what was read is answered
            self.loop.rest()
        level = logging.INFO if state in ("connected", "ended") else logging.WARNING
        if self._stopping.is_set():
            # one of the same name may run already
            return
        log.log(level, "camera %s: %s: %s", self.name, state, text)
        self._watcher.camera_changed(self.name, state, text)
        self._tell(changed=True)

    def _tell(self, *, changed: bool = False) -> None:
        """The retained state; not a message a frame."""
        now_s = time.monotonic()
        if self._stopping.is_set() or (not changed and now_s < self._told_s + TELL_S):
            return
        self._told_s = now_s
        message = self._meter.message(self.name, self.state, self._text, self._since, now_s)
        told, self._told = self._told, message
        if changed or told is None or message != told.model_copy(update={"time": message.time}):
            self._watcher.camera_counted(message)


class _Together:
    """Passes on that a frame is settled once it is for every station."""

    def __init__(self, settled: Callable[[str], None], stations: int) -> None:
        self._settled = settled
        self._wanted = stations
        self._lock = threading.Lock()
        self._stations: set[str] = set()

    def __call__(self, station: str) -> None:
        with self._lock:
            self._stations.add(station)
            if len(self._stations) < self._wanted:
                return
        self._settled(station)
