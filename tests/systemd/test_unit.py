from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

UNIT = Path(__file__).parents[2] / "systemd/edge-infer.service"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A root in which the unit's programs exist."""
    units = tmp_path / "etc/systemd/system"
    units.mkdir(parents=True)
    shutil.copy(UNIT, units)
    for program in (tmp_path / "opt/edge-infer/venv/bin/python", tmp_path / "bin/kill"):
        program.parent.mkdir(parents=True)
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


def test_a_misspelt_key_would_be_noticed(tree: Path) -> None:
    unit = tree / "etc/systemd/system" / UNIT.name
    unit.write_text(unit.read_text().replace("WatchdogSec=", "WatchdogSecs="))
    assert "'WatchdogSecs'" in verify(tree).stderr


def test_a_wrong_configuration_is_not_restarted() -> None:
    assert "RestartPreventExitStatus=78" in UNIT.read_text().splitlines()
