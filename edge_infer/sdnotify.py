"""Tells systemd how the service is (sd_notify's protocol: one datagram to $NOTIFY_SOCKET)."""

from __future__ import annotations

import logging
import socket
from collections.abc import Mapping

log = logging.getLogger(__name__)


class Notifier:
    """Does nothing where there is no systemd."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        address = environ.get("NOTIFY_SOCKET", "")
        # '@' stands for the NUL of an abstract socket
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self.watchdog_s: float | None = None
        """Half of systemd's watchdog time: ping at least this often."""
        if environ.get("WATCHDOG_USEC", "").isdecimal():
            self.watchdog_s = int(environ["WATCHDOG_USEC"]) / 2e6

    def send(self, **fields: str) -> None:
        """Like ``send(READY="1", STATUS="2 stations run")``."""
        if not self._address:
            return
        message = "\n".join(f"{key}={value}" for key, value in fields.items())
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock:
                sock.sendto(message.encode(), self._address)
        except OSError as error:
            log.warning("systemd cannot be told %s: %s", " ".join(fields), error)
