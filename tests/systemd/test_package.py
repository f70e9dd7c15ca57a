"""The Debian package in a machine without a network: installed, upgraded under a running service, purged."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.runs import whole
from tests.support.systemd import Machine, product
from tests.support.systemd.service import CONFIGURATION, NAME, Service

NEWER = "9.9.9"
EXAMPLES = "/usr/share/edge-infer/examples"
# deploy/README.md names them
LEFT_BY_A_PURGE = {
    "/etc/edge-infer",
    "/etc/systemd/system/edge-infer.service.d",
    "/var/lib/private/edge-infer",
}
# of the machine: its users, and what it notes of itself
NOT_OURS = (
    "/proc",
    "/sys",
    "/run",
    "/tmp",
    "/dev",
    "/var/tmp",
    "/var/lib/dpkg",
    "/var/log/journal",
    "/var/log/dpkg.log",
)


def everything(machine: Machine) -> set[str]:
    """The paths of all its files and folders."""
    apart = " -o ".join(f"-path {one}" for one in NOT_OURS)
    return set(machine.run(f"find / -xdev \\( {apart} \\) -prune -o -print").splitlines())


@pytest.fixture(scope="module")
def newer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same package with a higher version, inside and outside."""
    folder = tmp_path_factory.mktemp("newer")
    tree = folder / "tree"
    subprocess.run(["dpkg-deb", "--raw-extract", product.package(), tree], check=True, timeout=120)
    control = (tree / "DEBIAN/control").read_text().splitlines()
    lines = [f"Version: {NEWER}" if line.startswith("Version: ") else line for line in control]
    (tree / "DEBIAN/control").write_text("\n".join(lines) + "\n")
    (source,) = tree.glob("opt/edge-infer/venv/lib/python3.*/site-packages/edge_infer/__init__.py")
    before = source.read_bytes()
    source.write_text(f'{before.decode().rpartition("__version__")[0]}__version__ = "{NEWER}"\n')
    sums = (tree / "DEBIAN/md5sums").read_text()
    (tree / "DEBIAN/md5sums").write_text(sums.replace(md5(before), md5(source.read_bytes())))
    package = folder / "newer.deb"
    subprocess.run(
        ["dpkg-deb", "--root-owner-group", "-Zzstd", "-z1", "--build", tree, package],
        check=True, timeout=120, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    shutil.rmtree(tree)
    return package


def md5(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    """One of these tests' own; they run in their order."""
    with Machine() as machine:
        yield machine


@pytest.fixture(scope="module")
def empty(machine: Machine) -> set[str]:
    """Its files before anything was installed."""
    # what a first user and a first boot leave
    machine.run("systemd-sysusers /usr/lib/sysusers.d/*.conf; systemctl daemon-reload")
    return everything(machine)


@pytest.fixture(scope="module")
def said(machine: Machine, empty: set[str]) -> str:
    """By dpkg, when it was installed for the first time."""
    assert empty
    return product.install(machine, product.package())


def test_it_installs_without_a_network_and_waits_for_a_configuration(machine: Machine, said: str) -> None:
    assert f"not started, as there is no {CONFIGURATION}" in said
    assert machine.show(NAME, "ActiveState") == "inactive"
    assert machine.show(NAME, "UnitFileState") == "enabled"
    assert machine.run("ls -A /etc/edge-infer") == ""
    assert machine.run("edge-infer --version").startswith("edge-infer, version ")
    assert machine.run("dpkg --audit") == ""


@pytest.mark.usefixtures("said")
def test_root_and_the_services_user_check_each_example_and_leave_nothing_in_the_program(
    machine: Machine,
) -> None:
    done = machine.ask("runuser", "-u", NAME, "--", "edge-infer", "check", f"{EXAMPLES}/demo.yaml")
    assert done.returncode == 0, done.stdout
    machine.run(f"edge-infer check {EXAMPLES}/demo.yaml")
    owned = set(machine.run("dpkg --listfiles edge-infer").splitlines())
    assert set(machine.run("find /opt/edge-infer").splitlines()) <= owned
    assert machine.run("dpkg --verify edge-infer") == ""


@pytest.mark.usefixtures("said")
def test_the_example_judges_without_anything_else(machine: Machine) -> None:
    machine.run(f"cp {EXAMPLES}/demo.yaml {CONFIGURATION} && systemctl start {NAME}")
    assert machine.show(NAME, "StatusText").startswith("1 of 1 stations judge")
    machine.run(f"systemctl stop {NAME}")


@pytest.mark.usefixtures("said")
def test_an_upgrade_under_a_running_service_loses_nothing_and_keeps_the_configuration(
    machine: Machine, newer: Path, service: Service
) -> None:
    service.configure()
    service.write_configuration(f"# the site's own\n{service.configuration}")
    configuration = service.configuration
    heard = service.subscribe()
    service.start()
    heard.wait(lambda got: len(got) >= 5, "/result")
    process = service.pid
    product.install(machine, newer)
    assert (service.show("ActiveState"), service.show("NRestarts")) == ("active", "0")
    assert service.pid not in (0, process)
    assert NEWER in machine.run("edge-infer --version")
    before = len(heard.messages("/result"))
    heard.wait(lambda got: len(got) > before + 5, "/result", timeout_s=60)
    assert heard.messages("/status")[-1].json["version"] == NEWER
    service.stop()
    assert service.configuration == configuration
    # one count from first to last: no number is missing
    assert len(whole(heard.messages("/result"))) == 1


@pytest.mark.usefixtures("said")
def test_back_to_the_older_version_with_a_wrong_configuration_is_done_and_says_so(
    machine: Machine, service: Service
) -> None:
    service.configure()
    service.start()
    service.write_configuration(service.configuration.replace("at_least: 1", "at_leats: 1"))
    told = product.install(machine, product.package())
    assert "the service did not start; why: systemctl status edge-infer" in told
    assert NEWER not in machine.run("edge-infer --version")
    assert machine.run("dpkg --audit") == ""
    assert "at_leats" in service.systemctl("status").stdout


@pytest.mark.parametrize(
    ("before", "after"), [("active", "active"), ("inactive", "inactive"), ("failed", "active")]
)
@pytest.mark.usefixtures("said")
def test_an_upgrade_leaves_stopped_what_was_stopped_and_tries_again_what_had_failed(
    service: Service, before: str, after: str
) -> None:
    service.configure()
    service.start()
    if before == "inactive":
        service.stop()
    if before == "failed":
        service.stop()
        configuration = service.configuration
        service.write_configuration("format: 0\n")
        assert service.systemctl("start").returncode != 0
        service.write_configuration(configuration)
    assert service.show("ActiveState") == before
    # as dpkg calls them, without the minute in between
    info = "/var/lib/dpkg/info/edge-infer"
    service.machine.run(f"{info}.prerm upgrade {NEWER}")
    assert service.pid == 0
    service.machine.run(f"{info}.postinst configure {NEWER}")
    assert service.show("ActiveState") == after


@pytest.mark.usefixtures("said")
def test_an_upgrade_that_breaks_off_starts_the_older_version_again(service: Service) -> None:
    service.configure()
    service.start()
    # as dpkg does where the disk is too small for the newer one
    info = "/var/lib/dpkg/info/edge-infer"
    service.machine.run(f"{info}.prerm upgrade {NEWER}; {info}.postinst abort-upgrade {NEWER}")
    assert service.show("ActiveState") == "active"


@pytest.mark.usefixtures("said")
def test_what_was_disabled_stays_disabled_over_an_upgrade(service: Service) -> None:
    service.configure()
    service.machine.run(f"systemctl disable {NAME}")
    service.machine.run(f"/var/lib/dpkg/info/edge-infer.postinst configure {NEWER}")
    assert (service.show("UnitFileState"), service.show("ActiveState")) == ("disabled", "inactive")
    service.machine.run(f"systemctl enable {NAME}")


@pytest.mark.usefixtures("said")
def test_a_removed_service_leaves_what_it_found_and_goes_on_where_it_was_when_it_comes_back(
    machine: Machine, service: Service
) -> None:
    service.configure(evidence={"ok_every": 1})
    heard = service.subscribe()
    service.start()
    heard.wait(lambda got: len(got) >= 5, "/result")
    machine.run("dpkg --remove edge-infer", timeout_s=300)
    assert not (machine.root / "opt/edge-infer").exists()
    assert machine.run("find /var/lib/private/edge-infer -name '*.jpg'")
    configuration = service.configuration
    product.install(machine, product.package())
    # as it was: the configuration is there
    assert (service.show("ActiveState"), service.show("UnitFileState")) == ("active", "enabled")
    service.goes_on(heard)
    assert service.configuration == configuration


@pytest.mark.usefixtures("said")
def test_a_purge_leaves_what_is_documented_and_names_it(
    machine: Machine, empty: set[str], service: Service
) -> None:
    service.configure(evidence={"ok_every": 1})
    drop_in = "/etc/systemd/system/edge-infer.service.d"
    machine.run(f"mkdir -p {drop_in} && echo '[Service]' >{drop_in}/site.conf && systemctl daemon-reload")
    heard = service.subscribe()
    service.start()
    heard.wait(lambda got: len(got) >= 5, "/result")
    kept = machine.run("find /etc/edge-infer -type f -exec sha256sum {} +")
    told = machine.run("dpkg --purge edge-infer", timeout_s=300)
    left = everything(machine) - empty
    assert {one for one in left if not one.startswith(tuple(LEFT_BY_A_PURGE))} == {"/var/lib/edge-infer"}
    assert all(f"{one} stays" in told for one in LEFT_BY_A_PURGE)
    assert machine.run("find /etc/edge-infer -type f -exec sha256sum {} +") == kept
    assert machine.run("find /var/lib/private/edge-infer -name '*.jpg'")
    # a device that is given away: what deploy/README.md says
    machine.run(f"rm -r {' '.join(LEFT_BY_A_PURGE)} /var/lib/edge-infer")
    assert everything(machine) <= empty


def test_a_purge_of_what_was_never_configured_leaves_nothing(machine: Machine, empty: set[str]) -> None:
    product.install(machine, product.package())
    machine.run("dpkg --purge edge-infer", timeout_s=300)
    assert everything(machine) <= empty
