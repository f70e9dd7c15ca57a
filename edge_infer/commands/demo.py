"""``edge-infer demo``: the whole chain with no hardware."""

from __future__ import annotations

import json
import math
import os
import signal
import socket
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.resources import as_file, files
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

import click

from edge_infer import logs
from edge_infer.commands.lines import coloured, why
from edge_infer.errors import EdgeInferError
from edge_infer.sdnotify import Notifier
from edge_infer.settings import Secrets

if TYPE_CHECKING:
    from edge_infer.client import Subscriber

UNATTENDED_S = 30.0
FIRST_PART_S = 20.0
"""Longer than any machine needs to load the network and see a bottle."""

BROKER = Template(
    """\
id = 0
[router]
id = 0
max_connections = 16
max_outgoing_packet_count = 200
max_segment_size = 10485760
max_segment_count = 10
[v5.1]
name = "demo"
listen = "127.0.0.1:$port"
next_connection_delay_ms = 1
[v5.1.connections]
connection_timeout_ms = 5000
max_payload_size = 1048576
max_inflight_count = 100
dynamic_filters = true
"""
)


@click.command()
@click.option("--seconds", type=click.FloatRange(min=0, min_open=True), help="End by itself after so long.")
@click.option("--json", "as_json", is_flag=True, help="The results as published, then a summary.")
def demo(seconds: float | None, as_json: bool) -> int:
    """Judge bottles of a drawn line: camera, network, rules, MQTT broker and a subscriber, all here.

    Ends with Ctrl-C; without a terminal after 30 seconds.
    """
    logs.start(journal=False, level=30)
    if seconds is not None and not math.isfinite(seconds):
        raise click.BadParameter("must be a number of seconds", param_hint="--seconds")
    if seconds is None and not sys.stdout.isatty():
        seconds = UNATTENDED_S
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    end = time.monotonic() + seconds if seconds else float("inf")
    with (
        tempfile.TemporaryDirectory(prefix="edge-infer-demo-") as name,
        as_file(files("edge_infer.bundled")) as models,
        _broker(Path(name)) as port,
        _service(Path(name), models, port, stop),
        _subscriber(port) as subscriber,
    ):
        if not as_json:
            click.echo(f"broker on 127.0.0.1:{port}, topic vision/v1/demo/bottling/demo/filler/result")
            click.echo(f"{'part':9} {'decision':10} {'why':44} {'latency':>8}  scene's truth")
        tally = _listen(subscriber, stop, end, as_json=as_json)
    if as_json:
        click.echo(json.dumps({"summary": tally}))
    else:
        click.echo(
            f"\n{tally['parts']} parts: {tally['ok']} OK, "
            f"{tally['nok']} NOK, {tally['undefined']} UNDEFINED; "
            f"{tally['agreed']} of {tally['parts']} decisions agreed with the scene's truth"
        )
    return 0


def _listen(subscriber: Subscriber, stop: threading.Event, end: float, *, as_json: bool) -> dict[str, int]:
    from edge_infer.client import Result

    count: Counter[str] = Counter()
    first_by = time.monotonic() + FIRST_PART_S
    while not stop.is_set() and time.monotonic() < end:
        message = subscriber.next(0.1)
        if message is None:
            if not count and time.monotonic() > first_by:
                raise EdgeInferError(
                    f"no part was judged within {FIRST_PART_S:.0f} s",
                    hint="run `edge-infer demo` again on a less busy machine; the log above says more",
                )
            continue
        if not isinstance(message, Result):
            continue
        result = message.raw
        truth = result["trigger"].get("truth")
        count["parts"] += 1
        count[result["decision"].lower()] += 1
        count["agreed"] += result["decision"] == truth
        click.echo(json.dumps(result, ensure_ascii=False) if as_json else _line(result, truth))
    return {key: count[key] for key in ("parts", "agreed", "ok", "nok", "undefined")}


def _line(result: Mapping[str, Any], truth: str | None) -> str:
    asked = datetime.fromisoformat(result["trigger"]["receivedAt"])
    latency_ms = (datetime.now(UTC) - asked).total_seconds() * 1000
    decision = result["decision"]
    agreed = "agrees" if truth == decision else f"DIFFERS: {truth}"
    return f"{result['partId'] or '-':9} {coloured(decision)} {why(result):44} {latency_ms:5.0f} ms  {agreed}"


@contextmanager
def _broker(folder: Path) -> Iterator[int]:
    try:
        from iotcore import Broker
    except ImportError as error:
        raise EdgeInferError(
            "the demo needs its embedded MQTT broker, which is not installed",
            hint="pip install 'edge-infer[demo]'",
        ) from error
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    config = folder / "broker.toml"
    config.write_text(BROKER.substitute(port=port), encoding="utf-8")
    # a terminal sends Ctrl-C to the broker's process too: it must outlive the service, so it ignores it
    ours = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        broker = Broker(config_path=str(config)).start()
    except (OSError, RuntimeError) as error:
        raise EdgeInferError(f"the embedded MQTT broker does not start: {error}") from error
    finally:
        signal.signal(signal.SIGINT, ours)
    try:
        yield port
    finally:
        broker.stop()


@contextmanager
def _service(folder: Path, models: Path, port: int, stop: threading.Event) -> Iterator[None]:
    from edge_infer.config.site import load_site
    from edge_infer.service import Service

    path = folder / "demo.yaml"
    template = Template((models / "bottles/demo.yaml").read_text(encoding="utf-8"))
    values = {"port": str(port), "model": json.dumps(str(models / "bottles"))}
    path.write_text(template.substitute(values), encoding="utf-8")
    secrets = Secrets(os.environ)
    service = Service(
        load_site(path), state_dir=folder, cache_dir=folder, secrets=secrets, notifier=Notifier({})
    )
    failure: list[BaseException] = []

    def run() -> None:
        try:
            service.run()
        except BaseException as error:  # noqa: BLE001 - handed to the thread that waits
            failure.append(error)
            stop.set()

    thread = threading.Thread(target=run, name="service")
    thread.start()
    try:
        yield
    finally:
        service.stop()
        thread.join()
    if failure:
        raise failure[0]


@contextmanager
def _subscriber(port: int) -> Iterator[Subscriber]:
    from edge_infer.client import Broker, Subscriber

    with Subscriber(Broker("127.0.0.1", port), "vision/v1/demo/bottling/demo", keep_s=0) as subscriber:
        yield subscriber
