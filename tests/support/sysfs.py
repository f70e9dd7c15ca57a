"""Trees like /sys on machines that can measure more than those that run the tests. Laid out as the kernel's
documentation (Documentation/ABI, power/powercap, hwmon) says; values are made up."""

from __future__ import annotations

from pathlib import Path

RANGE_UJ = 262143328850
"""Where a package's counter begins again, on many processors."""


def write(root: Path, files: dict[str, str]) -> None:
    """Each with a line break at its end, as the kernel's have."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n", encoding="utf-8")


def zone(name: str, energy_uj: int, range_uj: int = RANGE_UJ) -> dict[str, str]:
    """The files of a RAPL zone."""
    return {"name": name, "energy_uj": str(energy_uj), "max_energy_range_uj": str(range_uj), "enabled": "1"}


def fanless_pc(root: Path) -> Path:
    """A processor of two cores with four threads, a disk, RAPL."""
    write(
        root,
        {
            "class/thermal/thermal_zone0/type": "acpitz",
            "class/thermal/thermal_zone0/temp": "27800",
            "class/thermal/thermal_zone1/type": "x86_pkg_temp",
            "class/thermal/thermal_zone1/temp": "48500",
            "class/hwmon/hwmon0/name": "nvme",
            "class/hwmon/hwmon0/temp1_input": "38850",
            "class/hwmon/hwmon0/temp1_label": "Composite",
            "class/hwmon/hwmon1/name": "coretemp",
            "class/hwmon/hwmon1/temp1_input": "49000",
            "class/hwmon/hwmon1/temp1_label": "Package id 0",
            "class/hwmon/hwmon1/temp2_input": "47000",
            "class/hwmon/hwmon1/temp2_label": "Core 0",
            "class/hwmon/hwmon1/temp3_input": "48000",
            "class/hwmon/hwmon1/temp3_label": "Core 1",
            "class/hwmon/hwmon1/fan1_input": "0",
            "class/powercap/intel-rapl/enabled": "1",
            **_at("class/powercap/intel-rapl:0", zone("package-0", 1_000_000)),
            **_at("class/powercap/intel-rapl:0:0", zone("core", 500_000)),
            **_at("class/powercap/intel-rapl:0:1", zone("uncore", 100_000)),
            **_at("class/powercap/intel-rapl-mmio:0", zone("package-0", 1_000_000)),
        },
    )
    for cpu, (core, cores_own) in enumerate(((0, 3), (1, 4), (0, 3), (1, 4))):
        write(
            root / f"devices/system/cpu/cpu{cpu}",
            {
                "topology/physical_package_id": "0",
                "topology/core_id": str(core),
                "thermal_throttle/core_throttle_count": str(cores_own),
                "thermal_throttle/package_throttle_count": "9",
            },
        )
    return root


def _at(folder: str, files: dict[str, str]) -> dict[str, str]:
    return {f"{folder}/{name}": text for name, text in files.items()}


def use(root: Path, zone: str, energy_uj: int) -> None:
    """The zone's counter is there now."""
    (root / f"class/powercap/{zone}/energy_uj").write_text(f"{energy_uj}\n")
