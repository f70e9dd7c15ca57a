"""``edge-infer grab CONFIG STATION``: one frame of a station's camera, for aiming over ssh."""

from __future__ import annotations

import json
import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

import click

from edge_infer.errors import EdgeInferError, SourceError, SourceStalledError
from edge_infer.settings import Secrets

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from edge_infer.config.site import Site
    from edge_infer.findings import Findings
    from edge_infer.frame import Frame
    from edge_infer.geometry import PixelBox
    from edge_infer.sources import SourceSettings
    from edge_infer.station import StationSettings

DEADLINE_S = 90.0
"""For the whole command, whatever a driver or runtime does; the first compilation for a GPU takes long."""
FRAME_S = 15.0
"""From the open camera to a frame that can be judged."""


@click.command()
@click.argument("config", type=click.Path(path_type=Path, readable=False))
@click.argument("station")
@click.option("--draw", is_flag=True, help="Draw the region, the zones and what the network finds.")
@click.option(
    "--out", type=click.Path(path_type=Path), metavar="FILE", help="PNG or JPEG. Default: STATION.png."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of text.")
def grab(*, config: Path, station: str, draw: bool, out: Path | None, as_json: bool) -> int:
    """Save one frame of STATION's camera: the whole frame, in whose pixels regions and zones are given.

    A station that is triggered by its camera gets the frame of the next part.
    """
    # cameras and runtimes are loaded when there is something to do, not for `edge-infer --help`
    from edge_infer.config.site import load_site
    from edge_infer.yamlfile import did_you_mean

    site = load_site(config)
    if station not in site.stations:
        raise EdgeInferError(f"{config} has no station {station}{did_you_mean(station, site.stations)}")
    path = out or Path(f"{station}.png")
    grabbed = _within_the_deadline(site, station, path, draw=draw)
    _tell(grabbed, as_json=as_json)
    return 1 if grabbed.doubt or grabbed.troubles else 0


@dataclass(frozen=True, slots=True)
class _Grabbed:
    station: str
    camera: str
    path: Path
    frame: Frame
    region: PixelBox | None
    found: int | None
    """None where the network was not asked or could not answer."""
    doubt: str | None
    """Why the station would not judge this frame."""
    troubles: tuple[str, ...]
    """What was asked for and could not be drawn."""


def _within_the_deadline(site: Site, station: str, path: Path, *, draw: bool) -> _Grabbed:
    """In a thread that may be left behind: a driver that hangs must not hang the terminal."""
    answers: SimpleQueue[_Grabbed | Exception] = SimpleQueue()

    def work() -> None:
        try:
            answers.put(_grab(site, station, path, draw=draw))
        except Exception as error:  # noqa: BLE001 - raised again where the command waits
            answers.put(error)

    threading.Thread(target=work, name="grab", daemon=True).start()
    try:
        answer = answers.get(timeout=DEADLINE_S)
    except Empty:
        raise SourceError(
            f"gave up on station {station} after {DEADLINE_S:g} s",
            hint="its camera's driver or its model's runtime hangs; is the device sound?",
        ) from None
    if isinstance(answer, Exception):
        raise answer
    return answer


def _grab(site: Site, station: str, path: Path, *, draw: bool) -> _Grabbed:
    from edge_infer.picture import write_atomically

    settings = site.stations[station]
    frame, doubt = _one_frame(site.cameras[settings.camera], settings)
    region, troubles = _region(settings, frame)
    pixels, found = frame.pixels, None
    if draw:
        pixels, found, more = _drawn(site, station, frame, region)
        troubles += more
    write_atomically(path, pixels)
    return _Grabbed(station, settings.camera, path, frame, region, found, doubt, tuple(troubles))


def _one_frame(camera: SourceSettings, station: StationSettings) -> tuple[Frame, str | None]:
    """The first one that the station would judge. Where none comes in time: the last one, and its fault."""
    from edge_infer.sources import OnDemand

    source = camera.open(station.camera, Secrets(os.environ))
    until_s = time.monotonic() + FRAME_S
    frame: Frame | None = None
    doubt: str | None = None
    if isinstance(source, OnDemand):
        source.fire(time.monotonic())
    try:
        while time.monotonic() < until_s:
            try:
                following = source.read(0.5)
            except SourceStalledError:
                continue
            if following is None:
                break
            frame, doubt = following, _doubt(following, camera, station)
            if doubt is None:
                break
    finally:
        source.close()
    if frame is None:
        hint = "put a picture into its folder meanwhile" if camera.recorded else "does it wait for a trigger?"
        raise SourceError(f"camera {station.camera} gave no frame within {FRAME_S:g} s", hint=hint)
    return frame, doubt


def _doubt(frame: Frame, camera: SourceSettings, station: StationSettings) -> str | None:
    """Why the station would not judge it."""
    if frame.damaged is not None:
        return f"damaged: {frame.damaged}"
    age_s = time.monotonic() - frame.time_s
    if not camera.recorded and age_s > camera.max_age_s:
        return f"stale: {age_s:.1f} s old, the camera allows {camera.max_age_s:g} s"
    if station.trigger.type == "camera" and not frame.triggers:
        return "no part has triggered it"
    return None


def _region(station: StationSettings, frame: Frame) -> tuple[PixelBox | None, list[str]]:
    if station.region is None:
        return None, []
    try:
        return station.region.pixels(frame.width, frame.height), []
    except EdgeInferError as error:
        # the picture is what helps to correct the region
        return None, [error.message]


def _drawn(
    site: Site, name: str, frame: Frame, region: PixelBox | None
) -> tuple[NDArray[np.uint8], int | None, list[str]]:
    from edge_infer import geometry
    from edge_infer.drawing import draw
    from edge_infer.findings import Detections, Findings

    station, troubles = site.stations[name], []
    zones = []
    for rule in station.rules:
        if rule.zone is not None:
            try:
                area = geometry.Zone(rule.zone.unit, rule.zone.polygon)
                zones.append(area.polygon(frame.width, frame.height))
            except EdgeInferError as error:
                troubles.append(f"rule {rule.name}: {error.message}")
    found: Findings | None = None
    if frame.damaged is None and (region is not None or station.region is None):
        try:
            found = _found(site, station, frame)
        except EdgeInferError as error:
            troubles.append(str(error))
    found = found or Findings()
    detections = found.detections
    pixels = draw(
        frame.pixels, detections or Detections.none(), zones, region,
        classes=found.classes or (), anomaly=found.anomaly,
    )  # fmt: skip
    return pixels, None if detections is None else len(detections), troubles


def _found(site: Site, station: StationSettings, frame: Frame) -> Findings:
    from edge_infer.lens import load_lens
    from edge_infer.model.load import load_model
    from edge_infer.network import Network

    use = site.models[station.model]
    card = site.cards.get(station.model) or load_model(use.path)
    network = Network.open(card, use.backend)
    try:
        lens = None if station.undistort is None else load_lens(station.undistort)
        view = station.view(frame.width, frame.height, lens)
        findings = network.look(frame.pixels, view).findings
    finally:
        network.close()
    if findings.undefined is not None:
        raise EdgeInferError(f"the network gives no honest answer: {findings.undefined}")
    return findings


def _tell(grabbed: _Grabbed, *, as_json: bool) -> None:
    frame = grabbed.frame
    warnings = [*([grabbed.doubt] if grabbed.doubt else []), *grabbed.troubles]
    if as_json:
        answer: dict[str, Any] = {
            "station": grabbed.station,
            "camera": grabbed.camera,
            "file": str(grabbed.path),
            "width": frame.width,
            "height": frame.height,
            "captured_at": frame.captured_at.isoformat(),
            "warnings": warnings,
        }
        if grabbed.region is not None:
            answer["region"] = grabbed.region
        if grabbed.found is not None:
            answer["found"] = grabbed.found
        click.echo(json.dumps(answer))
    else:
        parts = [f"{frame.width}x{frame.height}"]
        if grabbed.region is not None:
            parts.append("region {} {} {} {}".format(*grabbed.region))
        if grabbed.found is not None:
            parts.append(f"{grabbed.found} found")
        click.echo(f"{click.format_filename(grabbed.path)}: {', '.join(parts)}")
    for text in warnings:
        click.echo(f"{grabbed.station}: {text}", err=True)
