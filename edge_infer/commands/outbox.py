"""``edge-infer outbox ...``: the queue that results wait in, beside a running service or without one."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from edge_infer.commands.run import state_dir
from edge_infer.commands.terminal import forgive_encoding
from edge_infer.errors import OutboxError

if TYPE_CHECKING:
    from edge_infer.outbox.visit import Message, Overview, StationView

Command = Callable[..., Any]

TIMEOUT_S = 10.0
"""For a running service to do anything about a wish."""

_config = click.argument("config", type=click.Path(path_type=Path, readable=False))
_station = click.option("--station", metavar="NAME", help="Only messages of this station.")
_as_json = click.option("--json", "as_json", is_flag=True, help="JSON Lines on standard output.")
_timeout = click.option(
    "--timeout", type=click.FloatRange(min=0.1), default=TIMEOUT_S, show_default=True, metavar="SECONDS",
    help="How long to wait for a running service to begin.",
)  # fmt: skip


def _which(command: Command) -> Command:
    waiting = click.option("--waiting", is_flag=True, help="Messages that wait for the broker.")
    refused = click.option("--refused", is_flag=True, help="Messages that the broker refused.")
    return waiting(refused(command))


@click.group()
def outbox() -> None:
    """Look into the queue that results wait in; have refused ones tried again; delete; export."""


@outbox.command()
@_config
@_which
@_station
@_as_json
def show(config: Path, *, waiting: bool, refused: bool, station: str | None, as_json: bool) -> int:
    """Say what waits and what the broker refused; with --waiting or --refused each message.

    Safe at any time; also on a read-only disk.
    """
    from edge_infer.outbox.visit import in_use, visiting

    forgive_encoding()
    database = _database(config, station)
    with visiting(database) as visit:
        if waiting or refused:
            for message in visit.messages(waiting=waiting, refused=refused, station=station):
                click.echo(json.dumps(_listed(message)) if as_json else _line(message))
            return 0
        overview = visit.overview()
    running = in_use(database.parent)
    aside = sorted(one.name for one in database.parent.glob(f"{database.name}.corrupt-*Z"))
    if as_json:
        click.echo(json.dumps(_overview(overview, database, running, aside, station)))
    else:
        _print_overview(overview, database, running, aside, station)
    return 0


@outbox.command()
@_config
@_station
@_timeout
@_as_json
def retry(config: Path, *, station: str | None, timeout: float, as_json: bool) -> int:
    """Let refused messages wait again, behind the others: after the broker's access rights were mended.

    A running service does it itself, else this command; both are safe.
    """
    from edge_infer.outbox.ask import carry_out

    answer = carry_out(
        _database(config, station), "retry", station=station, refused=True, waiting=False, timeout_s=timeout
    )
    if as_json:
        click.echo(json.dumps({"retried": answer.done, "byService": answer.by_service}))
    else:
        waits = "waits" if answer.done == 1 else "wait"
        click.echo(f"{_messages(answer.done)} {waits} again{_whose(answer.by_service)}")
    return 0


@outbox.command()
@_config
@_which
@_station
@click.option("--yes", is_flag=True, help="Do not ask.")
@_timeout
@_as_json
def purge(
    config: Path,
    *,
    waiting: bool,
    refused: bool,
    station: str | None,
    yes: bool,
    timeout: float,
    as_json: bool,
) -> int:
    """Delete messages for good: those that --waiting, --refused or both say; without either all.

    The numbers of deleted results are told on the station's gap topic: subscribers see that they are lost.
    What is on its way to the broker stays.
    """
    from edge_infer.outbox.ask import carry_out
    from edge_infer.outbox.visit import visiting

    if not waiting and not refused:
        waiting = refused = True
    database = _database(config, station)
    if not yes:
        with visiting(database) as visit:
            overview = visit.overview()
        stations = [one for one in overview.stations if station in (None, one.station)]
        parts = []
        if waiting:
            parts.append(f"{sum(sum(one.waiting.values()) for one in stations)} waiting")
        if refused:
            parts.append(f"{sum(one.refused for one in stations)} refused")
        what = f"{' and '.join(parts)} message(s){f' of {station}' if station else ''}"
        if not sys.stdin.isatty():
            raise click.UsageError(f"{what} would be deleted for good; add --yes to do it")
        if not click.confirm(f"Delete {what} for good?", err=True):
            click.echo("nothing is deleted", err=True)
            return 1
    answer = carry_out(
        database, "purge", station=station, refused=refused, waiting=waiting, timeout_s=timeout
    )
    if as_json:
        click.echo(
            json.dumps({"purged": answer.done, "onWire": answer.on_wire, "byService": answer.by_service})
        )
        return 0
    stay = f"; {_messages(answer.on_wire)} on the way to the broker stay" if answer.on_wire else ""
    click.echo(f"{_messages(answer.done)} deleted{_whose(answer.by_service)}{stay}")
    return 0


@outbox.command()
@_config
@_which
@_station
@click.option(
    "--out", type=click.Path(path_type=Path, dir_okay=False, allow_dash=True), metavar="FILE",
    help="Instead of standard output; replaced as a whole.",
)  # fmt: skip
@click.option(
    "--database", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
    help="Another database than the service's, for example one that was set aside.",
)  # fmt: skip
def export(
    config: Path,
    *,
    waiting: bool,
    refused: bool,
    station: str | None,
    out: Path | None,
    database: Path | None,
) -> int:
    """Write messages as JSON Lines, as they would be sent; without --waiting or --refused all.

    Each line has topic, userProperties, payload (the published text), station, seq and streamId (null for
    events), createdAt, and refused: null, or the broker's code and reason. Nothing is deleted. Of a damaged
    database what can be read is written.
    """
    from edge_infer.outbox.visit import visiting

    if not waiting and not refused:
        waiting = refused = True
    count, trouble = 0, None
    with visiting(database or _database(config, station)) as visit, _output(out) as file:
        try:
            for message in visit.messages(waiting=waiting, refused=refused, station=station):
                file.write(json.dumps(_exported(message), ensure_ascii=False) + "\n")
                count += 1
        except OutboxError as error:
            trouble = error
    if trouble is not None:
        click.echo(f"only {_messages(count)} could be read: {trouble}", err=True)
        return 1
    if out is not None and str(out) != "-":
        click.echo(f"{_messages(count)} written to {click.format_filename(out)}")
    return 0


def _database(config: Path, station: str | None) -> Path:
    """OutboxError also where neither the site nor the queue knows that station."""
    from edge_infer.config.site import load_site
    from edge_infer.outbox.visit import database_in, visiting

    site = load_site(config)
    database = database_in(site.state_dir or state_dir())
    if station is not None and station not in site.stations:
        with visiting(database) as visit:
            there = {one.station for one in visit.overview().stations if one.station}
        if station not in there:
            raise OutboxError(
                f"there is no station {station}",
                hint=f"known are: {', '.join(sorted({*site.stations, *there}))}",
            )
    return database


@contextmanager
def _output(out: Path | None) -> Iterator[IO[str]]:
    """The file appears whole or not at all."""
    if out is None or str(out) == "-":
        forgive_encoding()
        yield sys.stdout
        return
    try:
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", dir=out.parent, prefix=f".{out.name}.", delete=False
        ) as file:
            try:
                yield file
                file.flush()
                os.fsync(file.fileno())
                # as any file that this user writes, not as a private one
                mask = os.umask(0)
                os.umask(mask)
                Path(file.name).chmod(0o666 & ~mask)
                Path(file.name).replace(out)
            except BaseException:
                with suppress(OSError):
                    Path(file.name).unlink()
                raise
    except OSError as error:
        raise OutboxError(f"cannot write {out}: {error.strerror}", hint="choose another --out") from error


# -- words


def _messages(count: int) -> str:
    return f"{count} message{'' if count == 1 else 's'}"


def _whose(by_service: bool) -> str:
    return " (done by the running service)" if by_service else ""


def _time(at_s: float | None) -> str | None:
    return None if at_s is None else datetime.fromtimestamp(at_s, UTC).isoformat()


def _listed(message: Message) -> dict[str, Any]:
    row, refusal = message.row, message.refusal
    return {
        "topic": row.topic,
        "kind": row.kind,
        "station": row.station or None,
        "seq": row.seq or None,
        "streamId": row.stream_id or None,
        "decision": row.decision or None,
        "createdAt": _time(row.created_s),
        "bytes": row.size,
        "refused": refusal and {"code": refusal.code, "reason": refusal.reason, "at": _time(refusal.at_s)},
    }


def _exported(message: Message) -> dict[str, Any]:
    from edge_infer.mqtt.messages import of_row

    listed = _listed(message)
    return {
        "topic": listed["topic"],
        "userProperties": dict(of_row(message.row).user),
        "payload": message.row.payload.decode(errors="replace"),
        **{key: listed[key] for key in ("station", "seq", "streamId", "createdAt", "refused")},
    }


def _line(message: Message) -> str:
    row, refusal = message.row, message.refusal
    number = f"{row.station} {row.seq} {row.decision}" if row.seq else row.kind
    why = f"  refused: {refusal.reason} (0x{refusal.code:02X})" if refusal else ""
    return f"{_time(row.created_s)}  {number}  {row.topic}{why}"


def _mine(overview: Overview, station: str | None) -> list[StationView]:
    return [one for one in overview.stations if station is None or one.station == station]


def _overview(
    overview: Overview, database: Path, running: bool | None, aside: list[str], station: str | None
) -> dict[str, Any]:
    return {
        "database": str(database),
        "running": running,
        "waiting": overview.waiting,
        "bytes": overview.bytes,
        "oldest": _time(overview.oldest_s),
        "refused": overview.refused,
        "stations": [
            {
                "station": one.station,
                "streamId": one.stream_id or None,
                "seq": one.seq or None,
                "waiting": one.waiting,
                "refused": one.refused,
            }
            for one in _mine(overview, station)
            if one.station
        ],
        "gaps": [
            {
                "station": key.station,
                "streamId": key.stream_id,
                "reason": key.reason,
                "ranges": [{"fromSeq": one.first, "toSeq": one.last} for one in ranges],
            }
            for key, ranges in overview.gaps.items()
            if station in (None, key.station)
        ],
        "setAside": aside,
    }


def _print_overview(
    overview: Overview, database: Path, running: bool | None, aside: list[str], station: str | None
) -> None:
    state = {
        True: "a service runs on it",
        False: "no service runs on it",
        None: "in use or not: no right to see",
    }
    click.echo(f"{database}: {state[running]}")
    oldest = f", oldest of {_time(overview.oldest_s)}" if overview.oldest_s is not None else ""
    click.echo(f"waiting: {_messages(overview.waiting)}, {overview.bytes:,} bytes{oldest}")
    click.echo(f"refused: {_messages(overview.refused)}")
    for one in _mine(overview, station):
        waits = ", ".join(f"{count} {what}" for what, count in sorted(one.waiting.items())) or "nothing"
        named = (
            f"station {one.station}: last number {one.seq} of stream {one.stream_id}"
            if one.station
            else "events"
        )
        click.echo(f"{named}; waiting: {waits}; refused: {one.refused}")
    for key, ranges in overview.gaps.items():
        if station in (None, key.station):
            lost = sum(one.last - one.first + 1 for one in ranges)
            click.echo(f"station {key.station}: {lost} result(s) given up ({key.reason}), not told yet")
    for name in aside:
        click.echo(f"set aside because it was damaged: {name} (try: outbox export --database)")
