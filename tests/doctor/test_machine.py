"""What the kernel tells in files: devices, clock, heat, memory, network."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from edge_infer import clock
from edge_infer.doctor import devices, heat, limits, memory, network, nodes, time_of_day
from edge_infer.doctor.machine import Who
from tests.support.patients import booted, root, subject, told
from tests.support.runs import site
from tests.support.sysfs import fanless_pc, write

NPU = {"type": "openvino", "device": "NPU"}
PCI = "sys/bus/pci/devices/0000:00:0b.0"


def site_on(folder: Path, backend: dict[str, Any]) -> Path:
    return site(folder, None, models={"m": {"path": "model", "backend": backend}})


def node(path: Path, mode: int, group: int) -> Path:
    """A device file: what it leads to does not matter here."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    path.chmod(mode)
    os.chown(path, 0, group)
    return path


@pytest.fixture
def ordinary(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks is nobody of the machine's."""
    who = Who("op", 1000, frozenset({"op"}), "sudo usermod -aG {group} op, then log in again")
    monkeypatch.setattr("edge_infer.doctor.subject.Subject.who", who)


def test_b03_an_npu_that_is_asked_for_and_not_there_fails(tmp_path: Path) -> None:
    found = told(devices.check, subject(root(tmp_path / "root"), site_on(tmp_path / "site", NPU)))["npu"]
    assert found.status == "fail"
    assert "modprobe intel_vpu" in found.mend


def test_an_npu_that_no_driver_has_taken_is_told(tmp_path: Path) -> None:
    folder = root(tmp_path, **{f"{PCI}/class": "0x120000", f"{PCI}/vendor": "0x8086"})
    found = told(devices.check, subject(folder))["npu"]
    assert found.status == "warn"
    assert "no driver has taken it" in found.found
    assert "sudo modprobe intel_vpu" in found.mend


def test_b03_an_npu_whose_user_space_driver_is_missing_is_told(tmp_path: Path) -> None:
    folder = root(tmp_path / "root")
    node(folder / "dev/accel/accel0", 0o660, 0)
    found = told(devices.check, subject(folder, site_on(tmp_path / "site", NPU)))["npu"]
    assert found.status == "fail"
    assert "user-space driver is not" in found.found
    write(folder, {"usr/lib/x86_64-linux-gnu/libze_intel_npu.so.1": ""})
    assert told(devices.check, subject(folder, site_on(tmp_path / "site", NPU)))["npu"].status == "ok"


@pytest.mark.usefixtures("ordinary")
def test_an_npu_of_a_group_that_one_is_not_in_is_told_with_the_command(tmp_path: Path) -> None:
    folder = root(tmp_path / "root")
    node(folder / "dev/accel/accel0", 0o660, 44)
    found = told(devices.check, subject(folder, site_on(tmp_path / "site", NPU)))["npu"]
    assert found.status == "fail"
    assert found.mend.startswith("sudo usermod -aG video op")


@pytest.mark.usefixtures("ordinary")
def test_e11_a_camera_of_the_group_video_is_told_with_the_command(tmp_path: Path) -> None:
    folder = root(tmp_path / "root")
    node(folder / "dev/video0", 0o660, 44)
    config = site(tmp_path / "site", None, cameras={"scene": {"type": "v4l2", "path": "/dev/video0"}})
    found = told(nodes.check, subject(folder, config))["nodes.scene"]
    assert found.status == "fail"
    assert "group video's (-rw-rw----)" in found.found
    assert found.mend == "sudo usermod -aG video op, then log in again"


def test_e11_of_the_unit_its_own_groups_count_whoever_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = root(tmp_path / "root")
    node(folder / "dev/video0", 0o660, 44)
    config = site(tmp_path / "site", None, cameras={"scene": {"type": "v4l2", "path": "/dev/video0"}})
    programs = booted(folder, config)
    monkeypatch.setenv("PATH", str(programs), prepend=":")
    assert told(nodes.check, subject(folder, config))["nodes.scene"].status == "ok"
    said = folder / "said"
    said.write_text(said.read_text().replace("SupplementaryGroups=video render", "SupplementaryGroups="))
    found = told(nodes.check, subject(folder, config))["nodes.scene"]
    assert found.status == "fail"
    assert "SupplementaryGroups=video" in found.mend


def test_a_number_among_several_cameras_is_warned_of_with_the_name_that_stays(tmp_path: Path) -> None:
    folder = root(tmp_path / "root")
    for name in ("video0", "video1"):
        node(folder / f"dev/{name}", 0o666, 0)
    (folder / "dev/v4l/by-path").mkdir(parents=True)
    (folder / "dev/v4l/by-path/pci-0000:00:14.0-usb-0:1:1.0-video-index0").symlink_to("../../video1")
    config = site(tmp_path / "site", None, cameras={"scene": {"type": "v4l2", "path": "/dev/video1"}})
    found = told(nodes.check, subject(folder, config))["nodes.scene"]
    assert found.status == "warn"
    assert found.mend.endswith("by-path/pci-0000:00:14.0-usb-0:1:1.0-video-index0")


@pytest.mark.parametrize(("synced", "status"), [(True, "ok"), (False, "warn"), (None, "warn")])
def test_a_clock_that_nobody_keeps_is_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, synced: bool | None, status: str
) -> None:
    monkeypatch.setattr(clock, "synced", lambda: synced)
    assert told(time_of_day.check, subject(root(tmp_path)))["clock"].status == status


