"""The wall clock: kept by a time service, of this time, in which zone."""

from __future__ import annotations

import time
from collections.abc import Iterator

from edge_infer import clock
from edge_infer.doctor.finding import Finding, fail, ok, warn
from edge_infer.doctor.subject import Subject

EARLIEST = 2025
"""A clock of before was never set: its battery is empty."""
LATEST = 2100


def check(subject: Subject, by_s: float) -> Iterator[Finding]:  # noqa: ARG001 - waits for at most 3 s
    """Certificates, stamps and shifts need it; decisions do not."""
    now = clock.now()
    if not EARLIEST <= now.year < LATEST:
        yield fail(
            "clock",
            f"it is {now:%Y-%m-%d %H:%M} UTC, which cannot be: certificates are not valid then",
            "sudo timedatectl set-ntp true; has the clock's battery run down? sudo hwclock --show",
        )
        return
    clock.ask_others()
    synced = clock.synced()
    here = f"{now.astimezone():%Y-%m-%d %H:%M %Z}, zone {_zone(subject)}"
    if synced is None:
        yield warn(
            "clock", f"{here}; nobody here knows whether a time service keeps it", "timedatectl status"
        )
    elif not synced:
        yield warn(
            "clock",
            f"{here}; no time service keeps it: stamps drift",
            "sudo timedatectl set-ntp true; without internet NTP= the plant's server in "
            "/etc/systemd/timesyncd.conf",
        )
    else:
        yield ok("clock", f"{here}, kept by a time service")
    link = subject.machine.path("/etc/localtime")
    if link.is_symlink() and not link.exists():
        yield warn(
            "clock.zone",
            f"{link} leads nowhere: shifts begin in UTC",
            "sudo timedatectl set-timezone Europe/Berlin (apt-get install tzdata)",
        )


def _zone(subject: Subject) -> str:
    link = subject.machine.path("/etc/localtime")
    if link.is_symlink():
        _, found, name = str(link.readlink()).partition("zoneinfo/")
        if found:
            return name
    return time.tzname[0]
