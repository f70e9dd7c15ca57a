"""``edge-infer check CONFIG``: every mistake with file, line and column, without touching a device."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from edge_infer.errors import ConfigError, EdgeInferError, Mistake
from edge_infer.settings import Secrets

if TYPE_CHECKING:
    from edge_infer.config.site import Site

Level = Literal["error", "warning"]


@click.command()
@click.argument("config", type=click.Path(path_type=Path, readable=False), required=False)
@click.option(
    "--verify", is_flag=True, help="Also load each network on its device and run its golden pictures there."
)
@click.option("--schema", is_flag=True, help="Print the JSON Schema of CONFIG and end.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a mistake or warning.")
def check(config: Path | None, verify: bool, schema: bool, as_json: bool) -> int:
    """Check CONFIG and its model cards; exit 78 where something is wrong."""
    # all cameras and backends are loaded for this, not for `edge-infer --help`
    from edge_infer.config.schema import json_schema
    from edge_infer.config.site import load_site

    if schema:
        click.echo(json.dumps(json_schema(), indent=2))
        return 0
    if config is None:
        raise click.UsageError("name the YAML file to check (or --schema)")
    try:
        site = load_site(config)
    except ConfigError as error:
        _tell(error.mistakes, "error", as_json=as_json)
        return ConfigError.exit_code
    mistakes = [*site.broken_models, *(_verify(site, as_json=as_json) if verify else ())]
    secrets = site.missing_secrets(Secrets(os.environ))
    _tell([*site.warnings, *secrets, *_certificates(site)], "warning", as_json=as_json)
    if mistakes:
        _tell(mistakes, "error", as_json=as_json)
        return ConfigError.exit_code
    if not as_json:
        click.echo(_summary(site, verified=verify))
    return 0


def _certificates(site: Site) -> list[Mistake]:
    """Those that hold no longer, soon no longer, or not yet, and a key that everybody may read."""
    from edge_infer import clock
    from edge_infer.mqtt.certificates import warnings

    if site.mqtt.tls is None:
        return []
    return [
        site.document.mistake(("mqtt", "tls", key), text)
        for key, text in warnings(site.mqtt.tls, clock.now())
    ]


def _verify(site: Site, *, as_json: bool) -> list[Mistake]:
    """Load each network on its device and run its card's golden pictures there."""
    from edge_infer.golden import verify
    from edge_infer.network import Network

    mistakes = []
    for name, card in site.cards.items():
        try:
            network = Network.open(card, site.models[name].backend)
            try:
                report = verify(network)
            finally:
                network.close()
        except EdgeInferError as error:
            mistakes.append(site.document.mistake(("models", name), str(error)))
            continue
        if report.problems:
            mistakes.append(site.document.mistake(("models", name), f"golden pictures: {report}"))
        elif card.golden and not as_json:
            click.echo(f"models.{name}: {network.device.running} {network.precision}: {report}")
    return mistakes


def _tell(mistakes: Sequence[Mistake], level: Level, *, as_json: bool) -> None:
    for one in mistakes:
        if as_json:
            fields = {"file": one.file, "line": one.line, "column": one.column, "key": one.key}
            click.echo(json.dumps({**fields, "message": one.message, "level": level}))
        else:
            # the place comes first: editors jump to it
            said = one if level == "error" else replace(one, message=f"warning: {one.message}")
            click.echo(str(said), err=True)


def _not_commissioned(site: Site) -> list[str]:
    """Stations whose picture is checked with less than it could be."""
    from edge_infer.commands.run import state_dir
    from edge_infer.imagehealth.reference import path_of

    folder = site.state_dir or state_dir()
    return [
        name
        for name, station in site.stations.items()
        if {"covered", "blurred", "moved"} & set(station.health.checks) and not path_of(folder, name).exists()
    ]


def _summary(site: Site, *, verified: bool) -> str:
    rooms: dict[str, Collection[str]] = {
        "station": site.stations,
        "camera": site.cameras,
        "model": site.models,
    }
    if site.recipes:
        rooms["recipe"] = site.recipes
    parts = [
        f"{len(names)} {word}{'s' if len(names) != 1 else ''} ({', '.join(names)})"
        for word, names in rooms.items()
    ]
    without = _not_commissioned(site)
    if without:
        parts.append(f"not commissioned on this machine: {', '.join(without)}")
    loaded = "; every network loads on its device" if verified else ""
    return f"{site.path}: ok: {'; '.join(parts)}{loaded}"
