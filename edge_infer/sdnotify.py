"""Tells systemd how the service is (sd_notify's protocol: one datagram to $NOTIFY_SOCKET)."""

from __future__ import annotations

import errno
import logging
import os
import socket
import time
from collections.abc import Mapping

log = logging.getLogger(__name__)

LONGEST_BYTES = 1000
"""Of one value: systemd takes no datagram above 4096 bytes."""


class Notifier:
    """Does nothing where there is no systemd. Never waits, never fails: what cannot be told is left out."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        address = environ.get("NOTIFY_SOCKET", "")
        # '@' stands for the NUL of an abstract socket
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self._trouble: int | None = None
        if address and not address.startswith(("/", "@")):
            log.warning("NOTIFY_SOCKET=%s is no socket that is known here: systemd is told nothing", address)
            self._address = ""
        self.watchdog_s: float | None = None
        """Half of systemd's watchdog time: ping at least this often."""
        # without WATCHDOG_PID it is meant for whoever reads it
        ours = environ.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        wanted = environ.get("WATCHDOG_USEC", "")
        if ours and wanted.isascii() and wanted.isdecimal() and int(wanted):
            self.watchdog_s = int(wanted) / 2e6

    def send(self, **fields: str) -> bool:
        """Like ``send(READY="1", STATUS="2 stations run")``; False where systemd is too busy to take it."""
        if not self._address:
            return True
        message = b"\n".join(f"{key}=".encode() + _one_line(value) for key, value in fields.items())
        kind = socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
        try:
            with socket.socket(socket.AF_UNIX, kind) as sock:
                sock.sendto(message, self._address)
        except OSError as error:
            # once, not at each ping
            if error.errno != self._trouble:
                log.warning("systemd cannot be told %s: %s", " ".join(fields), error)
            self._trouble = error.errno or errno.EIO
            return False
        self._trouble = None
        return True

    def extend(self, timeout_s: float) -> None:
        """The start goes on: the next word comes within that time."""
        self.send(EXTEND_TIMEOUT_USEC=str(int(timeout_s * 1e6)))

    def reloading(self) -> None:
        """The configuration is read again; ``READY="1"`` follows, whatever came of it."""
        self.send(RELOADING="1", MONOTONIC_USEC=str(time.monotonic_ns() // 1000))


def _one_line(value: str) -> bytes:
    """Nothing in a value may look like another field."""
    text = "".join(sign if sign.isprintable() else " " for sign in value)
    raw = text.encode("utf-8", "replace")
    if len(raw) > LONGEST_BYTES:
        # not in the middle of a letter: systemd ignores what is no UTF-8
        raw = raw[: LONGEST_BYTES - 3].decode("utf-8", "ignore").encode() + "…".encode()
    return raw
