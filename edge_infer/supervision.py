"""What systemd is told of the service: READY, STATUS, and that it comes on."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from edge_infer import clock, logs
from edge_infer.camera import Camera
from edge_infer.mqtt.publisher import Publisher
from edge_infer.progress import Loop, Watch
from edge_infer.sdnotify import Notifier
from edge_infer.station.inspection import Unusable
from edge_infer.station.station import Station

log = logging.getLogger(__name__)

LOOK_S = 0.2
"""Between two looks at the loops, where systemd does not want to hear more often."""
TELL_S = 1.0
"""Between two looks whether STATUS says something else."""
EXTEND_S = 60.0
"""While it starts systemd hears that often, and waits that long for the next word."""
LOADING_S = 120.0
"""A model that is loaded and compiled for longer is told."""
LOADING_PATIENCE_S = 480.0
"""After that no more time is asked for: systemd ends the start and tries again."""
FIRST_FRAME_S = 120.0
"""A camera that is neither lost nor gives a frame for so long after the start: its stations say so."""


class Event(Protocol):
    """Tells that something happened."""

    def __call__(self, kind: str, data: Mapping[str, Any], station: str | None = None) -> None:
        """Hands over at once."""


class Supervision:
    """Used by the service's main thread; no timer feeds the watchdog beside it."""

    def __init__(
        self,
        notifier: Notifier,
        publisher: Publisher,
        *,
        stations: Mapping[str, Station],
        cameras: Mapping[str, Camera],
        loops: Callable[[], Iterable[Loop]],
    ) -> None:
        """``stations``, ``cameras`` and ``loops`` may be others at each look."""
        self._notifier = notifier
        self._publisher = publisher
        self._stations = stations
        self._cameras = cameras
        self._loading = ""
        self._opening = Loop("loading of a model", limit_s=LOADING_S, patience_s=LOADING_PATIENCE_S)
        self._watch = Watch(lambda: (self._opening, *loops()), hangs=self._hangs, resumed=self._resumed)
        self._ready = False
        self._ready_untold = False
        """systemd did not take READY: without it, it would end the service."""
        self._opened_s: float | None = None
        self._status = ""
        self._hopeless_told = False
        self._next_look_s = self._next_status_s = self._next_word_s = 0.0
        self._step = clock.Step()

    # -- while it starts

    def loading(self, model: str) -> None:
        """The next model is loaded, compiled and verified. Called by the thread that does it."""
        self._opening.passed()
        self._loading = model

    def loaded(self) -> None:
        """All models are there, or are known not to be. Called by the thread that loaded them."""
        self._opening.rest()

    def opened(self) -> None:
        """Cameras and stations have begun."""
        self._loading = ""
        self._opened_s = time.monotonic()

    # -- always

    def look(self) -> None:
        """Often: feeds the watchdog as long as every loop comes on, says READY and STATUS. Costs little."""
        now_s = time.monotonic()
        if now_s < self._next_look_s:
            return
        self._next_look_s = now_s + min(LOOK_S, self._notifier.watchdog_s or LOOK_S)
        well = self._watch.look()
        self._tell_hopeless()
        self._look_at_clock()
        if self._ready_untold:
            self._ready_untold = not self._notifier.send(READY="1")
        if not self._ready:
            self._start(now_s, well=well)
        elif (
            well
            and self._notifier.watchdog_s is not None
            and now_s >= self._next_word_s
            and self._notifier.send(WATCHDOG="1")
        ):
            self._next_word_s = now_s + self._notifier.watchdog_s
        if now_s >= self._next_status_s:
            self._next_status_s = now_s + TELL_S
            self._tell(self._words())
            logs.tell_repeats()

    def reloading(self) -> None:
        """The configuration is read again. Called by the thread that does it."""
        self._notifier.reloading()

    def reloaded(self) -> None:
        """It runs, or what ran goes on."""
        if self._ready:
            self._ready_untold = not self._notifier.send(READY="1")

    def stopping(self) -> None:
        """The last word."""
        self._notifier.send(STOPPING="1", STATUS="stopping: what is in hand is stored")

    def _start(self, now_s: float, *, well: bool) -> None:
        if self._opened_s is not None:
            if now_s - self._opened_s > FIRST_FRAME_S:
                self._give_up_first_frames()
            if not self._waits_for():
                self._ready = True
                # the watchdog's time begins now
                self._next_word_s = now_s
                # with the words of now: `systemctl start` returns and somebody looks
                self._status = self._words()
                self._ready_untold = not self._notifier.send(READY="1", STATUS=self._status)
                log.info("ready: %s", self._status)
                return
        if well and now_s >= self._next_word_s:
            self._next_word_s = now_s + EXTEND_S / 3
            self._notifier.extend(EXTEND_S)

    def _waits_for(self) -> list[Station]:
        """Those that neither run nor have published why they do not."""
        return [station for station in list(self._stations.values()) if not self._is_heard(station)]

    def _is_heard(self, station: Station) -> bool:
        camera = self._cameras.get(station.camera)
        if camera is None:
            # a new configuration takes it away just now
            return True
        # a part that asks would be answered
        listens = station.settings.trigger.triggered and camera.state in ("connected", "frozen")
        return bool(station.meter.total) or listens or camera.ended.is_set()

    def _give_up_first_frames(self) -> None:
        for station in self._waits_for():
            if station.newest_frame is None:
                text = f"camera {station.camera} gave no frame within {FIRST_FRAME_S:g} s of the start"
                station.trouble(Unusable("camera_lost", text))

    # -- loops

    def _hangs(self, loop: Loop) -> None:
        restart = loop.patience_s < float("inf")
        log.error("%s does not come on%s", loop.name, "" if restart else "; the others go on")
        self._publisher.event("loop_hangs", {"loop": loop.name, "restart": restart})
        for camera in list(self._cameras.values()):
            if camera.loop is loop:
                self._blind(camera)

    def _blind(self, camera: Camera) -> None:
        """Nobody else can say it: its own thread is in its library's hands."""
        text = f"camera {camera.name}: its driver does not come back"
        for station in list(self._stations.values()):
            if station.camera == camera.name:
                station.trouble(Unusable("stale", text))

    def _resumed(self, loop: Loop, after_s: float) -> None:
        log.warning("%s comes on again, %.0f s late", loop.name, after_s)
        self._publisher.event("loop_resumed", {"loop": loop.name, "afterS": round(after_s, 1)})

    def _tell_hopeless(self) -> None:
        hopeless = self._watch.hopeless
        if hopeless and not self._hopeless_told and self._notifier.watchdog_s is not None:
            log.critical(
                "%s: systemd's watchdog is not fed any more, it starts the service again",
                ", ".join(loop.name for loop in hopeless),
            )
        self._hopeless_told = bool(hopeless)

    # -- the clock

    def _look_at_clock(self) -> None:
        by_s = self._step.look()
        if by_s is None:
            return
        log.warning("the clock was set by %+.1f s", by_s)
        self._publisher.event("clock_stepped", {"byS": round(by_s, 1), "synced": clock.synced()})

    # -- words

    def _tell(self, status: str) -> None:
        if status != self._status and self._notifier.send(STATUS=status):
            self._status = status

    def _words(self) -> str:
        parts = [f"{name} HANGS" for name in self._watch.hung]
        if self._opened_s is None:
            parts.append(f"starting: model {self._loading} is loaded" if self._loading else "starting")
        elif not self._ready and (waiting := self._waits_for()):
            first = ", ".join(f"{one.name} (camera {one.camera})" for one in waiting)
            parts.append(f"starting: waits for the first frame of {first}")
        else:
            parts += self._stations_words()
        parts.append(self._broker_words())
        return "; ".join(parts)

    def _stations_words(self) -> list[str]:
        stations = list(self._stations.values())
        troubles = [
            f"{one.name} UNDEFINED: {why}" for one in stations if (why := self._blind_by(one)) is not None
        ]
        # new ones of a reload: nobody knows yet whether their camera gives anything
        troubles += [
            f"{one.name} waits for the first frame of camera {one.camera}"
            for one in self._waits_for()
            if one.unusable is None
        ]
        return [f"{len(stations) - len(troubles)} of {len(stations)} stations judge", *troubles]

    def _blind_by(self, station: Station) -> str | None:
        if station.unusable is not None:
            return station.unusable.text
        camera = self._cameras.get(station.camera)
        return camera.blinds if camera is not None else None

    def _broker_words(self) -> str:
        if self._publisher.connected:
            return "broker connected"
        trouble = self._publisher.stats.trouble
        return f"broker away, results are kept ({trouble})" if trouble else "broker not connected yet"
