"""The processor's energy meter."""

from __future__ import annotations

from pathlib import Path

import pytest

from edge_infer.tune.energy import Meter


def zone(root: Path, name: str, microjoules: int) -> Path:
    folder = root / "class/powercap" / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "name").write_text("package\n")
    (folder / "energy_uj").write_text(f"{microjoules}\n")
    (folder / "max_energy_range_uj").write_text("262143328850\n")
    return folder


def test_packages_are_summed_and_their_parts_are_not_counted_twice(tmp_path: Path) -> None:
    for name in ("intel-rapl:0", "intel-rapl:1", "intel-rapl:0:0"):
        zone(tmp_path, name, 1_000_000)
    meter = Meter(tmp_path)
    before = meter.read()
    for name in ("intel-rapl:0", "intel-rapl:1", "intel-rapl:0:0"):
        zone(tmp_path, name, 3_500_000)
    assert meter.unreadable is None
    assert meter.joules(before, meter.read()) == pytest.approx(5.0)


def test_a_counter_that_began_again_is_read_right(tmp_path: Path) -> None:
    zone(tmp_path, "intel-rapl:0", 262_143_000_000)
    meter = Meter(tmp_path)
    before = meter.read()
    zone(tmp_path, "intel-rapl:0", 1_671_150)
    assert meter.joules(before, meter.read()) == pytest.approx(2.0)


def test_a_machine_without_a_meter_says_so(tmp_path: Path) -> None:
    meter = Meter(tmp_path / "nothing")
    assert "offers no energy meter" in str(meter.unreadable)
    assert meter.joules(meter.read(), meter.read()) is None


def test_a_meter_that_only_root_may_read_is_said(tmp_path: Path) -> None:
    # root reads everything: a folder in the file's place cannot be read by anybody
    (tmp_path / "class/powercap/intel-rapl:0/energy_uj").mkdir(parents=True)
    assert "cannot be read" in str(Meter(tmp_path).unreadable)
