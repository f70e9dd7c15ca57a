"""Cores that a process may use: its affinity and the quotas of its control groups."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from edge_infer import cores


@pytest.mark.parametrize(
    ("limits", "usable"),
    [
        ({}, 64),
        ({"": "max 100000"}, 64),
        ({"system.slice/edge-infer.service": "150000 100000"}, 2),
        ({"system.slice/edge-infer.service": "20000 100000"}, 1),
        ({"system.slice/edge-infer.service": "max 100000", "system.slice": "300000 100000"}, 3),
        ({"system.slice/edge-infer.service": "6400000 50000"}, 64),
        # inside a container the group's path is the host's
        ({"": "250000 100000"}, 3),
        ({"system.slice/edge-infer.service": "odd"}, 64),
        ({"system.slice/edge-infer.service": "100000 0"}, 64),
    ],
)
def test_a_quota_of_any_group_above_it_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limits: dict[str, str], usable: int
) -> None:
    monkeypatch.setattr(cores, "allowed", lambda: 64)
    own, root = tmp_path / "cgroup", tmp_path / "fs"
    own.write_text("1:cpu:/old\n0::/system.slice/edge-infer.service\n")
    for group, text in limits.items():
        (root / group).mkdir(parents=True, exist_ok=True)
        (root / group / "cpu.max").write_text(f"{text}\n")
    assert cores.usable(own, root) == usable


def test_where_the_kernel_tells_of_no_groups_the_affinity_counts(tmp_path: Path) -> None:
    assert cores.usable(tmp_path / "absent", tmp_path) == len(os.sched_getaffinity(0))


def test_the_affinity_of_this_process_counts() -> None:
    code = "from edge_infer import cores; print(cores.usable())"
    told = subprocess.run(
        ["taskset", "-c", "0", sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert told.stdout == "1\n"


def test_the_commands_leave_the_cores_to_the_runtimes() -> None:
    code = (
        "import os, sys; from edge_infer import cli; sys.argv = ['edge-infer', '--version']\n"
        "try: cli.main()\nexcept SystemExit: pass\n"
        "assert 'numpy' not in sys.modules\n"
        "import numpy as np; square = np.ones((1500, 1500), np.float32); square @ square\n"
        "print(len(os.listdir('/proc/self/task')))"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.splitlines()[-1] == "1"
