"""A light barrier on an input of this machine asks for the inspection (libgpiod, an optional extra)."""

from __future__ import annotations

import logging
import random
import threading
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from edge_infer import clock
from edge_infer.frame import PartTrigger
from edge_infer.progress import Loop
from edge_infer.triggers import Listener, PartTriggerSettings, Station

if TYPE_CHECKING:
    from gpiod import EdgeEvent, LineRequest

log = logging.getLogger(__name__)

FIRST_WAIT_S, LONGEST_WAIT_S = 0.5, 30.0
LOOK_S = 0.2
"""How often a waiting thread looks whether it should stop."""
HANG_S = 10.0
"""The kernel's driver does not answer: told."""
PATIENCE_S = 20.0
"""Nobody knows of the parts that are not heard meanwhile, so the service is started again soon."""
_EVENTS = 64
"""Edges that the kernel keeps for a slow reader."""


class Gpio(PartTriggerSettings):
    """``trigger: {type: gpio, chip: /dev/gpiochip0, line: 17, edge: rising, debounce_ms: 5}``."""

    type: Literal["gpio"]
    chip: Annotated[str, Field(pattern=r"^/dev/[A-Za-z0-9_./-]{1,200}$")] = "/dev/gpiochip0"
    """The chip's device; `gpiodetect` lists them."""
    line: Annotated[int, Field(ge=0, le=65535)] | Annotated[str, Field(pattern=r"^[!-~]{1,64}$")]
    """The input: its number on the chip, or the name that `gpioinfo` shows."""
    edge: Literal["rising", "falling"] = "rising"
    """Which change of it is a part."""
    debounce_ms: Annotated[float, Field(ge=0, le=1000)] = 1.0
    """Changes that last less are none."""
    part_id: Literal["counter"] = "counter"
    """How parts are named: by when the counting began and a number that counts from 1."""

    def listen(self, name: str, station: Station) -> Listener:
        """In a thread of its own; a chip that is away is tried again for ever."""
        return _Line(self, name, station)


class _Line:
    """One input."""

    def __init__(self, settings: Gpio, name: str, station: Station) -> None:
        self._settings = settings
        self._label = f"station {name}: line {settings.line} of {settings.chip}"
        self._station = station
        self._state: str | None = None
        # a second start of the service must not name a part as the first one did
        self._began = f"{clock.now():%Y%m%dT%H%M%SZ}"
        self._count = 0
        self._seen = 0
        """The kernel's own count of this line's edges, since it was opened."""
        self.failure: Exception | None = None
        """See Listener."""
        self.loop = Loop(f"light barrier of {name}", limit_s=HANG_S, patience_s=PATIENCE_S)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"gpio-{name}", daemon=True)
        self._thread.start()

    def stop(self, timeout_s: float) -> bool:
        """False where the thread did not end in time."""
        self._stopping.set()
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            self._keep_hearing()
        except Exception as error:
            # the service looks at it, ends and is started again
            log.exception("%s: a bug ended its thread", self._label)
            self.failure = error
        finally:
            self.loop.rest()

    def _keep_hearing(self) -> None:
        wait_s = FIRST_WAIT_S
        while not self._stopping.is_set():
            self.loop.passed()
            try:
                with self._request() as request:
                    self._change("ready", f"{self._label} is heard")
                    wait_s = FIRST_WAIT_S
                    self._hear(request)
                    return
            except ImportError:
                self._change("lost", f"{self._label}: gpiod is not installed; pip install 'edge-infer[gpio]'")
            except (OSError, ValueError) as error:
                self._change("lost", f"{self._label} cannot be heard: {_reason(error)}")
            pause_s = wait_s * random.uniform(0.8, 1.2)  # noqa: S311 - no secret
            self.loop.passed(pause_s)
            self._stopping.wait(pause_s)
            wait_s = min(wait_s * 2, LONGEST_WAIT_S)

    def _request(self) -> LineRequest:
        import gpiod
        from gpiod.line import Clock, Direction, Edge

        wanted = gpiod.LineSettings(
            direction=Direction.INPUT,
            edge_detection=Edge.RISING if self._settings.edge == "rising" else Edge.FALLING,
            debounce_period=timedelta(milliseconds=self._settings.debounce_ms),
            # that of time.monotonic(), and of frames
            event_clock=Clock.MONOTONIC,
        )
        self._seen = 0
        return gpiod.request_lines(
            self._settings.chip,
            config={self._settings.line: wanted},
            consumer="edge-infer",
            event_buffer_size=_EVENTS,
        )

    def _hear(self, request: LineRequest) -> None:
        while not self._stopping.is_set():
            self.loop.passed()
            if request.wait_edge_events(LOOK_S):
                for event in request.read_edge_events():
                    self._pass_on(event)

    def _pass_on(self, event: EdgeEvent) -> None:
        if (lost := event.line_seqno - self._seen - 1) > 0:
            # they have no time, so no frame could answer them
            log.error(
                "%s: %d part(s) came faster than they could be read, nobody judged them", self._label, lost
            )
        self._seen = event.line_seqno
        self._count += 1 + max(0, lost)
        time_s = event.timestamp_ns / 1e9
        at = clock.now() - timedelta(seconds=max(0.0, time.monotonic() - time_s))
        self._station.accept(PartTrigger(time_s, at, part_id=f"{self._began}-{self._count}"))

    def _change(self, state: Literal["ready", "lost"], text: str) -> None:
        if state == self._state:
            return
        self._state = state
        log.log(logging.INFO if state == "ready" else logging.ERROR, "%s", text)
        self._station.trigger_changed(state, text)


def _reason(error: OSError | ValueError) -> str:
    if isinstance(error, PermissionError):
        return "no permission; add the service's user to the group of the chip, and DeviceAllow= to the unit"
    if isinstance(error, FileNotFoundError):
        return "there is no such chip; `gpiodetect` lists them"
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return f"{reason}; `gpioinfo` shows its lines and who uses them"
