"""``edge-infer run CONFIG``: the service."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import click

from edge_infer import cpu, logs
from edge_infer.sdnotify import Notifier
from edge_infer.settings import Secrets

if TYPE_CHECKING:
    from edge_infer.service import Service


@click.command()
@click.argument("config", type=click.Path(path_type=Path, readable=False))
def run(config: Path) -> int:
    """Run the stations of CONFIG until stopped, or until every recording has ended."""
    logs.start(journal="JOURNAL_STREAM" in os.environ)
    # before anything is loaded that needs it: killed by SIGILL, systemd would start us again and again
    cpu.require()
    signals = Signals()
    # heavy parts are loaded when the service starts, not for `edge-infer --help`
    from edge_infer.changeover.history import site_to_run
    from edge_infer.service import Service

    secrets = Secrets(os.environ)
    site = site_to_run(config, state_dir())
    site.require_secrets(secrets)
    service = Service(
        site,
        state_dir=site.state_dir or state_dir(),
        cache_dir=cache_dir(),
        runtime_dir=runtime_dir(),
        secrets=secrets,
        notifier=Notifier(os.environ),
    )
    signals.hand_to(service)
    return 0 if service.run() else 1


def state_dir() -> Path:
    """Where the outbox lives if the configuration does not say: systemd's, else the user's."""
    given = os.environ.get("STATE_DIRECTORY", "").partition(":")[0]
    return Path(given) if given else Path.home() / ".local/state/edge-infer"


def cache_dir() -> Path:
    """Where compiled networks are kept: systemd's directory, else the user's."""
    given = os.environ.get("CACHE_DIRECTORY", "").partition(":")[0]
    user = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(given or Path(user, "edge-infer"))


def runtime_dir() -> Path | None:
    """What systemd made for this run of the service."""
    given = os.environ.get("RUNTIME_DIRECTORY", "").partition(":")[0]
    return Path(given) if given else None


class Signals:
    """The first SIGTERM or SIGINT still delivers what is in hand, a second one ends at once; SIGHUP reloads.

    Handlers only set flags; a signal that comes while the service is being made is not lost.
    """

    def __init__(self) -> None:
        self._asked = self._reload_asked = False
        self._service: Service | None = None
        signal.signal(signal.SIGTERM, self._stop)
        signal.signal(signal.SIGINT, self._stop)
        signal.signal(signal.SIGHUP, self._reload)

    def hand_to(self, service: Service) -> None:
        """From now on the service is asked."""
        self._service = service
        if self._reload_asked:
            service.reload()
        if self._asked:
            service.stop()

    def _reload(self, _number: int, _: FrameType | None) -> None:
        # a terminal that was closed reloads too, which changes nothing
        self._reload_asked = True
        if self._service is not None:
            self._service.reload()

    def _stop(self, number: int, _: FrameType | None) -> None:
        if self._asked:
            os._exit(128 + number)
        self._asked = True
        if self._service is not None:
            self._service.stop()