def test_d09_a_clock_of_1970_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "now", lambda: datetime(1970, 1, 1, 0, 7, tzinfo=UTC))
    found = told(time_of_day.check, subject(root(tmp_path)))["clock"]
    assert found.status == "fail"
    assert "set-ntp true" in found.mend


def test_a_time_zone_that_is_not_installed_is_told(tmp_path: Path) -> None:
    (root(tmp_path) / "etc/localtime").symlink_to("nowhere/zoneinfo/Mars/Base")
    found = told(time_of_day.check, subject(tmp_path))
    assert "Mars/Base" in found["clock"].found
    assert found["clock.zone"].status == "warn"


def test_heat_and_what_it_slowed_down_are_told(tmp_path: Path) -> None:
    fanless_pc(root(tmp_path) / "sys")
    found = told(heat.check, subject(tmp_path))
    assert found["heat"].status == "ok"
    assert "coretemp Package id 0 has 49 °C" in found["heat"].found
    assert found["heat.throttled"].status == "warn"
    assert "core 7 times" in found["heat.throttled"].found


@pytest.mark.parametrize(
    ("milli", "status"), [("91000", "warn"), ("101000", "fail"), ("127000", "ok"), ("-273", "ok")]
)
def test_hot_is_told_nonsense_is_not_believed(tmp_path: Path, milli: str, status: str) -> None:
    zone = "sys/class/thermal/thermal_zone0"
    folder = root(tmp_path, **{f"{zone}/type": "x86_pkg_temp", f"{zone}/temp": milli})
    assert told(heat.check, subject(folder))["heat"].status == status


def test_a_unit_that_may_take_more_than_the_machine_has_is_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(booted(root(tmp_path), MemoryMax=str(10**10))), prepend=":")
    found = told(memory.check, subject(tmp_path))["memory"]
    assert found.status == "warn"
    assert "MemoryMax=" in found.mend


def test_a_unit_near_its_limit_is_warned_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = {"MemoryMax": "1000000000", "MemoryCurrent": "950000000"}
    monkeypatch.setenv("PATH", str(booted(root(tmp_path), **said)), prepend=":")
    assert told(memory.check, subject(tmp_path))["memory.unit"].status == "warn"


def test_a_machine_without_memory_left_fails(tmp_path: Path) -> None:
    folder = root(tmp_path, **{"proc/meminfo": "MemTotal: 8000000 kB\nMemAvailable: 100000 kB"})
    assert told(memory.check, subject(folder))["memory"].status == "fail"


GIGE = {"type": "gige", "address": "10.0.7.5", "packet_size": 8000}
ROUTES = """\
Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
eth0\t00000000\t0100000A\t0003\t0\t0\t0\t00000000\t0\t0\t0
eth1\t0007000A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0
"""


def gige(folder: Path, **files: str) -> dict[str, Any]:
    tree = {
        "proc/net/route": ROUTES,
        "sys/class/net/eth1/mtu": "9000",
        "proc/sys/net/core/rmem_max": "212992",
    }
    config = site(folder / "site", None, cameras={"scene": GIGE})
    return dict(told(network.check, subject(root(folder / "root", **tree | files), config)))


def test_buffers_that_are_too_small_for_a_gige_camera_are_warned_of_with_the_command(tmp_path: Path) -> None:
    found = gige(tmp_path)
    assert found["network.buffers"].status == "warn"
    assert "net.core.rmem_max=8000000" in found["network.buffers"].mend
    assert found["network.scene"].status == "ok"
    assert "eth1, MTU 9000" in found["network.scene"].found


def test_packets_that_are_larger_than_the_card_takes_fail(tmp_path: Path) -> None:
    found = gige(tmp_path, **{"sys/class/net/eth1/mtu": "1500"})["network.scene"]
    assert found.status == "fail"
    assert "sudo ip link set eth1 mtu 9000" in found.mend


def test_a_camera_behind_a_router_fails(tmp_path: Path) -> None:
    found = gige(tmp_path, **{"proc/net/route": "\n".join(ROUTES.splitlines()[:2])})["network.scene"]
    assert found.status == "fail"
    assert "no network card is in the network of 10.0.7.5" in found.found


def test_a_port_for_metrics_that_somebody_has_fails(tmp_path: Path) -> None:
    line = "head\n   0: 0100007F:24F8 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 1"
    config = site(tmp_path / "site", None, metrics={"port": 9464})
    folder = root(tmp_path / "root", **{"proc/net/tcp": line})
    assert told(network.check, subject(folder, config))["network.metrics"].status == "fail"
    (folder / "proc/net/tcp").unlink()
    assert told(network.check, subject(folder, config))["network.metrics"].status == "ok"


@pytest.fixture
def few_files() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.usefixtures("few_files")
def test_too_few_files_are_warned_of(tmp_path: Path) -> None:
    assert told(limits.check, subject(root(tmp_path)))["limits"].mend == "ulimit -n 4096"


def test_a_unit_with_too_few_threads_is_warned_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(booted(root(tmp_path), TasksMax="16")), prepend=":")
    assert "TasksMax=256" in told(limits.check, subject(tmp_path))["limits"].mend
