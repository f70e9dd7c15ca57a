"""What the kernel measures on this machine, below /sys."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Sensor:
    """One thermometer."""

    place: str
    """``thermal_zone0`` or ``hwmon1/temp2``: once on a machine, until it is started again."""
    name: str
    """What the kernel calls it; may be there twice."""
    celsius: float


def thermal_zones(sys: Path) -> Iterator[Sensor]:
    """Every zone that answers; one that is switched off does not."""
    for zone in sorted(sys.glob("class/thermal/thermal_zone*")):
        milli, name = _number(zone / "temp"), _text(zone / "type")
        if milli is not None and name is not None:
            yield Sensor(zone.name, name, milli / 1000)


def hardware_monitors(sys: Path) -> Iterator[Sensor]:
    """Every thermometer of every chip that answers: of cores, disks, boards."""
    for chip in sorted(sys.glob("class/hwmon/hwmon*")):
        chip_name = _text(chip / "name") or chip.name
        for file in sorted(chip.glob("temp*_input")):
            milli = _number(file)
            if milli is None:
                continue
            sensor = file.name.removesuffix("_input")
            label = _text(chip / f"{sensor}_label")
            yield Sensor(
                f"{chip.name}/{sensor}", f"{chip_name} {label}" if label else chip_name, milli / 1000
            )


def throttles(sys: Path) -> dict[str, int]:
    """How often cores, and packages, were slowed down for heat since the machine started; empty where the
    kernel does not count.
    """
    seen: dict[tuple[str, str], int] = {}
    for cpu in sorted(sys.glob("devices/system/cpu/cpu[0-9]*")):
        package = _text(cpu / "topology/physical_package_id") or "0"
        core = _text(cpu / "topology/core_id") or cpu.name
        # threads of a core, and cores of a package, tell the same number
        for scope, key in (("core", f"{package}/{core}"), ("package", package)):
            count = _number(cpu / f"thermal_throttle/{scope}_throttle_count")
            if count is not None:
                seen[scope, key] = count
    return {
        scope: sum(count for (one, _), count in seen.items() if one == scope)
        for scope in dict.fromkeys(scope for scope, _ in seen)
    }


def _number(file: Path) -> int | None:
    try:
        return int(file.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None


def _text(file: Path) -> str | None:
    try:
        return file.read_text(encoding="utf-8", errors="replace").strip() or None
    except OSError:
        return None
