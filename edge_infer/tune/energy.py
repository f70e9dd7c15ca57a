"""What the processor's own meter says (RAPL): joules of the whole package, whoever used them."""

from __future__ import annotations

from pathlib import Path

ROOT = Path("/sys/class/powercap")


class Meter:
    """Sums the packages. Readable by root only on most systems."""

    def __init__(self, root: Path = ROOT) -> None:
        # intel-rapl:0 is a package, intel-rapl:0:1 a part of it; AMD's are called so too
        self._zones = [zone for zone in sorted(root.glob("intel-rapl:*")) if zone.name.count(":") == 1]
        self.unreadable: str | None = None
        """Why there are no figures, as a sentence."""
        if not self._zones:
            self.unreadable = f"this machine offers no energy meter ({root} has no intel-rapl)"
        elif self.read() is None:
            self.unreadable = f"the energy meter cannot be read ({root}): run it as root"

    def read(self) -> tuple[int, ...] | None:
        """Microjoules of each package so far; None where that cannot be read."""
        try:
            return tuple(int((zone / "energy_uj").read_text()) for zone in self._zones) or None
        except (OSError, ValueError):
            return None

    def joules(self, before: tuple[int, ...] | None, after: tuple[int, ...] | None) -> float | None:
        """Between two readings; a counter that began again in between is told by its range."""
        if before is None or after is None:
            return None
        used = 0
        for zone, first, last in zip(self._zones, before, after, strict=True):
            if last < first:
                try:
                    last += int((zone / "max_energy_range_uj").read_text())  # noqa: PLW2901 - the true reading
                except (OSError, ValueError):
                    return None
            used += last - first
        return used / 1e6
