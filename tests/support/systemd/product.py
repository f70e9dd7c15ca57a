"""edge-infer in the machine: what `make deb` and `make wheelhouse` made of this checkout."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.systemd.machine import Machine

CHECKOUT = Path(__file__).parents[3]
VENV = "/opt/edge-infer/venv"
_SOURCES = "lib/python3.11/site-packages/edge_infer"


def package() -> Path:
    """The newest one in dist/ for this kind of processor."""
    kind = subprocess.run(
        ["dpkg", "--print-architecture"], capture_output=True, text=True, check=True, timeout=10
    ).stdout.strip()
    return _newest(f"edge-infer_*_{kind}.deb", "make deb")


def archive() -> Path:
    """For other distributions: the newest one in dist/."""
    return _newest("edge-infer-*-python3.*.tar", "make wheelhouse")


def _newest(pattern: str, made_by: str) -> Path:
    found = max((CHECKOUT / "dist").glob(pattern), key=lambda one: one.stat().st_mtime, default=None)
    if found is None:
        pytest.fail(f"there is no dist/{pattern}: run `{made_by}`")
    return found


def install(machine: Machine, package: Path) -> str:
    """As an operator does, without a network; what dpkg says."""
    shutil.copy(package, machine.root / "var/tmp")
    return machine.run(
        f"dpkg --install /var/tmp/{package.name}; rc=$?; rm /var/tmp/{package.name}; exit $rc", timeout_s=300
    )


def of_this_checkout(machine: Machine) -> None:
    """Fails where the package in it is an older one."""
    outdated = [
        str(one.relative_to(CHECKOUT))
        for one in (CHECKOUT / "edge_infer").rglob("*.py")
        if not _same(one, machine.root / f"{VENV[1:]}/{_SOURCES}" / one.relative_to(CHECKOUT / "edge_infer"))
    ]
    if outdated:
        pytest.fail(f"dist/*.deb is not of this checkout: run `make deb`; others: {', '.join(outdated[:5])}")


def _same(here: Path, there: Path) -> bool:
    return there.exists() and here.read_bytes() == there.read_bytes()
