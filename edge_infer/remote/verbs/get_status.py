"""``get_status``: how the device or one station is."""

from __future__ import annotations

import time
from datetime import timedelta

from edge_infer import clock
from edge_infer.messages.command import GetStatus
from edge_infer.messages.reply_data import Connection, DecisionNow, DeviceStatus, StationStatus
from edge_infer.messages.stats import CameraStats
from edge_infer.remote.answer import Answer
from edge_infer.remote.command import Command
from edge_infer.remote.reach import Reach
from edge_infer.station.station import Station


def get_status(_request: GetStatus, command: Command, reach: Reach) -> Answer:
    """On a station's topic its own, on the device's topic all."""
    stations = reach.stations
    if command.station is not None:
        found = _station(command.station, stations[command.station], reach)
        return Answer(
            "ok", "done", f"station {command.station}", found.model_dump(mode="json", by_alias=True)
        )
    stats = reach.publisher.stats
    device = DeviceStatus(
        version=reach.version,
        boot_id=reach.boot_id,
        since=reach.started_at,
        uptime_s=round(time.monotonic() - reach.started_s, 3),
        cameras=tuple(CameraStats(camera=name, state=one.state) for name, one in list(reach.cameras.items())),
        stations=tuple(_station(name, one, reach) for name, one in list(stations.items())),
        outbox=reach.outbox.stats.message(),
        mqtt=Connection(connections=stats.connections, delivered=stats.delivered, refused=stats.refused),
    )
    return Answer("ok", "done", f"{len(stations)} station(s)", device.model_dump(mode="json", by_alias=True))


def _station(name: str, station: Station, reach: Reach) -> StationStatus:
    identity, settings = station.identity, station.settings
    recipe = identity.external_recipe
    return StationStatus(
        station=name,
        camera=settings.camera,
        trigger=settings.trigger.type,
        decision=_decision(name, reach),
        recipe=recipe.id if recipe is not None else None,
        recipe_hash=identity.recipe.hash,
        model=identity.model,
        backend=identity.backend,
        device=identity.device,
        dropped=station.dropped,
    )


def _decision(station: str, reach: Reach) -> DecisionNow | None:
    newest = reach.recent.decision(station)
    if newest is None:
        return None
    until = newest.creation_time + timedelta(seconds=reach.valid_s, milliseconds=-(newest.age_ms or 0))
    if until <= clock.now():
        return None
    return DecisionNow(decision=newest.decision, result_id=newest.result_id, valid_until=until)
