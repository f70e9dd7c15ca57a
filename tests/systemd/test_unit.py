"""What can be said of the unit without running it."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.systemd.probing import service_lines

UNIT = Path(__file__).parents[2] / "systemd/edge-infer.service"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A root in which the unit's programs exist."""
    units = tmp_path / "etc/systemd/system"
    units.mkdir(parents=True)
    shutil.copy(UNIT, units)
    programs = re.findall(r"^Exec\w+=(\S+)", UNIT.read_text(), re.MULTILINE)
    for program in (tmp_path / one.lstrip("/") for one in programs):
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
    for target in ("network-online.target", "time-sync.target", "sysinit.target", "basic.target"):
        (units / target).write_text("[Unit]\nDescription=stand-in\n")
    return tmp_path


def verify(tree: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["systemd-analyze", "verify", "--man=no", f"--root={tree}", UNIT.name],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def test_systemd_understands_every_line_of_the_unit(tree: Path) -> None:
    done = verify(tree)
    # it exits with 0 on keys it does not know, and only says so
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("WatchdogSec=10", "WatchdogSecs=10"),
        ("Type=notify", "Type=notify-reload"),
        ("MemoryMax=2G", "MemoryMax=2Gi"),
        ("Restart=on-failure", "Restart=sometimes"),
        ("SystemCallFilter=@system-service", "SystemCallFilter=@system-services"),
        ("ProtectSystem=strict", "ProtectSystem=strictly"),
        ("DevicePolicy=closed", "DevicePolicy=tight"),
        ("RestrictAddressFamilies=AF_UNIX", "RestrictAddressFamilies=AF_UNIXX"),
        ("UMask=0077", "UMask=0999"),
        ("TimeoutStopSec=20", "TimeoutStopSec=soon"),
        ("IPAddressAllow=localhost", "IPAddressAllow=10.0.0.0/33"),
        ("ExecStart=/opt/edge-infer/venv/bin/python", "ExecStart=/opt/edge-infer/bin/python"),
        ("Wants=network-online.target", "Requires=a-unit-that-is-not-there.service"),
    ],
)
def test_a_mistake_in_the_unit_would_be_noticed(tree: Path, line: str, wrong: str) -> None:
    unit = tree / "etc/systemd/system" / UNIT.name
    assert line in unit.read_text()
    unit.write_text(unit.read_text().replace(line, wrong))
    done = verify(tree)
    assert (done.returncode, done.stderr) != (0, "")


def exposure(*files: Path, folder: Path, threshold: int = 20) -> subprocess.CompletedProcess[str]:
    """Of a unit with its drop-ins; exit 1 above ``threshold`` tenths."""
    unit, *drop_ins = files
    (folder / f"{unit.name}.d").mkdir()
    for one in drop_ins:
        shutil.copy(one, folder / f"{unit.name}.d")
    here = Path(shutil.copy(unit, folder))
    return subprocess.run(
        [
            "systemd-analyze",
            "security",
            "--offline=true",
            f"--threshold={threshold}",
            "--no-pager",
            str(here),
        ],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def test_the_exposure_is_at_most_2(tmp_path: Path) -> None:
    done = exposure(UNIT, folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout


def test_an_exposure_above_the_limit_would_be_noticed(tmp_path: Path) -> None:
    open_one = tmp_path / "edge-infer.service"
    open_one.write_text(UNIT.read_text().replace("SystemCallFilter=", "# "))
    (tmp_path / "here").mkdir()
    assert exposure(open_one, folder=tmp_path / "here").returncode == 1


FORBIDDEN = {
    "Type=notify-reload": "systemd 252 ignores it and takes the service for started at once",
    "MemoryDenyWriteExecute=yes": "OpenVINO compiles code at run time",
    "NoExecPaths=/": "with ExecPaths=, systemd 252 mounts those writable again",
    "ExecPaths=": "systemd 252 mounts them writable, whatever ProtectSystem= says",
    "ProcSubset=pid": "ONNX Runtime and OpenVINO read /proc/cpuinfo",
    "PrivateDevices=yes": "no camera, GPU or NPU would be left",
    "PrivateUsers=yes": "the groups of cameras and GPUs would be nobody's",
    "PrivateNetwork=yes": "no broker would be left",
    "LimitAS=": "OpenVINO cannot load its plug-ins; MemoryMax= is the limit",
    "LimitNPROC=": "the runtimes cannot start their threads; TasksMax= is the limit",
    "ConfigurationDirectory=": "the configuration would be writable",
    "InaccessiblePaths=/sys": "OpenVINO never returns without /sys/devices/system/cpu",
}


@pytest.mark.parametrize("forbidden", FORBIDDEN)
def test_the_unit_has_no_line_that_breaks_a_runtime_or_another_line(forbidden: str) -> None:
    exact = not forbidden.endswith("=")
    found = [
        line
        for line in service_lines(UNIT.read_text())
        if line == forbidden or (not exact and line.startswith(forbidden))
    ]
    assert not found, FORBIDDEN[forbidden]


def test_a_forbidden_system_call_is_an_error_not_the_end_without_a_word() -> None:
    lines = service_lines(UNIT.read_text())
    assert any(line.startswith("SystemCallFilter=") for line in lines)
    assert "SystemCallErrorNumber=EPERM" in lines


def test_devices_are_allowed_by_names_that_the_kernel_has() -> None:
    # systemd takes any word for the name of a kind of device
    texts = [UNIT, *(UNIT.parent / "drop-ins").glob("*.conf")]
    kinds = {
        kind
        for one in texts
        for kind in re.findall(r"^DeviceAllow=char-(\S+)", one.read_text(), re.MULTILINE)
    }
    assert kinds <= {"video4linux", "media", "drm", "accel", "usb_device", "gpiochip"}
