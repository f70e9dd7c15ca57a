"""The composition root: configuration -> open -> run -> stop."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import cv2

from edge_infer import __version__, clock
from edge_infer.backends.blobs import Blobs
from edge_infer.camera import State
from edge_infer.changeover import Changeover, Configurations, Floor
from edge_infer.changeover.by_signal import ReloadBySignal
from edge_infer.changeover.control import Levers
from edge_infer.changeover.desk import Desk
from edge_infer.config.site import Site
from edge_infer.ctl.protocol import SOCKET
from edge_infer.ctl.server import Server
from edge_infer.delivery import Delivery
from edge_infer.engine import Engine
from edge_infer.engines import Engines
from edge_infer.exposition import Exposition, Parts
from edge_infer.inventory import info
from edge_infer.messages.camera import CameraMessage
from edge_infer.mqtt.publisher import Publisher
from edge_infer.outbox import Outbox, Shifts
from edge_infer.progress import Loop
from edge_infer.remote.commands import Commands
from edge_infer.remote.control import Control
from edge_infer.remote.reach import Reach
from edge_infer.remote.recent import Recent
from edge_infer.sdnotify import Notifier
from edge_infer.settings import Secrets
from edge_infer.station.setup import Setup
from edge_infer.station.station import Station
from edge_infer.supervision import Supervision
from edge_infer.vitals import Vitals

log = logging.getLogger(__name__)

TICK_S = 0.02
"""How exactly deadlines are kept."""
STOP_S = 4.5
"""A stop must be over within 5 s, whatever hangs."""
OPENER_S, ENGINES_S, EVIDENCE_S, COMMIT_S, PUBLISHER_S, BARRIER_S = 0.5, 1.0, 0.4, 1.2, 1.0, 0.25
"""What each step may take of it."""
CHANGE_S = 0.3
"""For a change of the configuration that is just made; one that is prepared is dropped."""
DELIVER_S = 30.0
"""After the end of a recording: how long a connected broker may take for what waits."""


class Service:
    """Runs one site until asked to stop, or until every camera's recording has ended."""

    def __init__(
        self,
        site: Site,
        *,
        state_dir: Path,
        cache_dir: Path,
        secrets: Secrets,
        notifier: Notifier,
        runtime_dir: Path | None = None,
    ) -> None:
        """``runtime_dir``: for what lives only as long as the service; default the state folder."""
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
        self._engines = Engines(Blobs(cache_dir / "networks"))
        self._changeover: Changeover | None = None
        self._configurations: Configurations | None = None
        self._state_dir = state_dir
        self._floor = Floor(
            delivery=self._delivery,
            outbox=self._outbox,
            publisher=self._publisher,
            recent=self._recent,
            secrets=secrets,
            watcher=self,
        )
        # they change while it runs
        self._stations, self._cameras = self._floor.stations, self._floor.cameras
        if site.evidence is not None:
            self._delivery.keep_pictures(site.evidence, state_dir / "evidence")
        self._opener: threading.Thread | None = None
        self._since = clock.now()
        self._desk = Desk(self._floor, self._engines, since=self._since, stopping=lambda: self._stopping)
        self._ctl = Server((runtime_dir or state_dir) / SOCKET, self._desk.answer)
        self._started_s = time.monotonic()
        exposed = Parts(
            site=lambda: self._changeover.site if self._changeover is not None else site,
            stations=self._stations,
            cameras=self._cameras,
            engines=self._engines,
            outbox=self._outbox,
            publisher=self._publisher,
            delivery=self._delivery,
            state_dir=state_dir,
            loops=self._loops,
        )
        self._exposition = Exposition(site.metrics, exposed) if site.metrics is not None else None
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

        self._reload = ReloadBySignal(begins=self._supervision.reloading, ends=self._supervision.reloaded)

    def reload(self) -> None:
        """Ask `run` to read the configuration again; safe in a signal handler."""
        self._reload.ask()

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
            self._ctl.start()
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
        configurations = Configurations(
            self._site,
            self._state_dir,
            self._engines,
            self._changed,
            secrets=self._secrets,
            stopping=lambda: self._stopping,
        )
        changeover = Changeover(
            self._site,
            self._engines,
            self._state_dir,
            self._changed,
            boot_id=clock.boot_id(),
            floor=self,
            number=configurations.number,
        )
        self._changeover = changeover
        self._floor.open(self._site, {name: changeover.setup(name) for name in self._site.stations})
        if self._stopping:
            return
        for gone in self._outbox.stations - set(self._site.stations):
            # removed while nothing ran: the broker must not keep what they said
            self._publisher.forget(gone)
        self._listen(Levers(changeover, configurations))
        self._engines.start()
        self._floor.start()
        # not before: a change starts what is new, and all of it is started here
        configurations.run(changeover)
        self._configurations = configurations
        configurations.loaded()
        self._desk.open(changeover, configurations)

    def _changed(self, kind: str, data: Mapping[str, Any], station: str | None = None) -> None:
        """What stations run is another one now, or may be."""
        self._publisher.event(kind, data, station)
        if self._changeover is not None:
            self._publisher.info(
                info(
                    self._changeover.site,
                    list(self._stations.values()),
                    boot_id=clock.boot_id(),
                    since=self._since,
                    number=self._changeover.number,
                    rolled_back=self._configurations.left if self._configurations is not None else None,
                )
            )

    def _listen(self, control: Control) -> None:
        reach = Reach(
            control=control,
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

    # -- as the changeover's floor

    @property
    def stations(self) -> Mapping[str, Station]:
        """By name."""
        return self._stations

    def change(self, before: Site, after: Site, setups: Mapping[str, Setup]) -> None:
        """Another configuration runs from the next inspections on."""
        if before.outbox != after.outbox:
            self._outbox.configure(after.outbox)
        if before.evidence != after.evidence and after.evidence is not None:
            self._delivery.change_pictures(after.evidence)
        self._recent.keep_scenes("snapshot" in after.commands.allow)
        self._floor.change(before, after, setups)
        if self._commands is not None:
            self._commands.listen(after.commands)

    def uses(self, engine: Engine) -> bool:
        """Whether a station still has something for it."""
        return self._floor.uses(engine)

    # -- run

    def camera_changed(self, camera: str, state: State, text: str) -> None:
        """Called by a camera's own thread."""
        self._publisher.event("camera", {"camera": camera, "state": state, "text": text})
        for station in list(self._stations.values()):
            if station.camera == camera:
                self._floor.tell(station, state, text)

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
            self._reload.look(self._configurations)
            for station in list(self._stations.values()):
                station.check_deadlines()
            self._supervision.look()
            now_s = time.monotonic()
            if not all(one.settings.recorded and one.ended.is_set() for one in list(self._cameras.values())):
                deliver_until_s = None
                continue
            if deliver_until_s is None:
                self._outbox.flush(COMMIT_S)
                deliver_until_s = time.monotonic() + DELIVER_S
            if not self._publisher.connected or not self._outbox.depth() or now_s > deliver_until_s:
                return

    def _check_health(self) -> None:
        """A thread that a bug ended is the service's end: systemd starts it again, nothing is lost."""
        failures = [
            *self._engines.bugs,
            *(camera.failure for camera in list(self._cameras.values())),
            *(barrier.failure for barrier in list(self._floor.barriers.values())),
            self._changeover.failure if self._changeover is not None else None,
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
            *(barrier.loop for barrier in list(self._floor.barriers.values())),
            self._outbox.loop,
            *self._publisher.loops,
            *self._delivery.loops,
            self._vitals.loop,
            *([self._configurations.loop] if self._configurations is not None else ()),
        ]

    # -- stop

    def _end_changes(self) -> None:
        self._ctl.stop()
        if self._changeover is not None and not self._changeover.close(CHANGE_S):
            self.left_behind.append("a change of the configuration")

    def _close(self) -> None:
        """Front to back with time limits: what is in hand is committed whatever hangs."""
        end_s = time.monotonic() + STOP_S
        self._end_changes()
        self._vitals.stop()
        if self._exposition is not None:
            self._exposition.stop()
        if self._opener is not None:
            # it looks at the flag between two models
            self._opener.join(OPENER_S)
        if self._commands is not None and not self._commands.close():
            self.left_behind.append("a command")
        cameras = [*self._cameras.values(), *self._floor.leaving]
        for camera in cameras:
            camera.stop()
        self.left_behind += [
            f"line of {name}" for name, one in self._floor.barriers.items() if not one.stop(BARRIER_S)
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
