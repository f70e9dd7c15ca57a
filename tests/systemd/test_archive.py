"""The archive for other distributions in a machine without a network, pip or Debian's tools for packages."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.systemd import Machine, product
from tests.support.systemd.service import CONFIGURATION, NAME, Service

INSTALLER = "/opt/edge-infer/install.sh"


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("archive")
    subprocess.run(["tar", "-xf", product.archive(), "-C", folder], check=True, timeout=120)
    (one,) = folder.iterdir()
    return one


@pytest.fixture(scope="module")
def machine(unpacked: Path) -> Iterator[Machine]:
    """One of these tests' own, with the archive at /archive; they run in their order."""
    with Machine(f"--bind={unpacked}:/archive") as machine:
        yield machine


@pytest.fixture(scope="module")
def said(machine: Machine) -> str:
    """By the installer, the first time."""
    return machine.run("/archive/install.sh", timeout_s=300)


@pytest.mark.parametrize(
    ("file", "reason"),
    [("edge-infer.service", "files are damaged or missing"), ("runs-on", "this archive is for")],
)
def test_a_damaged_or_foreign_archive_is_refused_before_anything_changes(
    machine: Machine, unpacked: Path, file: str, reason: str
) -> None:
    before = (unpacked / file).read_text()
    (unpacked / file).write_text("python3.9-riscv64\n")
    told = machine.run("/archive/install.sh", check=False)
    (unpacked / file).write_text(before)
    assert reason in told
    assert not (machine.root / "opt/edge-infer/venv").exists()


@pytest.mark.slow
def test_it_installs_without_a_network_and_waits_for_a_configuration(machine: Machine, said: str) -> None:
    assert f"not started, as there is no {CONFIGURATION}" in said
    assert machine.run("edge-infer --version").startswith("edge-infer, version ")
    assert (machine.show(NAME, "ActiveState"), machine.show(NAME, "UnitFileState")) == ("inactive", "enabled")
    machine.run(f"runuser -u {NAME} -- edge-infer check /opt/edge-infer/examples/demo.yaml")
    assert machine.run("find /opt/edge-infer -newer /opt/edge-infer/install.sh -name '*.pyc'") == ""


@pytest.mark.slow
@pytest.mark.usefixtures("said")
def test_again_is_an_upgrade_that_loses_nothing(machine: Machine, service: Service) -> None:
    service.configure()
    configuration = service.configuration
    heard = service.subscribe()
    service.start()
    heard.wait(lambda got: len(got) >= 5, "/result")
    process = service.pid
    machine.run("/archive/install.sh", timeout_s=300)
    assert service.show("ActiveState") == "active"
    assert service.pid not in (0, process)
    service.goes_on(heard)
    assert service.configuration == configuration


@pytest.mark.usefixtures("said")
def test_uninstalled_it_leaves_the_configuration_and_what_was_found(
    machine: Machine, service: Service
) -> None:
    service.configure(evidence={"ok_every": 1})
    heard = service.subscribe()
    service.start()
    heard.wait(lambda got: len(got) >= 5, "/result")
    machine.run(f"{INSTALLER} uninstall")
    assert (machine.root / CONFIGURATION.lstrip("/")).exists()
    assert machine.run("find /var/lib/private/edge-infer -name '*.jpg'")
    assert (
        machine.run("systemctl list-unit-files edge-infer.service", check=False).count("edge-infer.service")
        == 0
    )
    left = machine.run("find /bin /etc /home /lib /opt /root /srv /usr /var -xdev -name '*edge-infer*'")
    assert set(left.splitlines()) == {"/etc/edge-infer", CONFIGURATION} | {
        f"/var/{of}/{where}edge-infer" for of in ("lib", "cache", "log") for where in ("", "private/")
    }


def test_where_the_debian_package_is_the_installer_refuses(machine: Machine) -> None:
    for one in ("var/lib/dpkg/info/edge-infer.list", "lib/systemd/system/edge-infer.service"):
        (machine.root / one).write_text("")
    told = machine.run("/archive/install.sh", check=False)
    assert "as a Debian package" in told
    assert not (machine.root / "opt/edge-infer").exists()
