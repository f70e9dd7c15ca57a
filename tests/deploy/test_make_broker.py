"""deploy/broker/make-broker as a program: what it keeps, refuses, prints and renews."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.support.publishers import PREFIX
from tests.support.site_broker import MAKE, SiteBroker, is_let_in, make

CHECKOUT = Path(__file__).parents[2]
OTHER = PREFIX.replace("ipc7", "ipc8")
COMMAND = f"{OTHER}/cap/cmd/start_single_job"


def test_what_is_there_and_good_is_kept_by_a_second_run(tmp_path: Path) -> None:
    site = tmp_path / "site"
    commands = (
        ("init", "--name", "broker.plant1.example", "--ip", "10.0.0.5"),
        ("device", "ipc7", "--site", "plant1", "--line", "l3"),
        ("reader", "mes"),
    )
    for verb, *arguments in commands:
        assert make(verb, site, *arguments).returncode == 0
    before = {path: path.read_bytes() for path in site.rglob("*.[ck][re][ty]")}
    assert len(before) == 11
    for verb, *arguments in commands:
        assert make(verb, site, *arguments).returncode == 0
    assert {path: path.read_bytes() for path in before} == before


def test_a_broker_with_another_address_gets_another_certificate_of_the_same_authority(tmp_path: Path) -> None:
    site = tmp_path / "site"
    make("init", site, "--ip", "10.0.0.5")
    ca, server = (site / "broker/ca.crt").read_bytes(), (site / "broker/server.crt").read_bytes()
    make("init", site, "--ip", "10.0.0.6", "--ip", "fd00::6", "--name", "b.example")
    assert (site / "broker/ca.crt").read_bytes() == ca
    assert (site / "broker/server.crt").read_bytes() != server
    shown = ["openssl", "x509", "-noout", "-ext", "subjectAltName", "-in", str(site / "broker/server.crt")]
    names = subprocess.run(shown, check=True, capture_output=True, text=True, timeout=20).stdout
    assert "DNS:b.example, IP Address:10.0.0.6, IP Address:FD00:0:0:0:0:0:0:6" in names


@pytest.mark.parametrize("lost", ["ca.key", "ca.crt", "both"])
def test_a_lost_authority_is_never_replaced_silently(tmp_path: Path, lost: str) -> None:
    site = tmp_path / "site"
    make("init", site, "--ip", "10.0.0.5")
    for name in ("ca.key", "ca.crt") if lost == "both" else (lost,):
        (site / "ca" / name).unlink()
    done = make("init", site, "--ip", "10.0.0.5")
    assert done.returncode == 1
    assert "backup" in done.stderr
    assert not (site / "ca/ca.key").exists() or not (site / "ca/ca.crt").exists()


def test_keys_are_their_owners_alone_and_the_authoritys_key_is_not_among_what_is_copied(
    broker: SiteBroker,
) -> None:
    keys = list(broker.made.rglob("*.key"))
    assert len(keys) >= 6
    assert {oct(path.stat().st_mode & 0o777) for path in keys} == {"0o600"}
    assert [path for path in keys if path.name == "ca.key"] == [broker.made / "ca/ca.key"]


def test_renew_makes_new_what_ends_soon_and_the_old_one_serves_until_it_is_replaced(
    broker: SiteBroker, tmp_path: Path
) -> None:
    old = {}
    for key, file in broker.files("mes").items():
        old[key] = str(tmp_path / Path(file).name)
        shutil.copy(file, old[key])
    assert "nothing ends" in broker.make("renew")
    assert Path(broker.files("mes")["cert"]).read_bytes() == Path(old["cert"]).read_bytes()
    # within 731 days everything does
    told = broker.make("renew", "--days", "731")
    assert "the broker's certificate is new" in told
    assert "made: " in told
    assert Path(broker.files("mes")["cert"]).read_bytes() != Path(old["cert"]).read_bytes()
    broker.stop()
    broker.start()
    assert is_let_in(broker, broker.files("mes"))
    assert is_let_in(broker, old)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("device", "mes"), 1, "mes is a reader"),
        (("device", "a/b"), 2, "letters, digits"),
        (("device", "+"), 2, "letters, digits"),
        (("revoke", "nobody"), 1, "there is no nobody"),
        (("renew", "nobody"), 1, "there is no nobody"),
        (("init", "--ip", "10.0.0.500"), 2, "no IP address"),
        (("init", "--name", "a b"), 2, "no host name"),
        (("init", "--port", "99999"), 2, "1 to 65535"),
        (("device", "ca"), 2, "choose another one"),
        (("reader", "server"), 2, "choose another one"),
        (("init", "--topic-prefix", "vision/{site}"), 2, "without {device}"),
        (("init", "--topic-prefix", "vision/{site}-{device}"), 2, "whole level"),
    ],
)
def test_a_mistake_is_told_and_changes_nothing(
    broker: SiteBroker, arguments: tuple[str, ...], code: int, said: str
) -> None:
    before = {path: path.read_bytes() for path in broker.made.rglob("*") if path.is_file()}
    verb, *rest = arguments
    done = make(verb, broker.made, *rest)
    assert done.returncode == code
    assert said in done.stderr
    assert {path: path.read_bytes() for path in broker.made.rglob("*") if path.is_file()} == before


def test_a_folder_that_cannot_be_made_is_one_line_without_a_traceback() -> None:
    done = make("init", Path("/proc/broker"), "--ip", "10.0.0.5")
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
    assert done.stderr.startswith("make-broker: /proc/broker: ")


def test_the_brokers_own_certificate_is_renewed_by_the_name_that_list_shows(tmp_path: Path) -> None:
    site = tmp_path / "site"
    make("init", site, "--ip", "10.0.0.5")
    before = (site / "broker/server.crt").read_bytes()
    _, name, *_ = make("list", site).stdout.split()
    assert "the broker's certificate is new" in make("renew", site, name).stdout
    assert (site / "broker/server.crt").read_bytes() != before


def printed(text: str, folder: Path, *, conf: str | None) -> list[str]:
    """What the commands for the broker's machine ask systemd for, where ``conf`` is its configuration."""
    there, asked = folder / "there", folder / "asked"
    there.mkdir()
    if conf is not None:
        (there / "mosquitto.conf").write_text(conf)
    (folder / "mosquitto.conf").write_text("new\n")
    commands = text.partition("in it:\n\n")[2].replace(
        "/etc/mosquitto/mosquitto.conf", f"{there}/mosquitto.conf"
    )
    # the last install of the configuration and what follows it; the others need the user mosquitto
    rest = commands[commands.index(" acl ") :].partition("\n")[2]
    script = f'sudo() {{ if [ "$1" = systemctl ]; then echo "$2" >>{asked}; else "$@"; fi; }}\n{rest}'
    subprocess.run(["bash", "-euc", script], cwd=folder, check=True, timeout=20)
    assert (there / "mosquitto.conf").read_text() == "new\n"
    return asked.read_text().split()


