"""``edge-infer ctl ...``: the running service, over its socket."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from edge_infer.commands.lines import plain
from edge_infer.commands.run import runtime_dir, state_dir
from edge_infer.commands.terminal import forgive_encoding
from edge_infer.errors import ConfigError, EdgeInferError

UNIT = Path("/run/edge-infer")
"""The runtime directory of the unit."""
LOOK_S = 10.0
"""For the service to say how it is."""
CHANGE_S = 900.0
"""For models to be loaded, compiled and verified."""

Command = Callable[..., Any]


def _where(command: Command) -> Command:
    config = click.option(
        "--config", type=click.Path(path_type=Path, readable=False), metavar="CONFIG",
        help="Of a service that was started by hand; default: the one of the unit.",
    )  # fmt: skip
    sock = click.option(
        "--socket", "sock", type=click.Path(path_type=Path), metavar="PATH", help="Where it listens."
    )
    as_json = click.option("--json", "as_json", is_flag=True, help="The answer as one JSON object.")
    return config(sock(as_json(command)))


def _timeout(command: Command) -> Command:
    return click.option(
        "--timeout", type=click.FloatRange(min=0.1), default=CHANGE_S, show_default=True, metavar="SECONDS",
        help="How long to wait for the outcome; what was asked goes on.",
    )(command)  # fmt: skip


@click.group()
def ctl() -> None:
    """Have the running service read its configuration again, go back to the one before, say how it is."""


@ctl.command()
@_where
@_timeout
@click.option("--again", is_flag=True, help="Also a file that was rolled back from, as it is.")
def reload(*, config: Path | None, sock: Path | None, as_json: bool, timeout: float, again: bool) -> int:
    """Read the configuration file again and run it; wait for the outcome.

    Exit 78 where it is wrong, with every mistake; 1 where something else stands against it, or the service
    does not run. Then nothing changed.
    """
    from edge_infer.ctl.client import ask
    from edge_infer.ctl.protocol import Request

    answer = ask(_socket(config, sock), Request(do="reload", again=again), timeout)
    return _outcome(answer, as_json=as_json)


@ctl.command()
@click.argument("number", type=int, required=False)
@_where
@_timeout
@click.option("--at-restart", is_flag=True, help="From the next start on, for what needs one.")
def rollback(
    *,
    number: int | None,
    config: Path | None,
    sock: Path | None,
    as_json: bool,
    timeout: float,
    at_restart: bool,
) -> int:
    """Run the configuration that ran before this one, or NUMBER (see `ctl status`).

    It runs, over restarts too, until the configuration file is changed. The file itself is not touched.
    """
    from edge_infer.ctl.client import ask
    from edge_infer.ctl.protocol import Request

    answer = ask(_socket(config, sock), Request(do="rollback", number=number, at_restart=at_restart), timeout)
    return _outcome(answer, as_json=as_json)


@ctl.command()
@_where
def status(*, config: Path | None, sock: Path | None, as_json: bool) -> int:
    """Say which configuration runs and how stations, cameras and models are."""
    from edge_infer.ctl.client import ask
    from edge_infer.ctl.protocol import Request

    forgive_encoding()
    answer = ask(_socket(config, sock), Request(do="status"), LOOK_S)
    found = answer.get("status")
    if not isinstance(found, dict):
        return _outcome(answer, as_json=as_json)
    if as_json:
        click.echo(json.dumps(found))
    else:
        for line in _lines(found):
            click.echo(plain(line))
    return 0


def _outcome(answer: Mapping[str, Any], *, as_json: bool) -> int:
    code = answer.get("code")
    if as_json:
        click.echo(json.dumps({key: value for key, value in answer.items() if key != "status"}))
    else:
        for mistake in answer.get("mistakes", ()):
            click.echo(plain(mistake), err=True)
        for changed in answer.get("changed", ()):
            click.echo(f"changed: {plain(changed)}")
        click.echo(plain(answer.get("message")), err=bool(code))
    return code if isinstance(code, int) else 1


def _lines(found: Mapping[str, Any]) -> Iterator[str]:
    yield f"edge-infer {found['version']}, {found['state']} since {found['since']}, process {found['pid']}"
    if (running := found["configuration"]) is not None:
        yield from _configuration(running)
    for one in found["stations"]:
        recipe = f", recipe {one['recipe']}" if one["recipe"] else ""
        trouble = f": JUDGES NOTHING: {one['trouble']}" if one["trouble"] else ""
        yield f"station {one['station']}: camera {one['camera']}, model {one['model']}{recipe}{trouble}"
    for one in found["cameras"]:
        yield f"camera {one['camera']}: {one['state']} since {one['since']}: {one['text']}"
    for one in found["models"]:
        yield f"model {one['model']}: {_model(one)}"
    if (last := found["last"]) is not None:
        result = ", ".join(last["changed"]) or "nothing was another"
        what = f"changed: {result}" if last["done"] else f"REFUSED: {'; '.join(last['mistakes'])}"
        yield f"last {last['what']}: {last['at']} by {last['by']}: {what}"
    for one in found["kept"]:
        by = one["by"] or "the start"
        yield f"kept: {one['number']} of {one['loadedAt']} by {by}, sha256 {one['sha256'][:12]}"


def _configuration(running: Mapping[str, Any]) -> Iterator[str]:
    loaded = (
        f", loaded {running['loadedAt']} by {running['by'] or 'the start'}" if running["loadedAt"] else ""
    )
    digest, number = running["sha256"][:12], running["number"]
    which = f"configuration {number}" if number is not None else "a configuration that the disk did not take,"
    yield f"runs: {which} of {running['file']}, sha256 {digest}{loaded}"
    if (left := running["rolledBack"]) is not None:
        yield (
            f"ROLLED BACK from configuration {left['number']} at {left['at']} by {left['by']}: "
            f"{running['file']} DOES NOT RUN until it is changed and reloaded"
        )
    if running["nextStart"] is not None:
        later = running["nextStart"]
        yield f"FROM THE NEXT START ON configuration {later} runs: systemctl restart edge-infer"
    if running["fileIs"] == "changed":
        yield f"{running['file']} WAS CHANGED since and is not loaded: edge-infer ctl reload"
    elif running["fileIs"] == "unreadable":
        yield f"{running['file']} CANNOT BE READ"


def _model(one: Mapping[str, Any]) -> str:
    identity, device = one["identity"], one["device"]
    if identity is None or device is None:
        return f"CANNOT RUN: {one['trouble']}"
    version = f" {identity['version']}" if identity["version"] else ""
    runs_on = f"{one['backend']} {device['running']}"
    return f"{identity['name']}{version}, sha256 {identity['sha256'][:12]}, on {runs_on}"


def _socket(config: Path | None, given: Path | None) -> Path:
    from edge_infer.ctl.protocol import SOCKET

    if given is not None:
        return given
    if config is not None:
        return _socket_of(config)
    runtime = runtime_dir() or UNIT
    beside = state_dir() / SOCKET
    return beside if not (runtime / SOCKET).exists() and beside.exists() else runtime / SOCKET


def _socket_of(config: Path) -> Path:
    from edge_infer.config.state_dir import state_dir_of
    from edge_infer.ctl.protocol import SOCKET
    from edge_infer.yamlfile import load

    # also of a file that is wrong: its mistakes are what `reload` shall tell
    found = state_dir_of(config)
    path = (found or state_dir()) / SOCKET
    if not path.exists() and (UNIT / SOCKET).exists():
        raise EdgeInferError(
            f"nobody listens at {path}, where a service that was started by hand with {config} would",
            hint="the unit's service is asked without --config",
        )
    if found is None and not path.exists():
        try:
            load(config)
        except ConfigError as error:
            raise EdgeInferError(
                f"{config} cannot be read, so where its service listens is not known, at {path} nobody does: "
                f"{error.mistakes[0]}",
                hint="mend the file, or name the socket in the state_dir: --socket STATE_DIR/ctl.sock",
            ) from error
    return path
