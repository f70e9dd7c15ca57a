"""Joules of the whole processor, whoever used them, by its own meter (RAPL)."""

from __future__ import annotations

from pathlib import Path

from edge_infer.metrics.energy import EnergyMeter

SYS = Path("/sys")


class Meter:
    """Sums the packages. Readable by root only on most systems."""

    def __init__(self, sys: Path = SYS) -> None:
        root = sys / "class/powercap"
        self._meter = EnergyMeter(sys)
        # intel-rapl:0 is a package, intel-rapl:0:1 a part of it; AMD's are called so too
        self._packages = {one.name for one in root.glob("intel-rapl:*") if one.name.count(":") == 1}
        self.unreadable: str | None = None
        """Why there are no figures, as a sentence."""
        if not self._packages:
            self.unreadable = f"this machine offers no energy meter ({root} has no intel-rapl)"
        elif self.read() is None:
            self.unreadable = f"the energy meter cannot be read ({root}): run it as root"

    def read(self) -> float | None:
        """Joules so far; None where that cannot be read."""
        used = {one.zone: one.joules for one in self._meter.read() if one.zone in self._packages}
        return sum(used.values()) if used and used.keys() == self._packages else None

    def joules(self, before: float | None, after: float | None) -> float | None:
        """Between two readings."""
        return None if before is None or after is None else after - before
