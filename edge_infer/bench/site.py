"""All stations of a site at once, with their models, rules and regions, beside the bare runtimes."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from edge_infer import clock
from edge_infer.bench.alone import Alone
from edge_infer.bench.frames import Frames, drawn, read
from edge_infer.bench.measured import Measured
from edge_infer.bench.memory import peak_mb
from edge_infer.bench.model import Progress
from edge_infer.bench.stations import Line, Sink
from edge_infer.bench.windows import ROUNDS, Rates, Turns, Window, take_turns
from edge_infer.changeover.choices import Choice
from edge_infer.changeover.setups import setup_of
from edge_infer.config.site import Site
from edge_infer.engines import Engines
from edge_infer.errors import BackendError
from edge_infer.network import Network
from edge_infer.sources.files import Files
from edge_infer.station.station import Station
from edge_infer.triggers.continuous import Continuous

_WARM, _TRY, _TURNS = 0.05, 0.2, 0.65
"""Parts of the time; the rest is the bare runtimes' latency."""
_STOP_S = 10.0
_FIRST_FPS = 30.0
"""A camera's until it is known what the network can do."""
_OVERSUPPLY = 1.5
"""Cameras give so many times what the bare runtimes could take, so that a station always has a frame."""
_NO_FOLDER = Path("/nonexistent")
"""No commissioned reference: it would find that other frames are of another scene."""


def measure_site(site: Site, frames: Frames | None, seconds: float, progress: Progress) -> Measured:
    """``frames``: instead of the cameras' own. BackendError where a model or a station judges nothing."""
    progress("loading", 0.0)
    site = _ready(site)
    with ExitStack() as stack:
        engines = Engines()
        stack.callback(engines.stop, _STOP_S)
        networks = _open(site, engines)
        sink = Sink()
        stations = _stations(site, engines, sink, stack)
        line = Line(stations, _frames_of(site, frames), sink)
        engines.start()
        line.window(seconds * _WARM, _FIRST_FPS)
        line.refuse_idle()
        # before there is anything of the bare runtimes in memory
        peak = peak_mb()
        alone = {
            name: Alone(name, network, site.models[name].backend, seconds * _TRY / len(networks))
            for name, network in networks.items()
        }
        for one in alone.values():
            stack.callback(one.close)
        line.forget()
        turns = _turns(line, alone, seconds * _TURNS, progress)
        latencies, shares = list(line.latencies_ms()), line.shares()
        bare_ms = _bare_latency_ms(turns, alone, seconds * (1 - _WARM - _TRY - _TURNS))
    progress("done", 1.0)
    each = list(networks.values())
    return Measured(
        model=_joined(networks),
        backend=_joined(one.backend_name for one in each),
        device=_joined(one.device.running for one in each),
        precision=_joined(one.precision for one in each),
        profile=_joined(one.profile for one in each),
        requests=sum(one.requests for one in each),
        frames=line.frames,
        network=(),
        bare_way=_joined(one.way for one in alone.values()),
        turns=turns,
        latencies_ms=latencies,
        bare_latency_ms=bare_ms,
        peak_rss_mb=peak,
        runtimes=list(dict.fromkeys(one.runtime for one in each)),
        stations=shares,
    )


def _ready(site: Site) -> Site:
    """Every station takes each frame that it can, whatever its trigger; throughput unless it says else."""
    return replace(
        site,
        recipes={},
        stations={
            name: one.model_copy(update={"trigger": Continuous()}) for name, one in site.stations.items()
        },
        models={
            name: one.model_copy(update={"backend": one.backend.in_profile("throughput")})
            for name, one in site.models.items()
        },
    )


def _open(site: Site, engines: Engines) -> dict[str, Network]:
    engines.open(site, lambda _: None, lambda *_: None, lambda: False)
    networks = {}
    for name in site.used_models:
        engine = engines.get(name)
        if engine is None:
            failure = engines.failure(name)
            raise BackendError(f"model {name} cannot run: {failure.text if failure else 'it was not opened'}")
        networks[name] = engine.network
    return networks


def _stations(site: Site, engines: Engines, sink: Sink, stack: ExitStack) -> dict[str, Station]:
    stations = {}
    for name, settings in site.stations.items():
        setup = setup_of(
            site, engines.now, name, Choice(), number=None, boot_id=clock.boot_id(), state_dir=_NO_FOLDER
        )
        if setup.failed is not None:
            raise BackendError(f"station {name} cannot judge: {setup.failed.text}")
        max_age_s = site.cameras[settings.camera].max_age_s
        station = stations[name] = Station(setup, sink, recorded=False, max_age_s=max_age_s)
        stack.callback(station.stop)
        station.start()
    return stations


def _frames_of(site: Site, given: Frames | None) -> dict[str, Frames]:
    """By camera; what several show is in memory once."""
    if given is None:
        # in a watched folder there may be nothing yet
        recordings = {name: one for name, one in site.cameras.items() if isinstance(one, Files)}
        paths = {name: one.path for name, one in recordings.items() if not one.watch}
    else:
        paths = {}
    used = dict.fromkeys(one.camera for one in site.stations.values())
    read_once = {path: read(path) for path in dict.fromkeys(paths[name] for name in used if name in paths)}
    other = given or (drawn() if any(name not in paths for name in used) else None)
    frames = {name: read_once[paths[name]] if name in paths else other for name in used}
    return {name: one for name, one in frames.items() if one is not None}


def _turns(line: Line, alone: Mapping[str, Alone], seconds: float, progress: Progress) -> Turns:
    window_s = seconds / (2 * ROUNDS + 1)
    newest: Rates = {}

    def apart() -> Rates:
        nonlocal newest
        newest = {name: one.window(window_s / len(alone)) for name, one in alone.items()}
        return newest

    def together() -> Window:
        # the fastest model could have all of the machine
        most = max(one.fps for one in newest.values())
        window = line.window(window_s, _OVERSUPPLY * most / line.stations)
        line.refuse_idle()
        return window

    for turns in take_turns(apart, together):
        done = _WARM + _TRY + _TURNS * len(turns.pipeline) / ROUNDS
        progress(f"{turns.ratio:.3f} of the bare runtime", done)
    return turns


def _bare_latency_ms(turns: Turns, alone: Mapping[str, Alone], seconds: float) -> float:
    """The mean of the models' p50, each as often as its frames were."""
    frames = {name: sum(one.frames[name] for one in turns.pipeline) for name in alone}
    p50 = {name: statistics.median(one.latencies_ms(seconds / len(alone))) for name, one in alone.items()}
    return sum(p50[name] * count for name, count in frames.items()) / sum(frames.values())


def _joined(names: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(names))
