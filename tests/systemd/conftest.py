"""One machine for all tests of the running service."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.systemd import Machine
from tests.support.systemd.service import Service

CHECKOUT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """With the service installed, not configured."""
    extra = tmp_path_factory.mktemp("site-packages")
    (extra / "edge_infer").symlink_to("/opt/edge-infer/src/edge_infer")
    packages = next(Path(one) for one in sys.path if one.endswith("site-packages"))
    venv = tmp_path_factory.mktemp("venv")
    extra.chmod(0o755)
    venv.chmod(0o755)
    (venv / "bin").mkdir()
    (venv / "bin/python").symlink_to("/usr/bin/python3")
    (venv / "lib/python3.11/site-packages").mkdir(parents=True)
    (venv / "pyvenv.cfg").write_text(
        "home = /usr/bin\ninclude-system-site-packages = false\nversion = 3.11.2\n"
    )
    with Machine(
        f"--bind-ro={venv}:/opt/edge-infer/venv",
        f"--overlay-ro={packages}:{extra}:/opt/edge-infer/venv/lib/python3.11/site-packages",
        f"--bind-ro={CHECKOUT}/edge_infer:/opt/edge-infer/src/edge_infer",
    ) as machine:
        shutil.copy(CHECKOUT / "systemd/sysusers.d/edge-infer.conf", machine.root / "usr/lib/sysusers.d")
        shutil.copy(CHECKOUT / "systemd/edge-infer.service", machine.root / "lib/systemd/system")
        machine.run("mkdir -p /etc/edge-infer; systemd-sysusers; systemctl daemon-reload")
        yield machine


@pytest.fixture
def service(machine: Machine, tmp_path: Path) -> Iterator[Service]:
    """Not started."""
    service = Service(machine, tmp_path)
    yield service
    service.close()
