"""``edge-infer commission CONFIG [STATION]``: what a station's picture is like when all is well."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edge_infer.errors import EdgeInferError, SourceError, SourceStalledError
from edge_infer.settings import Secrets

if TYPE_CHECKING:
    from collections.abc import Iterator

    from edge_infer.frame import Frame
    from edge_infer.imagehealth.reference import Reference
    from edge_infer.sources import SourceSettings
    from edge_infer.station import StationSettings

PATIENCE_S = 30.0
"""How much longer than asked a live camera may take for its frames."""
UNITS = {
    "dark": "mean grey level, below",
    "bright": "share of saturated pixels, above",
    "covered": "share of the picture hidden, from",
    "blurred": "sharpness in grey levels, below",
    "moved": "share of the longer side, above",
}


@click.command()
@click.argument("config", type=click.Path(path_type=Path, readable=False))
@click.argument("station", required=False)
@click.option("--frames", type=click.IntRange(5, 1000), default=20, show_default=True, help="How many.")
@click.option(
    "--seconds", type=click.FloatRange(0, 3600), default=4.0, show_default=True,
    help="Over how long; let some parts pass.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="One JSON object a station instead of text.")
def commission(*, config: Path, station: str | None, frames: int, seconds: float, as_json: bool) -> int:
    """Store what STATION's picture (every station's without one) is like now, with the line running.

    Light, focus and the camera's place must be as they should be: later pictures are measured against these.
    A running service uses it after `systemctl reload`.
    """
    # cameras are loaded when there is something to do, not for `edge-infer --help`
    from edge_infer.commands.run import state_dir
    from edge_infer.config.site import load_site
    from edge_infer.imagehealth.commissioning import doubts
    from edge_infer.imagehealth.reference import path_of, store
    from edge_infer.yamlfile import did_you_mean

    site = load_site(config)
    if station is not None and station not in site.stations:
        raise EdgeInferError(f"{config} has no station {station}{did_you_mean(station, site.stations)}")
    failed = False
    for name in [station] if station is not None else site.stations:
        settings = site.stations[name]
        path = path_of(site.state_dir or state_dir(), name)
        try:
            reference = _learn(site.cameras[settings.camera], settings, frames, seconds)
            store(path, reference)
        except EdgeInferError as error:
            failed = True
            click.echo(f"{name}: {error}", err=True)
            continue
        warnings = doubts(reference)
        _tell(name, path, reference, warnings, as_json=as_json)
        for text in warnings:
            click.echo(f"{name}: warning: {text}", err=True)
    return 1 if failed else 0


def _learn(camera: SourceSettings, station: StationSettings, frames: int, seconds: float) -> Reference:
    from edge_infer import clock
    from edge_infer.imagehealth import commissioning

    taken = []
    for frame in _judged(camera, station, seconds, seconds / frames):
        taken.append(frame)
        if len(taken) == frames:
            break
    if not taken:
        raise SourceError(f"camera {station.camera} gave no frame", hint="does it wait for parts?")
    return commissioning.commission(taken, station.seen(taken[0].width, taken[0].height), clock.now())


def _judged(
    camera: SourceSettings, station: StationSettings, seconds: float, apart_s: float
) -> Iterator[Frame]:
    """Frames as the station judges them: of parts where its camera's line triggers it, else so far apart."""
    from edge_infer.sources import OnDemand

    of_parts = station.trigger.type == "camera"
    delay_s = getattr(station.trigger, "delay_ms", 0.0) / 1000
    parts: list[float] = []
    next_s = fire_s = float("-inf")
    source = camera.open(station.camera, Secrets(os.environ))
    end_s = time.monotonic() + seconds + PATIENCE_S
    try:
        while camera.recorded or time.monotonic() < end_s:
            if isinstance(source, OnDemand) and time.monotonic() >= fire_s:
                fire_s = time.monotonic() + apart_s
                source.fire(time.monotonic())
            try:
                frame = source.read(min(0.5, max(0.05, apart_s)))
            except SourceStalledError:
                continue
            if frame is None:
                return
            parts += [one.time_s + delay_s for one in frame.triggers]
            due = any(part_s <= frame.time_s for part_s in parts) if of_parts else frame.time_s >= next_s
            if not due or frame.damaged is not None:
                continue
            if not camera.recorded and time.monotonic() - frame.time_s > camera.max_age_s:
                continue
            parts = [part_s for part_s in parts if part_s > frame.time_s]
            next_s = frame.time_s + apart_s
            yield frame
    finally:
        source.close()


def _tell(name: str, path: Path, reference: Reference, warnings: list[str], *, as_json: bool) -> None:
    if as_json:
        answer = {
            "station": name,
            "camera": reference.camera,
            "file": str(path),
            "frames": reference.frames,
            "width": reference.width,
            "height": reference.height,
            "region": reference.region,
            "checks": {check: one.model_dump() for check, one in reference.measured.items()},
            "warnings": warnings,
        }
        click.echo(json.dumps(answer))
        return
    size = f"{reference.width}x{reference.height}"
    region = "{} {} {} {}".format(*reference.region)
    click.echo(f"{name}: {reference.frames} frames of {size}, region {region}: {click.format_filename(path)}")
    click.echo(f"  {'check':9}{'lowest':>9}{'median':>9}{'highest':>9}{'limit':>9}")
    for check, one in reference.measured.items():
        values = "".join(f"{value:9.2f}" for value in (one.lowest, one.median, one.highest))
        limit = (
            f"{'off':>9}  {one.untold_because}" if one.limit is None else f"{one.limit:9.3f}  {UNITS[check]}"
        )
        click.echo(f"  {check:9}{values}{limit}")
