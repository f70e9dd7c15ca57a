"""What stands on the shop floor: the stations, cameras and light barriers that run, and how they change."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Mapping

from edge_infer.camera import Camera, State, Watcher
from edge_infer.config.site import Site
from edge_infer.delivery import Delivery
from edge_infer.engine import Engine
from edge_infer.frame import PartTrigger
from edge_infer.mqtt.publisher import Publisher
from edge_infer.outbox import Outbox, Shifts
from edge_infer.remote.recent import Recent
from edge_infer.settings import Secrets
from edge_infer.station.inspection import Unusable
from edge_infer.station.setup import Setup
from edge_infer.station.station import Station
from edge_infer.triggers import Listener, PartTriggerSettings

log = logging.getLogger(__name__)

BARRIER_S = 0.25
"""For a light barrier's thread to end."""
COMMIT_S = 1.0
"""For the last answers of a station that comes back."""


class Floor:
    """Made by the service. Its maps may be read by any thread as ``list(...)``: they change while it runs."""

    def __init__(
        self,
        *,
        delivery: Delivery,
        outbox: Outbox,
        publisher: Publisher,
        recent: Recent,
        secrets: Secrets,
        watcher: Watcher,
    ) -> None:
        self.stations: dict[str, Station] = {}
        self.cameras: dict[str, Camera] = {}
        self.barriers: dict[str, Listener] = {}
        """Light barriers on inputs of this machine, by station."""
        self.leaving: list[Camera] = []
        """That were asked to stop and may still hold their device."""
        self._delivery = delivery
        self._outbox = outbox
        self._publisher = publisher
        self._recent = recent
        self._secrets = secrets
        self._watcher = watcher
        self._removed: set[str] = set()
        """Stations that were there once."""

    # -- the start

    def open(self, site: Site, setups: Mapping[str, Setup]) -> None:
        """Everything is made, stations have answered what was open; no camera runs yet."""
        for name in site.stations:
            self.stations[name] = self._station(site, name, setups[name])
            self._answer_open(self.stations[name])
            self.stations[name].start()
        for name in site.cameras:
            if name in _used(site):
                self._camera(site, name, None)
            else:
                log.warning("camera %s: no station uses it; it is not opened", name)

    def start(self) -> None:
        """Cameras and light barriers."""
        for camera in self.cameras.values():
            camera.start()
        for station in self.stations.values():
            self._hear_parts(station)

    # -- while it runs

    def change(self, before: Site, after: Site, setups: Mapping[str, Setup]) -> None:
        """From the next inspection on each station is what ``after`` says; those that are as before run on.

        A station whose camera or trigger is another one is replaced: its open parts are answered UNDEFINED,
        its results go on counting. Waits for no camera.
        """
        used = _used(after)
        closing = {
            name: camera
            for name, camera in self.cameras.items()
            if name not in used or camera.settings != after.cameras[name]
        }
        gone = [name for name in self.stations if name not in after.stations]
        moved = [
            name
            for name, station in self.stations.items()
            if name in after.stations and (station.camera in closing or _is_moved(before, after, name))
        ]
        old = self._end(gone, moved, closing)
        for name, station in self.stations.items():
            if name not in old:
                station.configure(setups[name])
        new = {
            name: self._station(after, name, setups[name], old.get(name))
            for name in after.stations
            if name in old or name not in self.stations
        }
        self._exchange(gone, new)
        for name in set(new) - set(old):
            if name not in self._removed or self._outbox.flush(COMMIT_S):
                self._answer_open(new[name])
        self._change_cameras(after, closing)
        for station in new.values():
            station.start()
            camera = self.cameras[station.camera]
            if camera.name not in closing:
                self.tell(station, camera.state, camera.text)
            self._hear_parts(station)
        if before.shifts != after.shifts or gone or new:
            self._delivery.follow_shifts(Shifts(after.shifts), after.stations)

    def _end(
        self, gone: Collection[str], moved: Collection[str], closing: Mapping[str, Camera]
    ) -> dict[str, Station]:
        """What is open there is answered; nothing more comes of them."""
        old = {name: self.stations[name] for name in (*gone, *moved)}
        for name in old:
            if (barrier := self.barriers.pop(name, None)) is not None:
                barrier.stop(BARRIER_S)
        self.leaving = [one for one in self.leaving if not one.join(0.0)]
        for camera in closing.values():
            camera.stop()
            self.leaving.append(camera)
        for name, station in old.items():
            what = "removed" if name in gone else "given another camera or trigger"
            station.stop(f"the station was {what} by a new configuration")
        return old

    def _exchange(self, gone: Collection[str], new: Mapping[str, Station]) -> None:
        for name in gone:
            del self.stations[name]
            self._publisher.forget(name)
            self._recent.forget(name)
        self._removed.update(gone)
        for name in new:
            self._publisher.expect(name)
        self.stations.update(new)

    def uses(self, engine: Engine) -> bool:
        """Whether a station still has something for it."""
        return any(station.uses(engine) for station in list(self.stations.values()))

    def _change_cameras(self, site: Site, closing: Mapping[str, Camera]) -> None:
        opened = [
            self._camera(site, name, closing.get(name)) for name in _used(site) if self._opens(name, closing)
        ]
        for name in closing:
            if name not in _used(site):
                del self.cameras[name]
                self._publisher.forget_camera(name)
        for name, camera in self.cameras.items():
            if camera not in opened:
                viewers = [one for one in self.stations.values() if one.camera == name]
                camera.show_to(viewers)
                for station in viewers:
                    station.fire = camera.fire
        for camera in opened:
            camera.start()

    def _opens(self, name: str, closing: Mapping[str, Camera]) -> bool:
        return name in closing or name not in self.cameras

    def tell(self, station: Station, state: State, text: str) -> None:
        """How its camera is."""
        if state in ("connected", "frozen"):
            # each frame of a frozen camera says so itself
            station.recovered()
        elif state in ("lost", "busy"):
            station.trouble(Unusable("camera_lost", text))
        elif state == "stalled":
            station.trouble(Unusable("stale", text))
        elif state in ("ended", "failed"):
            station.end_recording(broken_off=text if state == "failed" else None)

    # -- one of them

    def _station(self, site: Site, name: str, setup: Setup, before: Station | None = None) -> Station:
        camera = site.cameras[site.stations[name].camera]
        return Station(
            setup, self._delivery, recorded=camera.recorded, max_age_s=camera.max_age_s, before=before
        )

    def _answer_open(self, station: Station) -> None:
        """Parts that asked before the service stopped, or before the station was removed."""
        for job in self._outbox.open_triggers(station.name):
            station.restarted(
                PartTrigger(time.monotonic(), job.received_at, part_id=job.part_id, job_id=job.job_id)
            )

    def _camera(self, site: Site, name: str, after: Camera | None) -> Camera:
        viewers = [one for one in self.stations.values() if one.camera == name]
        camera = Camera(name, site.cameras[name], self._secrets, viewers, self._watcher, after=after)
        self.cameras[name] = camera
        for station in viewers:
            station.fire = camera.fire
        return camera

    def _hear_parts(self, station: Station) -> None:
        trigger = station.settings.trigger
        if isinstance(trigger, PartTriggerSettings):
            barrier = trigger.listen(station.name, _Barrier(station, self._publisher))
            if barrier is not None:
                self.barriers[station.name] = barrier


class _Barrier:
    """A station as its light barrier sees it."""

    def __init__(self, station: Station, publisher: Publisher) -> None:
        self._station = station
        self._publisher = publisher
        self.accept = station.accept

    def trigger_changed(self, state: str, text: str) -> None:
        """Told as an event: the station's parts cannot be heard meanwhile."""
        self._publisher.event("trigger", {"state": state, "text": text}, self._station.name)


def _used(site: Site) -> list[str]:
    """The cameras that stations see through."""
    return list(dict.fromkeys(one.camera for one in site.stations.values()))


def _is_moved(before: Site, after: Site, station: str) -> bool:
    was, now = before.stations[station], after.stations[station]
    return (was.camera, was.trigger) != (now.camera, now.trigger)