@pytest.mark.parametrize(
    ("conf", "verb"), [(None, "restart"), ("Debian's\n", "restart"), ("new\n", "reload")]
)
def test_the_printed_commands_restart_a_broker_whose_configuration_is_new_and_else_reload_it(
    tmp_path: Path, conf: str | None, verb: str
) -> None:
    # a reload opens no listener, and Debian's package has started a broker already
    make("init", tmp_path / "site", "--ip", "10.0.0.5")
    told = make("device", tmp_path / "site", "ipc7").stdout
    assert printed(told, tmp_path, conf=conf) == [verb]


def test_the_printed_commands_make_the_user_before_files_are_given_to_it(tmp_path: Path) -> None:
    # the unit's DynamicUser= exists only while the service runs
    make("init", tmp_path / "site", "--ip", "10.0.0.5")
    told = make("device", tmp_path / "site", "ipc7").stdout
    assert 0 < told.index("useradd --system --user-group") < told.index("install -d -o edge-infer")


def test_a_folder_with_a_blank_is_quoted_in_the_printed_commands(tmp_path: Path) -> None:
    told = make("init", tmp_path / "site", "--ip", "10.0.0.5", "--etc", "/etc/my plant").stdout
    installs = [shlex.split(line) for line in told.splitlines() if "install" in line and "plant" in line]
    assert [one[-1].rstrip("/") for one in installs] == ["/etc/my plant"] * 2


def test_another_topic_prefix_is_in_the_rights_and_in_the_printed_block(tmp_path: Path) -> None:
    site = tmp_path / "site"
    make("init", site, "--ip", "10.0.0.5", "--topic-prefix", "acme/{site}/{device}/vision")
    told = make("device", site, "ipc7", "--site", "plant1").stdout
    assert yaml.safe_load(told.partition("edge-infer.yaml:\n")[2].partition("\ncopy ")[0])["mqtt"] == {
        "host": "10.0.0.5",
        "port": 8883,
        "tls": {"ca": "tls/ca.crt", "cert": "tls/ipc7.crt", "key": "tls/ipc7.key"},
        "topic_prefix": "acme/{site}/{device}/vision",
    }
    assert "topic write acme/plant1/ipc7/vision/#" in (site / "broker/acl").read_text()


def test_it_needs_nothing_but_python_and_openssl() -> None:
    # -I and -S: no site-packages
    done = subprocess.run(
        ["python3", "-IS", str(MAKE), "--help"], capture_output=True, check=False, timeout=20
    )
    assert done.returncode == 0
    assert b"make-broker" in done.stdout


@pytest.mark.parametrize(("document", "count"), [("README.md", 3), ("docs/broker.md", 9)])
def test_the_documented_commands_work_in_their_order(document: str, count: int, tmp_path: Path) -> None:
    text = (CHECKOUT / document).read_text()
    commands = re.findall(r"^deploy/broker/make-broker (.*)$", text, re.MULTILINE)
    assert len(commands) == count
    for command in commands:
        verb, folder, *rest = shlex.split(command, comments=True)
        done = make(verb, tmp_path / folder, *rest)
        assert done.returncode == 0, (command, done.stderr)
    assert "10.0.0.5" in (tmp_path / "plant1-broker/broker/mosquitto.conf").read_text()


def test_systemd_understands_every_line_of_the_drop_in(tmp_path: Path) -> None:
    units = tmp_path / "etc/systemd/system"
    shutil.copytree(CHECKOUT / "deploy/broker/mosquitto.service.d", units / "mosquitto.service.d")
    # Debian's own unit, from the package that the tests install
    shutil.copy("/lib/systemd/system/mosquitto.service", units)
    for program in (tmp_path / "usr/sbin/mosquitto", tmp_path / "bin/kill"):
        program.parent.mkdir(parents=True)
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
    for target in ("network.target", "sysinit.target", "basic.target"):
        (units / target).write_text("[Unit]\nDescription=stand-in\n")
    command = ["systemd-analyze", "verify", "--man=no", f"--root={tmp_path}", "mosquitto.service"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stderr) == (0, "")
