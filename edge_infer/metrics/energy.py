"""What the processor has used, as it counts itself (RAPL)."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

SAMPLE_S = 30.0
"""Read at least so often: a counter begins again after minutes to hours, and nobody tells how many times."""
_DOUBLE = "intel-rapl-mmio"
"""The same package once more, over another way."""


@dataclass(frozen=True, slots=True)
class Energy:
    """One part of the machine."""

    zone: str
    """``intel-rapl:0``: once on a machine."""
    name: str
    """``package-0``, ``core``, ``uncore``, ``dram``, ``psys``; a package's number has its core and uncore."""
    joules: float
    """Since the meter was made."""


class EnergyMeter:
    """Thread-safe. `read` again and again, at least every ``SAMPLE_S``."""

    def __init__(self, sys: Path) -> None:
        self._root = sys / "class/powercap"
        self._lock = threading.Lock()
        self._last_uj: dict[str, int] = {}
        self._used_uj: dict[str, int] = {}

    def read(self) -> Sequence[Energy]:
        """Every zone that this user may read: since 2020 the kernel lets only root."""
        with self._lock:
            return [one for zone in sorted(self._root.glob("*:*")) if (one := self._zone(zone)) is not None]

    def _zone(self, zone: Path) -> Energy | None:
        if zone.name.startswith(_DOUBLE):
            return None
        try:
            now_uj = int((zone / "energy_uj").read_text(encoding="ascii"))
            largest_uj = int((zone / "max_energy_range_uj").read_text(encoding="ascii"))
            name = (zone / "name").read_text(encoding="utf-8", errors="replace").strip()
        except (OSError, ValueError):
            return None
        used_uj = now_uj - self._last_uj.get(zone.name, now_uj)
        if used_uj < 0:
            # it began again at 0 after the largest number it can count to
            used_uj += largest_uj
        self._last_uj[zone.name] = now_uj
        total_uj = self._used_uj[zone.name] = self._used_uj.get(zone.name, 0) + max(0, used_uj)
        return Energy(zone.name, name, total_uj / 1e6)
