"""The service's numbers for Prometheus: read from what counts them already, whenever somebody asks."""

from __future__ import annotations

import logging
import platform
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, get_args

from edge_infer import __version__, clock
from edge_infer.camera import Camera
from edge_infer.config.site import Site
from edge_infer.delivery import Delivery
from edge_infer.engines import Engines
from edge_infer.messages.camera import CameraMessage, CameraState
from edge_infer.metrics import catalogue as named
from edge_infer.metrics.energy import EnergyMeter
from edge_infer.metrics.sensors import hardware_monitors, thermal_zones, throttles
from edge_infer.metrics.server import Server
from edge_infer.metrics.settings import MetricsSettings
from edge_infer.metrics.textfile import Textfile
from edge_infer.mqtt import certificates
from edge_infer.mqtt.publisher import Publisher
from edge_infer.outbox import Outbox
from edge_infer.progress import Loop
from edge_infer.station.station import Station
from edge_infer.vitals import disk

if TYPE_CHECKING:
    from edge_infer.metrics.page import Sheet

log = logging.getLogger(__name__)

STOP_S = 0.1
"""Of a stop; what a disk or a client holds is left behind."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What is read. The mappings may change meanwhile."""

    site: Callable[[], Site]
    """That runs now."""
    stations: Mapping[str, Station]
    cameras: Mapping[str, Camera]
    engines: Engines
    outbox: Outbox
    publisher: Publisher
    delivery: Delivery
    state_dir: Path
    loops: Callable[[], Iterable[Loop]]
    """What systemd's watchdog is fed for."""


class Exposition:
    """`start`, then `stop`. Nobody waits for it."""

    def __init__(self, settings: MetricsSettings, parts: Parts) -> None:
        self._parts = parts
        self._sysfs = settings.sysfs
        self._energy = EnergyMeter(settings.sysfs)
        # loads prometheus_client
        from edge_infer.metrics.page import CONTENT_TYPE, Page

        page = Page(self._fill)
        self._server = self._textfile = None
        if settings.port is not None:
            self._where = f"http://{settings.address}:{settings.port}/metrics"
            self._server = Server(
                settings.address,
                settings.port,
                page.text,
                CONTENT_TYPE,
                changed=self._server_changed,
                idle=self._energy.read,
            )
        if settings.textfile is not None:
            self._textfile = Textfile(settings.textfile, page.text, settings.every_s, self._textfile_changed)

    def start(self) -> None:
        """From now on it can be asked."""
        for one in (self._server, self._textfile):
            if one is not None:
                one.start()

    def stop(self) -> None:
        """The port is closed, the file removed as far as that takes no time."""
        if self._textfile is not None:
            self._textfile.stop()
        if self._server is not None and not self._server.stop(STOP_S):
            log.warning("metrics: a page that was being made is left behind")

    def _server_changed(self, trouble: str | None) -> None:
        self._changed("http", trouble)

    def _textfile_changed(self, trouble: str | None) -> None:
        self._changed("textfile", trouble)

    def _changed(self, way: str, trouble: str | None) -> None:
        if trouble is None:
            log.info("metrics: %s works again", way)
        else:
            log.error("metrics: %s; it is tried again, the service runs on", trouble)
        state = "ready" if trouble is None else "failed"
        self._parts.publisher.event("metrics", {"way": way, "state": state, "text": trouble or "it works"})

    # -- the page

    def _fill(self, sheet: Sheet) -> None:
        sheet.tell(named.BUILD, 1, __version__, platform.python_version())
        sheet.tell(named.CONFIGURATION, 1, self._parts.site().sha256)
        sheet.tell(named.CLOCK_SYNCED, clock.synced())
        _loops(sheet, self._parts.loops())
        # an item may be added while one looks
        for name, station in list(self._parts.stations.items()):
            _station(sheet, name, station)
        for name, camera in list(self._parts.cameras.items()):
            tell_camera(sheet, name, camera)
        _models(sheet, self._parts.engines)
        _outbox(sheet, self._parts.outbox)
        _mqtt(sheet, self._parts.publisher)
        tls = self._parts.site().mqtt.tls
        if tls is not None:
            shown = self._parts.publisher.stats.broker_certificate
            for one in certificates.of_connection(tls, shown):
                sheet.tell(named.CERTIFICATE_EXPIRY, one.not_after.timestamp(), one.whose)
        _evidence(sheet, self._parts.delivery)
        self._device(sheet)

    def _device(self, sheet: Sheet) -> None:
        for sensor in (*thermal_zones(self._sysfs), *hardware_monitors(self._sysfs)):
            sheet.tell(named.TEMPERATURE, sensor.celsius, sensor.place, sensor.name)
        for scope, count in throttles(self._sysfs).items():
            sheet.tell(named.THROTTLES, count, scope)
        for energy in self._energy.read():
            sheet.tell(named.ENERGY, energy.joules, energy.zone, energy.name)
        if (room := disk(self._parts.state_dir)) is not None:
            sheet.tell(named.DISK_FREE, room.free_bytes)
            sheet.tell(named.DISK_SIZE, room.total_bytes)


def _loops(sheet: Sheet, loops: Iterable[Loop]) -> None:
    now_s, late_s = time.monotonic(), dict[str, float]()
    for loop in loops:
        # a model that takes the place of another one has loops of the same names
        late_s[loop.name] = max(late_s.get(loop.name, 0.0), loop.late_s(now_s))
    for name, late in late_s.items():
        sheet.tell(named.LOOP_LATE, late, name)


