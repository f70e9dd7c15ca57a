"""``edge-infer run CONFIG``: the service."""

from __future__ import annotations

import logging
import os
import signal
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import click

from edge_infer import logs
from edge_infer.sdnotify import Notifier
from edge_infer.settings import Secrets

if TYPE_CHECKING:
    from edge_infer.service import Service


@click.command()
@click.argument("config", type=click.Path(path_type=Path))
def run(config: Path) -> int:
    """Run the stations of CONFIG until stopped, or until every recording has ended."""
    # heavy parts are loaded when the service starts, not for `edge-infer --help`
    from edge_infer.config.site import load_site
    from edge_infer.service import Service

    logs.start(journal="JOURNAL_STREAM" in os.environ)
    secrets = Secrets(os.environ)
    site = load_site(config)
    site.require_secrets(secrets)
    service = Service(
        site, state_dir=site.state_dir or state_dir(), secrets=secrets, notifier=Notifier(os.environ)
    )
    stop_on_signals(service)
    code = 0 if service.run() else 1
    if service.left_behind:
        # a thread in a library's code could crash the interpreter's own end
        logging.shutdown()
        os._exit(code)
    return code


def state_dir() -> Path:
    """Where the outbox lives if the configuration does not say: systemd's, else the user's."""
    given = os.environ.get("STATE_DIRECTORY", "").partition(":")[0]
    return Path(given) if given else Path.home() / ".local/state/edge-infer"


def stop_on_signals(service: Service) -> None:
    """The first SIGTERM or SIGINT still delivers what is in hand, a second one ends at once."""
    asked = False

    def handle(number: int, _: FrameType | None) -> None:
        nonlocal asked
        if asked:
            os._exit(128 + number)
        asked = True
        service.stop()

    signal.signal(signal.SIGTERM, handle)
    signal.signal(signal.SIGINT, handle)
