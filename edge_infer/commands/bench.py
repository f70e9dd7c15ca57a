"""``edge-infer bench MODEL|CONFIG``: the pipeline beside the bare runtime's limit on this machine."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edge_infer.backends import BACKENDS
from edge_infer.commands.infer import choose_backend
from edge_infer.commands.numbers import Range
from edge_infer.commands.terminal import forgive_encoding
from edge_infer.errors import ConfigError, Mistake

if TYPE_CHECKING:
    from edge_infer.bench.measured import Measured
    from edge_infer.bench.model import Progress
    from edge_infer.config.site import Site

_YAML = (".yaml", ".yml")
_CARD = "model.yaml"


@click.command()
@click.argument("what", metavar="MODEL|CONFIG", type=click.Path(path_type=Path, readable=False))
@click.option(
    "--source",
    type=click.Path(path_type=Path, readable=False),
    metavar="PATH",
    help="A video, a picture, a folder or a pattern; default a drawn picture of 1920x1080, and of CONFIG the "
    "recordings that its cameras play.",
)
@click.option("--backend", type=click.Choice(sorted(BACKENDS)), help="Default: as CONFIG says; as `infer`.")
@click.option("--device", metavar="NAME", help="A device name of the backend; default: as CONFIG says; CPU.")
@click.option(
    "--profile",
    type=click.Choice(["latency", "throughput"]),
    help="How the network is compiled for frames a second; default: as CONFIG says; throughput.",
)
@click.option(
    "--seconds",
    type=Range(0.5, 3600),
    default=30.0,
    show_default=True,
    help="About how long to measure.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def bench(
    *,
    what: Path,
    source: Path | None,
    backend: str | None,
    device: str | None,
    profile: str | None,
    seconds: float,
    as_json: bool,
) -> int:
    """Measure what the pipeline makes of the bare runtime's frames a second, in turns with it.

    MODEL is a folder with model.yaml, or an .onnx or .xml file; of CONFIG all stations work at once.
    """
    # heavy parts are loaded when there is something to do, not for `edge-infer --help`
    import cv2

    from edge_infer.bench.frames import drawn, read
    from edge_infer.bench.model import measure_model
    from edge_infer.bench.site import measure_site
    from edge_infer.config.site import load_site
    from edge_infer.model.load import load_model

    forgive_encoding()
    # as the service has it
    cv2.setNumThreads(1)
    if _is_site(what):
        site = _changed(load_site(what), backend, device, profile)
        frames = None if source is None else read(source)
        with _shown() as progress:
            measured = measure_site(site, frames, seconds, progress)
    else:
        card = load_model(what)
        settings = choose_backend(card.network, backend, "CPU" if device is None else device)
        settings = settings.model_copy(update={"profile": profile})
        frames = drawn() if source is None else read(source)
        with _shown() as progress:
            measured = measure_model(card, settings, frames, seconds, progress)
    if as_json:
        click.echo(json.dumps(measured.as_json(), allow_nan=False))
    else:
        _print_text(measured)
    return 0


def _is_site(path: Path) -> bool:
    """A YAML file that is no model card."""
    return path.suffix.lower() in _YAML and path.name != _CARD and not path.is_dir()


def _changed(site: Site, backend: str | None, device: str | None, profile: str | None) -> Site:
    """With what the command line says instead of the site's; ConfigError where it cannot be used."""
    if site.broken_models:
        raise ConfigError(site.broken_models)
    if not site.stations:
        raise ConfigError([Mistake(str(site.path), 0, 0, "stations", "there is no station to measure")])
    update: dict[str, Any] = {}
    if device is not None:
        update |= {"device": device, "fallback": ()}
    if profile is not None:
        update["profile"] = profile
    models = {}
    for name, use in site.models.items():
        settings = use.backend
        if backend is not None and backend != settings.type:
            settings = choose_backend(site.cards[name].network, backend, device or "CPU")
        models[name] = use.model_copy(update={"backend": settings.model_copy(update=update)})
    return replace(site, models=models)


@contextmanager
def _shown() -> Iterator[Progress]:
    """A bar on standard error, only where a person looks at it."""
    if not sys.stderr.isatty():
        yield lambda _text, _done: None
        return
    from rich.console import Console
    from rich.progress import Progress as Bar

    # rich would send what we print on standard output to its own console
    bar = Bar(console=Console(stderr=True), transient=True, redirect_stdout=False, redirect_stderr=False)
    with bar:
        task = bar.add_task("", total=1.0)
        yield lambda text, done: bar.update(task, description=text, completed=done)


def _print_text(measured: Measured) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    # wide enough for a line a value where a script reads
    console = Console(file=sys.stdout, highlight=False, width=None if sys.stdout.isatty() else 200)
    answer = measured.as_json()
    versions = ", ".join(f"{name} {version}" for name, version in answer["versions"].items())
    width, height = measured.frames.size
    console.print(
        Text(
            f"{measured.model} on {measured.backend} {measured.device} in {measured.precision}, "
            f"for {measured.profile} with {measured.requests} request(s)"
        )
    )
    console.print(
        Text(f"{width}x{height} pixels, {len(measured.frames.pixels)} in memory ({measured.frames.name})")
    )
    table = Table(box=None, pad_edge=False)
    for column in ("", "pipeline", "bare runtime", "ratio"):
        table.add_column(column, justify="left" if not column else "right")
    for row in _rows(measured, answer):
        table.add_row(*row)
    console.print(table)
    console.print(Text(f"the bare runtime's fastest: {measured.bare_way}"))
    console.print(Text(f"peak memory {answer['peak_rss_mb']:.0f} MB; {versions}"))
    if measured.stations:
        _print_stations(console, measured)


def _rows(measured: Measured, answer: dict[str, Any]) -> Sequence[tuple[str, str, str, str]]:
    turns, latency = measured.turns, answer["latency_ms"]
    p50_ms, bare_ms = latency["p50"], answer["bare_latency_ms"]
    # with more frames than it can judge a site's wait for their turn
    ratio = "" if measured.stations else f"{p50_ms / bare_ms:.3f}"
    cpu_ms, bare_cpu_ms = turns.cpu_ms_per_frame, turns.bare_cpu_ms_per_frame
    rows = [
        ("frames/s", f"{answer['pipeline_fps']:.1f}", f"{answer['bare_fps']:.1f}", f"{answer['ratio']:.3f}"),
        ("CPU ms/frame", f"{cpu_ms:.2f}", f"{bare_cpu_ms:.2f}", f"{cpu_ms / bare_cpu_ms:.3f}"),
        ("capture to result, ms: p50", f"{p50_ms:.2f}", f"{bare_ms:.2f}", ratio),
    ]
    return [*rows, *((f"  {name}", f"{latency[name]:.2f}", "", "") for name in ("p95", "p99"))]


def _print_stations(console: Any, measured: Measured) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for column in ("station", "model", "frames/s", "share", "dropped", "undefined"):
        table.add_column(column, justify="left" if column in ("station", "model") else "right")
    for one in measured.stations:
        table.add_row(
            one.station, one.model, f"{one.fps:.1f}", f"{one.share:.1%}", str(one.dropped), str(one.undefined)
        )
    console.print(table)
    console.print(f"the slowest station has {measured.fairness:.1%} of the fastest one's frames")
