from __future__ import annotations

from pathlib import Path

from edge_infer.metrics.energy import EnergyMeter
from tests.support.sysfs import RANGE_UJ, fanless_pc, use, write, zone


def _joules(meter: EnergyMeter) -> dict[str, float]:
    return {one.zone: one.joules for one in meter.read()}


def test_energy_is_what_was_used_since_the_first_look_in_joules(tmp_path: Path) -> None:
    meter = EnergyMeter(fanless_pc(tmp_path))
    assert _joules(meter) == {"intel-rapl:0": 0.0, "intel-rapl:0:0": 0.0, "intel-rapl:0:1": 0.0}
    use(tmp_path, "intel-rapl:0", 3_500_000)
    use(tmp_path, "intel-rapl:0:0", 1_500_000)
    assert _joules(meter) == {"intel-rapl:0": 2.5, "intel-rapl:0:0": 1.0, "intel-rapl:0:1": 0.0}
    assert [one.name for one in meter.read()] == ["package-0", "core", "uncore"]


def test_a_counter_that_begins_again_goes_on(tmp_path: Path) -> None:
    meter = EnergyMeter(fanless_pc(tmp_path))
    use(tmp_path, "intel-rapl:0", RANGE_UJ - 1_000_000)
    before = _joules(meter)["intel-rapl:0"]
    use(tmp_path, "intel-rapl:0", 2_000_000)
    assert round(_joules(meter)["intel-rapl:0"] - before, 6) == 3.0
    use(tmp_path, "intel-rapl:0", 2_500_000)
    assert round(_joules(meter)["intel-rapl:0"] - before, 6) == 3.5


def test_the_same_package_over_another_way_is_not_counted_twice(tmp_path: Path) -> None:
    assert not any("mmio" in zone for zone in _joules(EnergyMeter(fanless_pc(tmp_path))))


def test_one_that_may_not_be_read_is_left_out(tmp_path: Path) -> None:
    root = fanless_pc(tmp_path)
    (root / "class/powercap/intel-rapl:0:0/energy_uj").unlink()
    # root may read everything: a folder stands for what cannot be read
    (root / "class/powercap/intel-rapl:0:0/energy_uj").mkdir()
    write(root / "class/powercap/intel-rapl:0:1", {**zone("uncore", 0), "energy_uj": "none"})
    assert list(_joules(EnergyMeter(root))) == ["intel-rapl:0"]


def test_a_machine_without_rapl_says_nothing(tmp_path: Path) -> None:
    assert list(EnergyMeter(tmp_path).read()) == []
