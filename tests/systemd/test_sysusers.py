"""Whom the unit runs as, and the groups that it names."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.support.systemd.probing import service_lines

SYSTEMD = Path(__file__).parents[2] / "systemd"


def test_every_user_and_group_that_the_unit_names_is_made(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    done = subprocess.run(
        ["systemd-sysusers", f"--root={tmp_path}", str(SYSTEMD / "sysusers.d/edge-infer.conf")],
        capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    users = {line.split(":")[0] for line in (tmp_path / "etc/passwd").read_text().splitlines()}
    groups = {line.split(":")[0] for line in (tmp_path / "etc/group").read_text().splitlines()}
    lines = dict(line.split("=", 1) for line in service_lines((SYSTEMD / "edge-infer.service").read_text()))
    assert lines["User"] in users
    assert set(lines["SupplementaryGroups"].split()) <= groups
