"""Whether this processor has what the runtimes were compiled for; loads none of them to find out."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from edge_infer.errors import UnfitMachineError

CPUINFO = Path("/proc/cpuinfo")
NEEDED = {"x86_64": ("avx",), "aarch64": ("asimd",)}
"""By machine: runtimes are built for these; without one an illegal instruction may end them at any time."""
WANTED = {"x86_64": ("avx2",)}
"""By machine: without these the runtimes run, several times slower."""
REMEDY = (
    "use a processor with AVX2 (most since 2013, Intel N and x7000 series); "
    "a virtual machine gets its host's with the CPU type `host`"
)


@dataclass(frozen=True, slots=True)
class Processor:
    """As the kernel describes it."""

    machine: str
    """As `uname -m` says."""
    model: str
    flags: frozenset[str] | None
    """Of every core; None where the kernel's list cannot be read."""

    @property
    def lacks(self) -> tuple[str, ...]:
        """What the runtimes cannot do without. Nothing where nothing is known."""
        return self._without(NEEDED)

    @property
    def would_like(self) -> tuple[str, ...]:
        """What the runtimes are slow without."""
        return self._without(WANTED)

    def _without(self, table: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
        if self.flags is None:
            return ()
        return tuple(flag for flag in table.get(self.machine, ()) if flag not in self.flags)


def look(cpuinfo: Path = CPUINFO, machine: str | None = None) -> Processor:
    """Reads one file."""
    machine = machine or platform.machine()
    try:
        lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return Processor(machine, "unknown", None)
    model, flags = "", None
    for line in lines:
        key, _, value = line.partition(":")
        if key.strip() in ("model name", "Model"):
            model = model or value.strip()
        elif key.strip() in ("flags", "Features"):
            here = frozenset(value.split())
            # cores may differ, and nobody says where a thread will run
            flags = here if flags is None else flags & here
    return Processor(machine, model or "unknown", flags)


def require(cpuinfo: Path = CPUINFO, machine: str | None = None) -> None:
    """UnfitMachineError, one line, where a runtime may be killed by the kernel (SIGILL)."""
    processor = look(cpuinfo, machine)
    if processor.lacks:
        names = ", ".join(flag.upper() for flag in processor.lacks)
        raise UnfitMachineError(
            f"this processor ({processor.model}) has no {names}: "
            "the runtimes may end by an illegal instruction (SIGILL)",
            hint=REMEDY,
        )
