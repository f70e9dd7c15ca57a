"""Memory of the machine beside the unit's limit."""

from __future__ import annotations

from collections.abc import Iterator

from edge_infer.doctor.finding import Finding, fail, ok, warn
from edge_infer.doctor.subject import Subject

_LITTLE = 300_000_000
_SYSTEM = 400_000_000
"""Bytes that everything else on the device needs."""
_NEARLY = 0.9


def check(subject: Subject, by_s: float) -> Iterator[Finding]:  # noqa: ARG001 - reads files only
    """A service that meets its limit is ended in the middle of its work."""
    total, available = (_field(subject, name) for name in ("MemTotal", "MemAvailable"))
    limit, used = subject.unit.number("MemoryMax"), subject.unit.number("MemoryCurrent")
    if total is None or available is None:
        yield warn("memory", "/proc/meminfo cannot be read", "a container needs /proc")
        return
    if available < _LITTLE:
        yield fail(
            "memory",
            f"{_mb(available)} of {_mb(total)} are free: the kernel will soon end programs",
            "ps aux --sort=-rss | head shows who has it",
        )
    elif limit is not None and limit > total - _SYSTEM:
        yield warn(
            "memory",
            f"the unit may take {_mb(limit)} of {_mb(total)}: the system would be starved first",
            f"sudo systemctl edit edge-infer: MemoryMax={(total - _SYSTEM) // 2**20}M below [Service]",
        )
    else:
        text = f"{_mb(available)} of {_mb(total)} are free"
        yield ok("memory", text if limit is None else f"{text}; the unit may take {_mb(limit)}")
    if limit is not None and used is not None and used > _NEARLY * limit:
        yield warn(
            "memory.unit",
            f"the service has {_mb(used)} of the {_mb(limit)} it may take",
            f"sudo systemctl edit edge-infer: MemoryMax={2 * limit // 2**20}M below [Service]",
        )


def _field(subject: Subject, name: str) -> int | None:
    for line in (subject.machine.text("/proc/meminfo") or "").splitlines():
        key, _, value = line.partition(":")
        if key == name:
            return int(value.split()[0]) * 1024
    return None


def _mb(size: int) -> str:
    return f"{size / 1e6:.0f} MB"
