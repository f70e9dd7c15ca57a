"""The composition root: configuration -> open -> run -> stop."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cv2

from edge_infer import __version__, clock
from edge_infer.camera import Camera, State
from edge_infer.changeover import Changeover
from edge_infer.config.site import Site
from edge_infer.delivery import Delivery
from edge_infer.engines import Engines
from edge_infer.errors import EdgeInferError
from edge_infer.frame import PartTrigger
from edge_infer.inventory import info
from edge_infer.messages.camera import CameraMessage
from edge_infer.metrics.settings import MetricsSettings
from edge_infer.mqtt.publisher import Publisher
from edge_infer.outbox import Outbox, Shifts
from edge_infer.progress import Loop
from edge_infer.remote.commands import Commands
from edge_infer.remote.reach import Reach
from edge_infer.remote.recent import Recent
from edge_infer.sdnotify import Notifier
from edge_infer.settings import Secrets
from edge_infer.station.inspection import Unusable
from edge_infer.station.station import Station
from edge_infer.supervision import Supervision
from edge_infer.triggers import Listener, PartTriggerSettings
from edge_infer.vitals import Vitals

if TYPE_CHECKING:
    from edge_infer.exposition import Exposition

log = logging.getLogger(__name__)

TICK_S = 0.02
"""How exactly deadlines are kept."""
STOP_S = 4.5
"""A stop must be over within 5 s, whatever hangs."""
OPENER_S, ENGINES_S, EVIDENCE_S, COMMIT_S, PUBLISHER_S, BARRIER_S = 0.5, 1.0, 0.4, 1.2, 1.0, 0.25
"""What each step may take of it."""
DELIVER_S = 30.0
"""After the end of a recording: how long a connected broker may take for what waits."""


class Service:
    """Runs one site until asked to stop, or until every camera's recording has ended."""

    def __init__(self, site: Site, *, state_dir: Path, secrets: Secrets, notifier: Notifier) -> None:
        self._site = site
        self._secrets = secrets
        # a plain flag: a signal handler may come while this thread holds an event's lock
        self._stopping = False
        self._opened = False
        self.left_behind: list[str] = []
        """What did not come back at the stop; its threads may still be in a library's code."""
        self._outbox = Outbox.open(state_dir, site.outbox)
        self._publisher = Publisher(
            site.mqtt,
            self._outbox,
            prefix=site.topic_prefix,
            secrets=secrets,
            device=site.device,
            boot_id=clock.boot_id(),
            version=__version__,
        )
        self._recent = Recent(scenes="snapshot" in site.commands.allow)
        self._delivery = Delivery(self._outbox, self._publisher, site.topic_prefix, self._recent)
        self._commands: Commands | None = None
        self._delivery.follow_shifts(Shifts(site.shifts), site.stations)
        self._engines = Engines()
        self._changeover: Changeover | None = None
        self._state_dir = state_dir
        self._stations: dict[str, Station] = {}
        self._cameras: dict[str, Camera] = {}
        self._barriers: dict[str, Listener] = {}
        """Light barriers on inputs of this machine, by station."""
        if site.evidence is not None:
            self._delivery.keep_pictures(site.evidence, state_dir / "evidence")
        self._opener: threading.Thread | None = None
        self._reloader: threading.Thread | None = None
        self._reload_asked = False
        self._since = clock.now()
        self._started_s = time.monotonic()
        self._exposition: Exposition | None = None
        if site.metrics is not None:
            self._exposition = self._expose(site.metrics)
        self._vitals = Vitals(
            self._publisher,
            self._outbox,
            stations=self._stations,
            cameras=self._cameras,
            tls=site.mqtt.tls,
            state_dir=state_dir,
            boot_id=clock.boot_id(),
        )
        self._supervision = Supervision(
            notifier, self._publisher, stations=self._stations, cameras=self._cameras, loops=self._loops
        )

    def _expose(self, settings: MetricsSettings) -> Exposition:
        # loads prometheus_client
        from edge_infer.exposition import Exposition, Parts

        parts = Parts(
            site=lambda: self._changeover.site if self._changeover is not None else self._site,
            stations=self._stations,
            cameras=self._cameras,
            engines=self._engines,
            outbox=self._outbox,
            publisher=self._publisher,
            delivery=self._delivery,
            state_dir=self._state_dir,
        )
        return Exposition(settings, parts)

    def reload(self) -> None:
        """Ask `run` to read the configuration again; safe in a signal handler."""
        self._reload_asked = True

    def stop(self) -> None:
        """Ask `run` to end; safe in a signal handler."""
        self._stopping = True

    def run(self) -> bool:
        """True where all went well; False where a model could not run or a recording ended in an error."""
        # a resize is faster alone than waiting for a core that the runtime holds
        cv2.setNumThreads(1)
        self._publisher.start()
        try:
            self._vitals.start()
            if self._exposition is not None:
                self._exposition.start()
            self._open_watched()
            self._watch()
        finally:
            self._supervision.stopping()
            self._close()
        failed = any(camera.state == "failed" for camera in self._cameras.values())
        return not failed and (not self._opened or not self._engines.failed)

    # -- open

    def _open_watched(self) -> None:
        """Loading takes seconds, a compile minutes: a stop does not wait for it."""
        failure: list[Exception] = []

        def load() -> None:
            try:
                self._open()
            except Exception as error:  # noqa: BLE001 - raised again by the thread that waits
                failure.append(error)

        self._opener = threading.Thread(target=load, name="open", daemon=True)
        self._opener.start()
        while self._opener.is_alive() and not self._stopping:
            self._opener.join(TICK_S)
            self._supervision.look()
        if failure:
            raise failure[0]

    def _open(self) -> None:
        said = self._supervision
        if not self._engines.open(self._site, said.loading, self._publisher.event, lambda: self._stopping):
            return
        said.loaded()
        changeover = Changeover(
            self._site, self._engines, self._state_dir, self._changed, boot_id=clock.boot_id()
        )
        self._changeover = changeover
        for name in self._site.stations:
            self._open_station(name, changeover)
        for name, settings in self._site.cameras.items():
            viewers = [one for one in self._stations.values() if one.camera == name]
            if not viewers:
                log.warning("camera %s: no station uses it; it is not opened", name)
                continue
            camera = self._cameras[name] = Camera(name, settings, self._secrets, viewers, self)
            for station in viewers:
                station.fire = camera.fire
        if self._stopping:
            return
        self._listen(changeover)
        self._engines.start()
        for camera in self._cameras.values():
            camera.start()
        for name, station in self._stations.items():
            self._hear_parts(name, station)
        changeover.loaded()

    def _changed(self, kind: str, data: Mapping[str, Any], station: str | None = None) -> None:
        """What stations run is another one now, or may be."""
        self._publisher.event(kind, data, station)
        if self._changeover is not None:
            stations = list(self._stations.values())
            self._publisher.info(
                info(self._changeover.site, stations, boot_id=clock.boot_id(), since=self._since)
            )

    def _open_station(self, name: str, changeover: Changeover) -> None:
        settings = self._site.stations[name]
        camera = self._site.cameras[settings.camera]
        station = Station(
            changeover.setup(name), self._delivery, recorded=camera.recorded, max_age_s=camera.max_age_s
        )
        self._stations[name] = station
        for job in self._outbox.open_triggers(name):
            station.restarted(
                PartTrigger(time.monotonic(), job.received_at, part_id=job.part_id, job_id=job.job_id)
            )
        station.start()
        changeover.run(station)

    def _hear_parts(self, name: str, station: Station) -> None:
        trigger = station.settings.trigger
        if isinstance(trigger, PartTriggerSettings):
            barrier = trigger.listen(name, _Barrier(station, self._publisher))
            if barrier is not None:
                self._barriers[name] = barrier

    def _listen(self, changeover: Changeover) -> None:
        reach = Reach(
            control=changeover,
            stations=self._stations,
            cameras=self._cameras,
            outbox=self._outbox,
            publisher=self._publisher,
            recent=self._recent,
            prefix=self._site.topic_prefix,
            valid_s=self._site.mqtt.valid_s,
            boot_id=clock.boot_id(),
            version=__version__,
            started_at=self._since,
            started_s=self._started_s,
        )
        self._commands = Commands(reach, self._state_dir)
        self._commands.listen(self._site.commands)

    # -- run

    def camera_changed(self, camera: str, state: State, text: str) -> None:
        """Called by a camera's own thread."""
        self._publisher.event("camera", {"camera": camera, "state": state, "text": text})
        stations = [one for one in self._stations.values() if one.camera == camera]
        for station in stations:
            if state in ("connected", "frozen"):
                # each frame of a frozen camera says so itself
                station.recovered()
            elif state in ("lost", "busy"):
                station.trouble(Unusable("camera_lost", text))
            elif state == "stalled":
                station.trouble(Unusable("stale", text))
            elif state in ("ended", "failed"):
                station.end_recording(broken_off=text if state == "failed" else None)

    def camera_counted(self, message: CameraMessage) -> None:
        """Called by a camera's own thread."""
        self._publisher.camera(message)

    def _watch(self) -> None:
        """Keep deadlines, tell systemd how it goes, end with the recordings."""
        deliver_until_s: float | None = None
        if not self._stopping:
            self._opened = True
            self._supervision.opened()
        while not self._stopping:
            time.sleep(TICK_S)
            self._check_health()
            self._reload_if_asked()
            for station in self._stations.values():
                station.check_deadlines()
            self._supervision.look()
            now_s = time.monotonic()
            if not all(one.settings.recorded and one.ended.is_set() for one in self._cameras.values()):
                continue
            if deliver_until_s is None:
                self._outbox.flush(COMMIT_S)
                deliver_until_s = time.monotonic() + DELIVER_S
            if not self._publisher.connected or not self._outbox.depth() or now_s > deliver_until_s:
                return

    def _reload_if_asked(self) -> None:
        """In a thread of its own: it reads files, and deadlines do not wait for a disk."""
        changeover = self._changeover
        busy = self._reloader is not None and self._reloader.is_alive()
        if not self._reload_asked or busy or changeover is None:
            return
        self._reload_asked = False

        def load() -> None:
            try:
                changeover.reload(by="SIGHUP")
            except EdgeInferError:
                pass  # told in the log and as an event
            except Exception:
                # what runs goes on: a configuration that was not applied changes nothing
                log.exception("a bug while the configuration was read again")

        self._reloader = threading.Thread(target=load, name="reload", daemon=True)
        self._reloader.start()

    def _check_health(self) -> None:
        """A thread that a bug ended is the service's end: systemd starts it again, nothing is lost."""
        failures = [
            *self._engines.bugs,
            *(camera.failure for camera in self._cameras.values()),
            *(barrier.failure for barrier in self._barriers.values()),
            self._outbox.failure,
            self._publisher.failure,
        ]
        for failure in failures:
            if failure is not None:
                raise failure

    def _loops(self) -> list[Loop]:
        """All that must come on; others at another time."""
        return [
            *self._engines.loops,
            *(camera.loop for camera in list(self._cameras.values())),
            *(barrier.loop for barrier in list(self._barriers.values())),
            self._outbox.loop,
            *self._publisher.loops,
            *self._delivery.loops,
            self._vitals.loop,
        ]

    # -- stop

    def _close(self) -> None:
        """Front to back with time limits: what is in hand is committed whatever hangs."""
        end_s = time.monotonic() + STOP_S
        self._vitals.stop()
        if self._exposition is not None:
            self._exposition.stop()
        if self._opener is not None:
            # it looks at the flag between two models
            self._opener.join(OPENER_S)
        if self._commands is not None and not self._commands.close():
            self.left_behind.append("a command")
        cameras = list(self._cameras.values())
        for camera in cameras:
            camera.stop()
        self.left_behind += [
            f"line of {name}" for name, one in self._barriers.items() if not one.stop(BARRIER_S)
        ]
        self.left_behind += [f"model {name}" for name in self._engines.stop(ENGINES_S)]
        stations = list(self._stations.items())
        for _, station in stations:
            station.stop()
        self._delivery.close(EVIDENCE_S)
        # results first to disk, then what the broker takes in the time left
        self._outbox.flush(COMMIT_S)
        self._publisher.stop(PUBLISHER_S)
        for camera in cameras:
            if not camera.join(max(0.0, end_s - 0.5 - time.monotonic())):
                self.left_behind.append(f"camera {camera.name}")
        if self._opener is not None and self._opener.is_alive():
            self.left_behind.append("a model that was being loaded")
        if waiting := self._outbox.depth():
            log.info("%d message(s) wait in the outbox and are sent at the next start", waiting)
        for name, station in stations:
            if station.dropped:
                log.info("station %s: %d frame(s) gave way to newer ones", name, station.dropped)
        self._outbox.close(max(0.3, end_s - time.monotonic()))
        if self.left_behind:
            log.error("did not come back in time and left behind: %s", ", ".join(self.left_behind))


class _Barrier:
    """A station as its light barrier sees it."""

    def __init__(self, station: Station, publisher: Publisher) -> None:
        self._station = station
        self._publisher = publisher
        self.accept = station.accept

    def trigger_changed(self, state: str, text: str) -> None:
        """Told as an event: the station's parts cannot be heard meanwhile."""
        self._publisher.event("trigger", {"state": state, "text": text}, self._station.name)
