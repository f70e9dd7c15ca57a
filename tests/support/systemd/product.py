"""edge-infer in the machine: `make deb`'s package where there is one, else this checkout in its place."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.systemd.machine import Machine

CHECKOUT = Path(__file__).parents[3]
VENV = "/opt/edge-infer/venv"
_SOURCES = "lib/python3.11/site-packages/edge_infer"


def package() -> Path | None:
    """The newest one in dist/ for this kind of processor."""
    kind = subprocess.run(
        ["dpkg", "--print-architecture"], capture_output=True, text=True, check=True, timeout=10
    ).stdout.strip()
    built = (CHECKOUT / "dist").glob(f"edge-infer_*_{kind}.deb")
    return max(built, key=lambda one: one.stat().st_mtime, default=None)


def in_its_place(folder: Path) -> list[str]:
    """Options of a machine with this checkout and the tests' libraries where the package would put them."""
    packages = next(Path(one) for one in sys.path if one.endswith("site-packages"))
    venv, extra = folder / "venv", folder / "extra"
    (venv / "bin").mkdir(parents=True)
    (venv / "bin/python").symlink_to("/usr/bin/python3")
    (venv / "lib/python3.11/site-packages").mkdir(parents=True)
    (venv / "pyvenv.cfg").write_text("home = /usr/bin\ninclude-system-site-packages = false\n")
    extra.mkdir()
    (extra / "edge_infer").symlink_to("/opt/edge-infer/src/edge_infer")
    for one in (folder, venv, extra):
        one.chmod(0o755)
    return [
        f"--bind-ro={venv}:{VENV}",
        f"--overlay-ro={packages}:{extra}:{VENV}/lib/python3.11/site-packages",
        f"--bind-ro={CHECKOUT}/edge_infer:/opt/edge-infer/src/edge_infer",
    ]


def put_unit(machine: Machine) -> None:
    """What the package would bring beside the program."""
    shutil.copy(CHECKOUT / "systemd/sysusers.d/edge-infer.conf", machine.root / "usr/lib/sysusers.d")
    shutil.copy(CHECKOUT / "systemd/edge-infer.service", machine.root / "lib/systemd/system")
    machine.run("mkdir -p /etc/edge-infer; systemd-sysusers; systemctl daemon-reload")


def install(machine: Machine, package: Path) -> None:
    """As an operator does, without a network; fails where the package is not of this checkout."""
    shutil.copy(package, machine.root / "var/tmp")
    machine.run(f"dpkg --install /var/tmp/{package.name}; rm /var/tmp/{package.name}", timeout_s=300)
    outdated = [
        str(one.relative_to(CHECKOUT))
        for one in (CHECKOUT / "edge_infer").rglob("*.py")
        if not _same(one, machine.root / f"{VENV[1:]}/{_SOURCES}" / one.relative_to(CHECKOUT / "edge_infer"))
    ]
    if outdated:
        pytest.fail(f"{package} is not of this checkout: run `make deb`; others: {', '.join(outdated[:5])}")


def _same(here: Path, there: Path) -> bool:
    return there.exists() and here.read_bytes() == there.read_bytes()