def _station(sheet: Sheet, name: str, station: Station) -> None:
    identity, settings, meter = station.identity, station.settings, station.meter
    recipe = identity.external_recipe.id if identity.external_recipe is not None else ""
    sheet.tell(named.STATION, 1, name, station.camera, settings.model, settings.trigger.type, recipe)
    for decision, count in meter.decisions.model_dump(by_alias=True).items():
        sheet.tell(named.DECISIONS, count, name, decision)
    for reason, count in meter.reasons.items():
        sheet.tell(named.REASONS, count, name, reason)
    sheet.tell(named.TRIGGERS, meter.triggers, name)
    sheet.tell(named.FRAMES_DROPPED, station.dropped, name)
    now_s = time.monotonic()
    sheet.tell(named.DECISION_AGE, meter.decision_age_s(now_s), name)
    sheet.tell(named.JUDGED_FRAME_AGE, meter.frame_age_s(now_s), name)
    for stage, histogram in meter.stages.items():
        sheet.tell_histogram(named.STAGE, histogram, name, stage)
    sheet.tell_histogram(named.CAPTURE_TO_DECISION, meter.capture_to_decision, name)


class Told(Protocol):
    """What of a camera is told."""

    @property
    def state(self) -> CameraState:
        """Just now."""

    @property
    def told(self) -> CameraMessage | None:
        """Its newest numbers."""


def tell_camera(sheet: Sheet, name: str, camera: Told) -> None:
    """Counters are as the camera told them last."""
    for state in get_args(CameraState):
        sheet.tell(named.CAMERA_STATE, camera.state == state, name, state)
    if (told := camera.told) is None:
        return
    sheet.tell(named.CAMERA_FRAMES, told.frames, name)
    sheet.tell(named.CAMERA_DROPPED, told.dropped, name)
    sheet.tell(named.CAMERA_DAMAGED, told.damaged, name)
    sheet.tell(named.CAMERA_PACKETS_LOST, told.packets_lost, name)
    sheet.tell(named.CAMERA_RECONNECTIONS, told.reconnections, name)
    sheet.tell(named.CAMERA_FPS, told.fps, name)


def _models(sheet: Sheet, engines: Engines) -> None:
    for name in sorted(engines.known):
        engine = engines.get(name)
        sheet.tell(named.MODEL_FAILED, engines.failure(name) is not None, name)
        if engine is None:
            continue
        network = engine.network
        sheet.tell(
            named.MODEL,
            1,
            name,
            network.identity.name,
            network.identity.version or "",
            network.identity.sha256,
            network.backend_name,
            network.device.requested,
            network.device.running,
            network.precision,
        )
        sheet.tell(named.MODEL_REQUESTS, network.requests, name)
        sheet.tell(named.MODEL_REQUESTS_IN_USE, engine.in_use, name)


def _outbox(sheet: Sheet, outbox: Outbox) -> None:
    stats = outbox.stats
    sheet.tell(named.OUTBOX_MESSAGES, stats.depth)
    sheet.tell(named.OUTBOX_BYTES, stats.bytes)
    sheet.tell(named.OUTBOX_IN_HAND, stats.in_hand)
    # what is done with is still in the file for a moment
    sheet.tell(named.OUTBOX_OLDEST_AGE, (stats.oldest_s or 0) if stats.depth else 0)
    sheet.tell(named.OUTBOX_DEAD, stats.dead)
    sheet.tell(named.OUTBOX_IN_MEMORY, stats.in_memory)
    sheet.tell(named.OUTBOX_COMMITTED, stats.committed)
    sheet.tell(named.OUTBOX_REFUSED, stats.refused)
    for decision in ("OK", "NOK", "UNDEFINED", "event"):
        sheet.tell(named.OUTBOX_GIVEN_UP, stats.given_up.get(decision, 0), decision)
    sheet.tell(named.OUTBOX_EVENTS_LOST, stats.events_lost)


def _mqtt(sheet: Sheet, publisher: Publisher) -> None:
    stats = publisher.stats
    sheet.tell(named.MQTT_CONNECTED, publisher.connected)
    sheet.tell(named.MQTT_RECONNECTIONS, max(0, stats.connections - 1))
    sheet.tell(named.MQTT_DELIVERED, stats.delivered)
    sheet.tell(named.MQTT_REFUSED, stats.refused)
    sheet.tell(named.MQTT_IN_FLIGHT, stats.in_flight)
    sheet.tell(named.MQTT_TAKEN_OVER, stats.taken_over)
    sheet.tell(named.MQTT_IMAGES, stats.images)
    sheet.tell(named.MQTT_IMAGES_DROPPED, stats.images_dropped)
    sheet.tell(named.MQTT_COMMANDS_DROPPED, stats.commands_dropped)


def _evidence(sheet: Sheet, delivery: Delivery) -> None:
    evidence = delivery.evidence
    if evidence is None:
        return
    sheet.tell(named.EVIDENCE_STORED, evidence.stored)
    sheet.tell(named.EVIDENCE_DROPPED, evidence.dropped)
    sheet.tell(named.EVIDENCE_BYTES, evidence.size_bytes)
    sheet.tell(named.EVIDENCE_STORING, evidence.storing)
