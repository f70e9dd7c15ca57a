"""``edge-infer tune MODEL --data FOLDER``: the fastest setting on this device that keeps the accuracy."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edge_infer.backends import BACKENDS
from edge_infer.commands.numbers import Range
from edge_infer.commands.terminal import forgive_encoding

if TYPE_CHECKING:
    from edge_infer.tune.tuning import Outcome, Tell

_YAML_WORDS = ("y", "n", "yes", "no", "on", "off", "true", "false", "null")
_STEPS = {
    "frames": "looking at the frames",
    "quantise": "quantising",
    "judge": "comparing with FP32",
    "measure": "measuring",
}


@click.command()
@click.argument("model", metavar="MODEL", type=click.Path(path_type=Path, readable=False))
@click.option(
    "--data",
    required=True,
    type=click.Path(path_type=Path, exists=True),
    metavar="FOLDER",
    help="Pictures or videos of this camera: a part calibrates, the other part judges.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="The tuned model; must not be there yet.  [default: beside MODEL, with -tuned]",
)
@click.option(
    "--aim",
    type=click.Choice(["throughput", "latency"]),
    default="throughput",
    show_default=True,
    help="Choose for frames a second, or for the time of one frame.",
)
@click.option(
    "--limit",
    type=Range(0, 100),
    default=1.0,
    show_default=True,
    metavar="PERCENT",
    help="Of the sure findings of FP32 that may be lost.",
)
@click.option(
    "--backend",
    "backends",
    multiple=True,
    type=click.Choice(sorted(BACKENDS)),
    help="Only this; repeat it for more.",
)
@click.option("--seconds", type=Range(0.05, 600), default=2.0, show_default=True, help="A window.")
@click.option("--rounds", type=click.IntRange(1, 100), default=3, show_default=True, help="Windows each.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a candidate, then the report.")
def tune(
    *,
    model: Path,
    data: Path,
    out: Path | None,
    aim: str,
    limit: float,
    backends: tuple[str, ...],
    seconds: float,
    rounds: int,
    as_json: bool,
) -> int:
    """Try backends, precisions and settings for MODEL on this device; write the best as a model of its own.

    INT8 is made with frames of --data and judged with others of them. MODEL is only read.
    """
    from edge_infer.backends.devices import has_bf16, present
    from edge_infer.tune.agreement import Limits
    from edge_infer.tune.energy import Meter
    from edge_infer.tune.report import write
    from edge_infer.tune.tuning import Wishes
    from edge_infer.tune.tuning import tune as run

    forgive_encoding()
    # as ^C: what is half made is cleared away
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    out = (out or _beside(model)).absolute()
    wishes = Wishes(
        aim="latency" if aim == "latency" else "throughput",
        limits=Limits(lost=limit / 100),
        seconds=seconds,
        rounds=rounds,
        devices={name: found for name, found in present().items() if name in (backends or BACKENDS)},
        bf16=has_bf16,
    )
    meter = Meter()
    made_at = datetime.now(UTC)
    with _progress() as tell:
        outcome = run(
            model,
            data,
            out,
            wishes,
            meter=meter,
            tell=tell,
            report=lambda outcome, place: write(outcome, place, made_at, meter.unreadable),
        )
    if as_json:
        _print_json(outcome, out, made_at, meter.unreadable)
    else:
        _print_text(outcome, out, model)
    return 0


def _beside(model: Path) -> Path:
    """The default for ``--out``: beside the model's folder, or beside the bare network."""
    # of `.` and `..` too
    model = Path(os.path.abspath(model))  # noqa: PTH100 - resolve() would leave the folder through a link
    if model.suffix.lower() in (".yaml", ".yml"):
        model = model.parent
    return model.with_name(f"{model.name if model.is_dir() else model.stem}-tuned")


@contextmanager
def _progress() -> Iterator[Tell]:
    """On a terminal a bar a step, elsewhere nothing."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
    from rich.table import Column

    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}", table_column=Column(min_width=21)),
        BarColumn(20),
        TimeRemainingColumn(),
        TextColumn("{task.fields[what]}", table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis")),
    )
    hidden = not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=hidden, expand=True) as progress:
        tasks: dict[str, Any] = {}

        def tell(step: str, share: float, what: str) -> None:
            if step not in tasks:
                for task in tasks.values():
                    progress.update(task, completed=1.0, what="")
                tasks[step] = progress.add_task(_STEPS[step], total=1.0, what="")
            progress.update(tasks[step], completed=share, what=what)

        yield tell


def _print_json(outcome: Outcome, out: Path, made_at: datetime, energy: str | None) -> None:
    from edge_infer.tune.report import as_json, candidate

    for one in outcome.tried:
        click.echo(json.dumps({"candidate": candidate(one)}, allow_nan=False))
    report = as_json(outcome, made_at, energy)
    click.echo(
        json.dumps({"tuned": str(out), "report": report, "models": _models(outcome, out)}, allow_nan=False)
    )


def _print_text(outcome: Outcome, out: Path, model: Path) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from edge_infer.tune.report import busy

    console = Console(file=sys.stdout, highlight=False, width=None if sys.stdout.isatty() else 160)
    table = Table(box=None, pad_edge=False)
    for column in ("candidate", "frames/s", "p50 ms", "CPU ms", "lost", "near", "verdict"):
        table.add_column(column, overflow="fold")
    for one in sorted(outcome.tried, key=lambda each: -(each.speed.fps if each.speed else 0)):
        agreement = one.judged.agreement
        verdict = "chosen" if one is outcome.chosen else one.rejected or ""
        table.add_row(
            Text(str(replace(one.candidate, requests=one.requests or one.candidate.requests))),
            "-" if one.speed is None else f"{one.speed.fps:.1f}",
            "-" if one.speed is None else f"{one.speed.p50_ms:.1f}",
            "-" if one.speed is None else f"{one.speed.cpu_ms:.1f}",
            "-" if agreement is None else f"{agreement.lost:.2%}",
            "-" if agreement is None else f"{agreement.near_changed}/{agreement.near}",
            Text(verdict),
        )
    console.print(table)
    for judged in outcome.judged:
        if judged.agreement is None:
            click.echo(f"{judged.variant}: {judged.rejected}")
    for line in outcome.skipped:
        click.echo(line, err=True)
    if (others := busy(outcome.tried)) is not None:
        click.echo(others, err=True)
    click.echo(f"golden pictures: {outcome.golden.said}")
    click.echo(f"written: {click.format_filename(out)} (read its tune-report.md)")
    click.echo("in the site's YAML:")
    for line in _yaml(_models(outcome, out)):
        click.echo(line)
    click.echo(
        f"to go back: path: {click.format_filename(model.absolute())}, without what stands under backend"
    )


def _models(outcome: Outcome, out: Path) -> dict[str, Any]:
    """``models:`` of the site's YAML."""
    chosen = outcome.chosen
    backend = chosen.candidate.yaml(chosen.requests) if chosen else {}
    name = "".join(
        sign if sign.isascii() and (sign.isalnum() or sign in "_-") else "-" for sign in outcome.card.name
    )
    return {name[:40]: {"path": str(out), "backend": backend}}


def _yaml(models: dict[str, Any]) -> list[str]:
    import yaml

    ((name, value),) = models.items()
    flow = yaml.safe_dump(
        value, default_flow_style=True, sort_keys=False, width=1000, allow_unicode=True
    ).strip()
    # text whatever YAML would make of it
    plain = name if name[0].isalpha() and name.lower() not in _YAML_WORDS else json.dumps(name)
    return ["models:", f"  {plain}: {flow}"]
