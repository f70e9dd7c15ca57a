from __future__ import annotations

from pathlib import Path

from edge_infer.metrics.sensors import hardware_monitors, thermal_zones, throttles
from tests.support.sysfs import fanless_pc, write


def test_every_thermometer_is_told_with_its_place_and_name(tmp_path: Path) -> None:
    root = fanless_pc(tmp_path)
    assert [(one.place, one.name, one.celsius) for one in thermal_zones(root)] == [
        ("thermal_zone0", "acpitz", 27.8),
        ("thermal_zone1", "x86_pkg_temp", 48.5),
    ]
    assert [(one.place, one.name, one.celsius) for one in hardware_monitors(root)] == [
        ("hwmon0/temp1", "nvme Composite", 38.85),
        ("hwmon1/temp1", "coretemp Package id 0", 49.0),
        ("hwmon1/temp2", "coretemp Core 0", 47.0),
        ("hwmon1/temp3", "coretemp Core 1", 48.0),
    ]


def test_one_that_does_not_answer_costs_only_itself(tmp_path: Path) -> None:
    root = fanless_pc(tmp_path)
    write(root, {"class/thermal/thermal_zone0/temp": "", "class/hwmon/hwmon0/temp1_input": "?"})
    assert [one.place for one in thermal_zones(root)] == ["thermal_zone1"]
    assert len(list(hardware_monitors(root))) == 3
    (root / "class/hwmon/hwmon1/temp2_input").unlink()
    (root / "class/hwmon/hwmon1/temp2_input").mkdir()
    assert len(list(hardware_monitors(root))) == 2


def test_two_with_one_name_are_told_apart_by_their_places(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            f"class/thermal/thermal_zone{i}/{k}": v
            for i in range(2)
            for k, v in (("type", "acpitz"), ("temp", "30000"))
        },
    )
    places = [one.place for one in thermal_zones(tmp_path)]
    assert len(set(places)) == 2


def test_a_core_that_was_slowed_down_counts_once_whatever_number_of_threads_it_has(tmp_path: Path) -> None:
    assert throttles(fanless_pc(tmp_path)) == {"core": 7, "package": 9}


def test_a_machine_without_any_says_nothing(tmp_path: Path) -> None:
    assert list(thermal_zones(tmp_path)) == []
    assert list(hardware_monitors(tmp_path)) == []
    assert throttles(tmp_path) == {}
