"""How the device is doing, told every half minute on ``{prefix}/stats``, on a thread of its own."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

from edge_infer import clock
from edge_infer.camera import Camera
from edge_infer.messages.stats import (
    CameraStats,
    CertificateStats,
    Disk,
    MqttNumbers,
    ProcessNumbers,
    RefusedTopic,
    StationStats,
    StatsMessage,
    Temperature,
    Trouble,
)
from edge_infer.metrics.sensors import thermal_zones
from edge_infer.mqtt import certificates
from edge_infer.mqtt.certificates import Certificate
from edge_infer.mqtt.publisher import Publisher
from edge_infer.mqtt.settings import Tls
from edge_infer.outbox import Outbox
from edge_infer.progress import NEVER, Loop
from edge_infer.result import Clock
from edge_infer.station.station import Station

log = logging.getLogger(__name__)

EVERY_S = 30.0
HANG_S = 30.0
"""A disk or sensor that does not answer for so long is told."""
AGAIN = timedelta(days=1)
"""So often a certificate is warned of."""


class Vitals:
    """`start`, then `stop`. Reads what others count; nobody waits for it."""

    def __init__(
        self,
        publisher: Publisher,
        outbox: Outbox,
        *,
        stations: Mapping[str, Station],
        cameras: Mapping[str, Camera],
        tls: Tls | None,
        state_dir: Path,
        boot_id: str,
        every_s: float = EVERY_S,
    ) -> None:
        """``stations`` and ``cameras`` may change while it runs."""
        self._publisher = publisher
        self._outbox = outbox
        self._stations = stations
        self._cameras = cameras
        self._tls = tls
        self._state_dir = state_dir
        self._boot_id = boot_id
        self._every_s = every_s
        self._started_s = self._window_s = time.monotonic()
        self._warned: dict[tuple[str, str], datetime] = {}
        self.loop = Loop("numbers for stats", limit_s=HANG_S, patience_s=NEVER)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="stats", daemon=True)

    def start(self) -> None:
        """The first one is told at once."""
        self._thread.start()

    def stop(self) -> None:
        """Ask the thread to end; does not wait: a disk may hang under it."""
        self._stopping.set()

    def _run(self) -> None:
        while True:
            self.loop.passed()
            try:
                self._publisher.report(self.message(), valid_s=self._every_s)
            except Exception:
                # numbers are never worth the inspection
                log.exception("the numbers for stats cannot be read")
            self.loop.passed(self._every_s)
            if self._stopping.wait(self._every_s):
                self.loop.rest()
                return

    def message(self) -> StatsMessage:
        """As of now; a new window begins."""
        clock.ask_others()
        now, now_s = clock.now(), time.monotonic()
        window_s, self._window_s = now_s - self._window_s, now_s
        return StatsMessage(
            time=now,
            boot_id=self._boot_id,
            uptime_s=round(now_s - self._started_s, 1),
            window_s=round(window_s, 1),
            clock=Clock(synced=clock.synced()),
            stations=tuple(_station(name, one) for name, one in list(self._stations.items())),
            cameras=tuple(
                CameraStats(camera=name, state=one.state) for name, one in list(self._cameras.items())
            ),
            outbox=self._outbox.stats.message(),
            mqtt=self._mqtt_numbers(),
            disk=disk(self._state_dir),
            temperatures=tuple(temperatures(Path("/sys"))),
            certificates=tuple(self._check_certificates(now)),
            process=process(),
        )

    def _mqtt_numbers(self) -> MqttNumbers:
        stats = self._publisher.stats
        return MqttNumbers(
            connected_since=stats.connected_since,
            reconnections=max(0, stats.connections - 1),
            last_trouble=Trouble(text=stats.last_trouble[0], at=stats.last_trouble[1])
            if stats.last_trouble
            else None,
            taken_over=stats.taken_over,
            delivered=stats.delivered,
            refused=stats.refused,
            refused_topics=tuple(
                RefusedTopic(topic=topic, reason=reason) for topic, reason in stats.refused_topics.items()
            ),
            commands_dropped=stats.commands_dropped,
            images=stats.images,
            images_dropped=stats.images_dropped,
        )

    def _check_certificates(self, now: datetime) -> Iterator[CertificateStats]:
        if self._tls is None:
            return
        shown = self._publisher.stats.broker_certificate
        for one in certificates.of_connection(self._tls, shown):
            self._warn(one, now)
            yield CertificateStats(
                whose=one.whose,
                subject=one.subject,
                not_after=one.not_after,
                days_left=round(one.days_left(now), 2),
            )

    def _warn(self, one: Certificate, now: datetime) -> None:
        trouble, key = one.trouble(now), (one.whose, one.not_after.isoformat())
        if trouble is None or now - self._warned.get(key, datetime.min.replace(tzinfo=UTC)) < AGAIN:
            return
        self._warned[key] = now
        log.warning("the %s's certificate (%s) %s", one.whose, one.subject, trouble)
        self._publisher.event(
            "certificate_expires",
            {
                "whose": one.whose,
                "subject": one.subject,
                "notAfter": one.not_after.isoformat(),
                "daysLeft": round(one.days_left(now), 2),
            },
        )


def disk(folder: Path) -> Disk | None:
    """Where that folder is."""
    try:
        there = os.statvfs(folder)
    except OSError:
        return None
    return Disk(free_bytes=there.f_bavail * there.f_frsize, total_bytes=there.f_blocks * there.f_frsize)


def temperatures(sys: Path) -> Iterator[Temperature]:
    """Every thermal zone that answers."""
    for one in thermal_zones(sys):
        yield Temperature(sensor=one.name, celsius=one.celsius)


def process() -> ProcessNumbers:
    """This one."""
    rss_bytes = open_files = None
    try:
        rss_bytes = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        open_files = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - one call instead of a Path for each
    except OSError:
        pass
    return ProcessNumbers(rss_bytes=rss_bytes, threads=threading.active_count(), open_files=open_files)


def _station(name: str, station: Station) -> StationStats:
    fps, age_ms, processing_ms = station.meter.window()
    return StationStats(
        station=name,
        fps=round(fps, 3),
        dropped=station.dropped,
        decisions=station.meter.decisions,
        age_ms=age_ms,
        processing_ms=processing_ms,
    )
