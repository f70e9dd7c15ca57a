"""``edge-infer watch``: what devices publish, each result once, every hole said."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from edge_infer import logs
from edge_infer.commands.lines import coloured, plain, why
from edge_infer.errors import EdgeInferError

if TYPE_CHECKING:
    from edge_infer.client import Broker, Message, Missing, Result, Subscriber

NOTHING = "is a device running there, and may this user read its topics?"
QUIET_S = 10.0
"""Without any message for so long something is probably wrong."""
LATE_S = 2.0
"""A number that is missing for so long is told."""
LOOK_S = 0.5
ALL = "vision/v1/+/+/+"


@click.command()
@click.argument("config", type=click.Path(path_type=Path), required=False)
@click.option("--host", help="The broker, instead of CONFIG's.")
@click.option("--port", type=click.IntRange(1, 65535), help="Default 1883, with TLS 8883.")
@click.option("--protocol", type=click.Choice(["5", "3.1.1"]), help="Default 5.")
@click.option("--user", help="User name at the broker, instead of CONFIG's.")
@click.option("--password-file", type=click.Path(path_type=Path), help="A file that holds only the password.")
@click.option("--tls", is_flag=True, help="Encrypt, trusting the system's authorities.")
@click.option("--ca", type=click.Path(path_type=Path), help="Encrypt, trusting this authority (PEM).")
@click.option("--cert", type=click.Path(path_type=Path), help="The reader's certificate (PEM).")
@click.option("--key", type=click.Path(path_type=Path), help="Its key (PEM).")
@click.option("--prefix", multiple=True, help=f"Devices; + is any level. Default CONFIG's, else {ALL}.")
@click.option("--station", multiple=True, help="Only these stations.")
@click.option("--seconds", type=click.FloatRange(min=0, min_open=True), help="End by itself after so long.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a message, then a summary.")
def watch(
    config: Path | None,
    prefix: tuple[str, ...],
    station: tuple[str, ...],
    seconds: float | None,
    as_json: bool,
    **access: Any,
) -> int:
    """Show results, gaps, events and the state of devices as they come.

    CONFIG is a site's YAML: where its broker is and which device to watch. Ends with Ctrl-C and a summary;
    exit 1 where a number is missing then (a result that never came and was not told as given up), where there
    is no connection then, or where nothing came at all.
    """
    logs.start(journal=False, level=30)
    if (access["cert"] is None) != (access["key"] is None):
        raise click.UsageError("--cert and --key belong together")
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    # with --prefix it may be another device, whose stations are not in CONFIG
    known = station if not prefix else ()
    broker, own = _from_options(access) if config is None else _from_config(config, access, known)
    from edge_infer.client import Subscriber

    with Subscriber(broker, list(prefix) or own, keep_s=0, stations=station) as subscriber:
        watcher = _Watcher(subscriber, as_json=as_json)
        end = time.monotonic() + seconds if seconds else float("inf")
        while not stop.is_set() and time.monotonic() < end:
            watcher.step()
        watcher.summary()
    return 0


@dataclass(slots=True)
class _Hole:
    since_s: float
    told: bool = False


class _Watcher:
    """Prints what comes."""

    def __init__(self, subscriber: Subscriber, *, as_json: bool) -> None:
        self._subscriber = subscriber
        self._as_json = as_json
        self._began_s = time.monotonic()
        self._quiet = True
        self._heard = False
        self._given_up = 0
        self._holes: dict[Missing, _Hole] = {}
        self._next_look_s = 0.0

    def step(self) -> None:
        """Wait a moment for a message."""
        message = self._subscriber.next(0.2)
        if message is not None:
            self._quiet, self._heard = False, True
            self._show(message)
        elif self._quiet and time.monotonic() > self._began_s + QUIET_S:
            self._quiet = False
            click.echo(self._subscriber.trouble or f"nothing comes: {NOTHING}", err=True)
        if self._subscriber.taken_over:
            raise EdgeInferError(
                "another client has this identity at the broker and is thrown out, or throws us out",
                hint="watch as a reader of its own: --user, or --cert and --key",
            )
        self._look_for_holes()

    def summary(self) -> None:
        """EdgeInferError where numbers are missing, or where nobody can know whether any are."""
        # what was shown last is handled, and counts
        self._subscriber.acknowledge()
        counts, missing = self._subscriber.counts, self._subscriber.missing()
        absent = sum(one.last - one.first + 1 for one in missing)
        told = {
            "results": counts.total(),
            **{word.lower(): counts[word] for word in ("OK", "NOK", "UNDEFINED")},
            "duplicates": self._subscriber.duplicates,
            "givenUp": self._given_up,
            "missing": absent,
        }
        if self._as_json:
            self._json("summary", **told)
        else:
            click.echo(
                f"\n{told['results']} results: "
                f"{told['ok']} OK, {told['nok']} NOK, {told['undefined']} UNDEFINED; "
                f"{told['duplicates']} repetitions dropped, {told['givenUp']} given up, {absent} missing"
            )
        if missing:
            raise EdgeInferError(
                f"missing: {', '.join(f'{_place(one)} {_span(one.first, one.last)}' for one in missing)}",
                hint="they are late or were lost at a broker; docs/subscribers.md says how to tell",
            )
        if not self._subscriber.connected:
            trouble = self._subscriber.trouble or "the broker has not answered yet"
            raise EdgeInferError(
                f"ended without a connection to the broker ({trouble})",
                hint="what was published meanwhile was not seen",
            )
        if not self._heard:
            # a device that is there has said its status, which the broker keeps
            raise EdgeInferError("nothing came, not even the status of a device", hint=NOTHING)

    def _show(self, message: Message) -> None:
        from edge_infer.client import Event, Gap, Result, Status, Unreadable

        if isinstance(message, Unreadable):
            self._told("unreadable", message.topic, f"cannot be read: {message.why}", why=message.why)
        elif isinstance(message, Result):
            self._show_result(message)
        elif isinstance(message, Gap):
            self._given_up += sum(last - first + 1 for first, last in message.ranges)
            ranges = ", ".join(_span(first, last) for first, last in message.ranges)
            text = f"the device gave up {ranges} ({message.reason})"
            self._told("gap", message.topic, text, gap=message.raw)
        elif isinstance(message, Event):
            text = f"{message.kind} {json.dumps(message.data, ensure_ascii=False)}"
            self._told("event", message.topic, text, event=message.raw)
        elif isinstance(message, Status):
            self._told("status", message.topic, f"the device is {message.state}", status=message.raw)

    def _show_result(self, result: Result) -> None:
        if self._as_json:
            self._json("result", topic=result.topic, delayed=result.delayed, result=result.raw)
            return
        click.echo(
            f"{_now()} {plain(f'{result.device}/{result.station}'):20} {result.seq:>7} "
            f"{plain(result.part_id or '-'):12} {coloured(result.decision)} {why(result.raw):44} "
            f"{_latency(result)}"
        )

    def _told(self, kind: str, topic: str, text: str, **raw: Any) -> None:
        if self._as_json:
            self._json(kind, topic=topic, **raw)
        else:
            place = "/".join(topic.split("/")[-3:-1])
            click.echo(f"{_now()} {plain(place):20} -- {plain(text)}")

    def _look_for_holes(self) -> None:
        now_s = time.monotonic()
        if now_s < self._next_look_s:
            return
        self._next_look_s = now_s + LOOK_S
        missing = self._subscriber.missing()
        self._holes = {one: hole for one, hole in self._holes.items() if one in missing}
        for one in missing:
            hole = self._holes.setdefault(one, _Hole(now_s))
            if not hole.told and now_s >= hole.since_s + LATE_S:
                hole.told = True
                self._show_hole(one)

    def _show_hole(self, one: Missing) -> None:
        if self._as_json:
            place = {"device": one.device, "station": one.station, "streamId": one.stream_id}
            self._json("missing", **place, fromSeq=one.first, toSeq=one.last)
        else:
            text = f"{_span(one.first, one.last)} did not come yet"
            click.echo(f"{_now()} {_place(one):20} -- {text}")

    def _json(self, kind: str, **rest: Any) -> None:
        click.echo(json.dumps({"type": kind, **rest}, ensure_ascii=False))


def _now() -> str:
    return f"{datetime.now():%H:%M:%S}"  # noqa: DTZ005 - for the person in front of it


def _place(one: Missing) -> str:
    return plain(f"{one.device}/{one.station}")


def _span(first: int, last: int) -> str:
    return f"result {first}" if first == last else f"results {first} to {last}"


def _latency(result: Result) -> str:
    """From the question to its arrival here, as far as both clocks agree."""
    seconds = (datetime.now(UTC) - (result.captured_at or result.created_at)).total_seconds()
    late = ", sent after an outage" if result.delayed else ""
    return f"{seconds * 1000:6.0f} ms{late}" if seconds < 10 else f"{seconds:6.0f} s{late}"


# -- where the broker is


def _from_options(access: dict[str, Any]) -> tuple[Broker, list[str]]:
    from edge_infer.client import Broker

    if access["host"] is None:
        raise click.UsageError("give a site's YAML, or --host")
    return _overridden(Broker(access["host"]), access), [ALL]


def _from_config(path: Path, access: dict[str, Any], stations: tuple[str, ...]) -> tuple[Broker, list[str]]:
    """``stations`` must be there."""
    from edge_infer.client import Broker, Tls
    from edge_infer.config.site import load_site
    from edge_infer.settings import Secrets
    from edge_infer.yamlfile import did_you_mean

    site = load_site(path)
    for one in stations:
        if one not in site.stations:
            raise EdgeInferError(f"{path} has no station {one}{did_you_mean(one, site.stations)}")
    mqtt = site.mqtt
    other = access["user"] is not None or access["cert"] is not None
    if mqtt.tls is not None and mqtt.tls.cert is not None and not other and access["host"] is None:
        raise EdgeInferError(
            f"{path} has the device's own certificate: a broker that takes it for the client id would throw "
            "the running service out",
            hint="watch as a reader: --cert and --key (deploy/broker/make-broker reader makes them)",
        )
    password = None
    if mqtt.password is not None and access["user"] is None:
        password = Secrets(os.environ).read(mqtt.password)
    protocol: Literal["5", "3.1.1"] = mqtt.protocol
    broker = Broker(
        mqtt.host,
        mqtt.port,
        protocol,
        user=mqtt.user,
        password=password,
        tls=Tls(ca=mqtt.tls.ca) if mqtt.tls is not None else None,
        keepalive_s=mqtt.keepalive_s,
    )
    return _overridden(broker, access), [site.topic_prefix]


def _overridden(broker: Broker, access: dict[str, Any]) -> Broker:
    """What the command line says holds."""
    from edge_infer.client import Tls

    given = {key: access[key] for key in ("host", "port", "protocol", "user") if access[key] is not None}
    if access["password_file"] is not None:
        given["password"] = _password(access["password_file"])
    tls = broker.tls
    if tls is None and (access["tls"] or access["ca"] is not None or access["cert"] is not None):
        tls = Tls()
    if tls is not None:
        named = {key: access[key] for key in ("ca", "cert", "key") if access[key] is not None}
        given["tls"] = replace(tls, **named)
    return replace(broker, **given)


def _password(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise EdgeInferError(f"cannot read the password in {path}: {reason}") from error
