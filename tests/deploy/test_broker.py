"""The site's broker as deploy/broker/make-broker makes it: who gets in, and what they may do there."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import socket
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from edge_infer.config.site import load_site
from tests.support.publishers import PREFIX, QUICK, device
from tests.support.results import result
from tests.support.running import Running
from tests.support.site_broker import MAKE, Peer, SiteBroker, make, site_broker

CHECKOUT = Path(__file__).parents[2]
OTHER = PREFIX.replace("ipc7", "ipc8")
COMMAND = f"{OTHER}/cap/cmd/start_single_job"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SiteBroker]:
    with site_broker(tmp_path_factory.mktemp("broker") / "b") as running:
        yield running


def test_the_service_runs_with_the_printed_block_and_a_reader_gets_its_results(
    broker: SiteBroker, tmp_path: Path
) -> None:
    # as a plant: the demo's configuration, with what was printed in place of its own
    for name in ("models", "deploy"):
        shutil.copytree(CHECKOUT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    site = tmp_path / "deploy/demo.yaml"
    printed = broker.make("device", "ipc7")
    block = printed.partition("edge-infer.yaml:\n")[2].partition("\ncopy ")[0]
    lines = site.read_text().splitlines()
    rest = [one for one in lines if not one.startswith(("site:", "line:", "device:", "mqtt:", "  host:"))]
    site.write_text("\n".join([*(one[2:] for one in block.splitlines()), *rest, "state_dir: state", ""]))
    (tmp_path / "deploy/tls").mkdir()
    for file in broker.files("ipc7").values():
        shutil.copy(file, tmp_path / "deploy/tls")
    assert load_site(site).warnings == ()
    with Peer(broker, broker.files("mes")).subscribe("vision/v1/#") as mes:
        service = Running(site)
        try:
            assert json.loads(mes.wait_on("/filler/result", 2)[1])["seq"] == 2
            assert json.loads(mes.wait_on(f"{PREFIX}/status")[0])["state"] == "online"
            assert mes.wait_on("/decision")[0] in (b"OK", b"NOK", b"UNDEFINED")
        finally:
            assert service.stop() == 0, service.log
        assert json.loads(mes.wait_on(f"{PREFIX}/status", 2)[1])["state"] == "stopped"
    assert "refuses" not in service.log


def test_a_device_cannot_publish_as_another(broker: SiteBroker) -> None:
    # not the service of another test, which left retained messages
    with Peer(broker, broker.files("mes")).subscribe(f"{OTHER}/#", "vision/v1/plant1/l4/#", "x") as mes:
        for topic in (f"{OTHER}/cap/result", f"{OTHER}/status", "vision/v1/plant1/l4/ipc7/status", "x"):
            with Peer(broker, broker.files("ipc7")) as ipc7:
                assert ipc7.publish(topic) == "Not authorized"
        with Peer(broker, broker.files("ipc8")) as ipc8:
            assert ipc8.publish(f"{OTHER}/cap/result", "its own") == "Success"
        mes.wait_on("/ipc8/cap/result")
        assert mes.messages == [(f"{OTHER}/cap/result", b"its own")]


def test_a_device_reads_its_own_commands_and_nothing_else(broker: SiteBroker) -> None:
    with (
        Peer(broker, broker.files("ipc7")).subscribe("vision/v1/#", "#") as ipc7,
        Peer(broker, broker.files("ipc8")).subscribe("vision/v1/#") as ipc8,
        Peer(broker, broker.files("hmi")) as hmi,
    ):
        ipc8.publish(f"{OTHER}/cap/result")
        ipc8.publish("vision/v1/rsp/hmi")
        hmi.publish(COMMAND, "for ipc8")
        hmi.publish(f"{PREFIX}/cmd/ping", "for ipc7")
        assert ipc8.wait_on("start_single_job") == [b"for ipc8"]
        ipc7.wait_on("ping")
        assert {topic for topic, _ in ipc7.messages} == {f"{PREFIX}/cmd/ping"}
        assert {topic for topic, _ in ipc8.messages} == {COMMAND}


def test_a_reader_cannot_write_and_sees_no_commands(broker: SiteBroker) -> None:
    with (
        Peer(broker, broker.files("mes")).subscribe("#") as mes,
        Peer(broker, broker.files("ipc8")).subscribe(f"{OTHER}/+/cmd/#") as ipc8,
        Peer(broker, broker.files("hmi")) as hmi,
    ):
        hmi.publish(COMMAND, "for ipc8")
        hmi.publish(f"{OTHER}/cmd/ping", "for ipc8")
        ipc8.publish("vision/v1/rsp/hmi/1", "an answer")
        ipc8.publish(f"{OTHER}/cap/result", "news")
        mes.wait_on("/ipc8/cap/result")
        assert all("/cmd/" not in topic and "/rsp/" not in topic for topic, _ in mes.messages)
        for topic in (f"{OTHER}/cap/result", COMMAND, f"{OTHER}/cmd/ping", "vision/v1/rsp/hmi/1"):
            with Peer(broker, broker.files("mes"), client_id="again") as again:
                assert again.publish(topic) == "Not authorized"
        hmi.publish(COMMAND, "the last")
        assert ipc8.wait_on("start_single_job", 2) == [b"for ipc8", b"the last"]


def test_a_commander_can_only_command_and_read_its_own_answers(broker: SiteBroker) -> None:
    broker.make("commander", "other")
    broker.stop()
    broker.start()
    with (
        Peer(broker, broker.files("hmi")).subscribe("#", "vision/v1/rsp/#") as hmi,
        Peer(broker, broker.files("ipc7")) as ipc7,
    ):
        ipc7.publish(f"{PREFIX}/cap/result")
        ipc7.publish(f"{PREFIX}/status", retain=True)
        ipc7.publish("vision/v1/rsp/other/1", "for other")
        ipc7.publish("vision/v1/rsp/hmi/1", "for hmi")
        hmi.wait_on("/rsp/hmi/1")
        assert {topic for topic, _ in hmi.messages} == {"vision/v1/rsp/hmi/1"}
        ipc7.publish(f"{PREFIX}/status", "", retain=True)
    for topic in (f"{PREFIX}/cap/result", f"{PREFIX}/status", "vision/v1/rsp/hmi/1", f"{PREFIX}/cap/cmdx/a"):
        with Peer(broker, broker.files("hmi")) as hmi:
            assert hmi.publish(topic) == "Not authorized"


def test_two_certificates_with_one_client_id_do_not_throw_each_other_out(broker: SiteBroker) -> None:
    with (
        Peer(broker, broker.files("ipc7"), client_id="same") as ipc7,
        Peer(broker, broker.files("ipc8"), client_id="same") as ipc8,
    ):
        for _ in range(3):
            ipc7.publish(f"{PREFIX}/event")
            ipc8.publish(f"{OTHER}/event")
        assert ipc7.connections == ipc8.connections == 1


def handshake(broker: SiteBroker, files: dict[str, str], version: ssl.TLSVersion | None = None) -> bytes:
    """What the broker sends to CONNECT; ssl.SSLError or b"" where it does not let us in."""
    context = ssl.create_default_context(cafile=files["ca"])
    if "cert" in files:
        context.load_cert_chain(files["cert"], files["key"])
    if version is not None:
        context.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
        context.maximum_version = version
        context.set_ciphers("ALL:@SECLEVEL=0")
    with (
        socket.create_connection((broker.host, broker.port), timeout=5) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as secure,
    ):
        secure.sendall(bytes([0x10, 15, 0, 4, *b"MQTT", 5, 2, 0, 60, 0, 0, 2, *b"me"]))
        try:
            return secure.recv(4)
        except ConnectionResetError:
            return b""


def is_let_in(broker: SiteBroker, files: dict[str, str], version: ssl.TLSVersion | None = None) -> bool:
    try:
        return handshake(broker, files, version)[:1] == b"\x20"
    except ssl.SSLError:
        return False


def signed(folder: Path, ca: Path, days: int, kind: str = "clientAuth") -> dict[str, str]:
    """A certificate of ``ipc7`` by an authority."""
    folder.mkdir()
    (folder / "extensions").write_text(f"extendedKeyUsage={kind}\n")
    for arguments in (
        ("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", "x.key"),
        ("req", "-new", "-key", "x.key", "-subj", "/CN=ipc7", "-out", "x.csr"),
        ("x509", "-req", "-in", "x.csr", "-CA", f"{ca}.crt", "-CAkey", f"{ca}.key", "-set_serial", "77",
         "-days", str(days), "-extfile", "extensions", "-out", "x.crt"),
    ):  # fmt: skip
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True, timeout=20)
    return {"cert": str(folder / "x.crt"), "key": str(folder / "x.key")}


def test_only_certificates_of_the_authority_are_let_in(broker: SiteBroker, tmp_path: Path) -> None:
    ipc7 = broker.files("ipc7")
    assert is_let_in(broker, ipc7)
    assert not is_let_in(broker, {"ca": ipc7["ca"]})
    own = broker.made / "ca/ca"
    # that this one is let in shows that the others are refused for what they are named after
    assert is_let_in(broker, ipc7 | signed(tmp_path / "good", own, 1))
    assert not is_let_in(broker, ipc7 | signed(tmp_path / "expired", own, -1))
    assert not is_let_in(broker, ipc7 | signed(tmp_path / "a-server", own, 1, "serverAuth"))
    rogue = tmp_path / "rogue"
    assert make("init", rogue, "--ip", "127.0.0.1").returncode == 0
    assert not is_let_in(broker, ipc7 | signed(tmp_path / "of-a-rogue", rogue / "ca/ca", 1))


def test_tls_older_than_1_2_is_refused(broker: SiteBroker) -> None:
    assert is_let_in(broker, broker.files("ipc7"), ssl.TLSVersion.TLSv1_2)
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        assert not is_let_in(broker, broker.files("ipc7"), ssl.TLSVersion.TLSv1_1)


def test_who_is_revoked_is_let_in_no_more_and_may_come_back_with_a_new_certificate(
    broker: SiteBroker, tmp_path: Path
) -> None:
    broker.make("device", "gone")
    old = {}
    for key, file in broker.files("gone").items():
        old[key] = str(tmp_path / Path(file).name)
        shutil.copy(file, old[key])
    broker.stop()
    broker.start()
    assert is_let_in(broker, old)
    broker.make("revoke", "gone")
    broker.stop()
    broker.start()
    assert not is_let_in(broker, old)
    tls: Any = old
    with device(broker, tmp_path / "outbox", user=None, password=None, tls=tls, timing=QUICK) as one:
        one.wait(lambda: one.publisher.stats.trouble is not None, "refused")
        assert "was the device's certificate revoked?" in str(one.publisher.stats.trouble)
    assert is_let_in(broker, broker.files("ipc7"))
    assert "gone" not in broker.make("list")
    broker.make("reader", "gone")
    assert is_let_in(broker, broker.files("gone"))
    assert not is_let_in(broker, old)


def test_an_acknowledged_result_survives_the_kill_of_the_broker(broker: SiteBroker, tmp_path: Path) -> None:
    count = 1000
    files = broker.files("mes")
    with Peer(broker, files, durable=True).subscribe("vision/v1/+/+/+/+/result") as mes:
        # a session is durable once it is saved, a second or two later
        saved = broker.made.parent / "var/mosquitto.db"
        mes.wait(lambda: saved.exists() and b"/+/result" in saved.read_bytes(), "saved")
    tls: Any = broker.files("ipc7")
    with device(broker, tmp_path / "outbox", user=None, password=None, tls=tls, timing=QUICK) as one:
        for number in range(count):
            one.put(result(label=f"{number}"))
        one.delivered(60)
        assert one.publisher.stats.refused == 0
        broker.kill()
        broker.start()
        # what was acknowledged in the last seconds is sent again
        one.wait(lambda: one.publisher.stats.connections == 2, "connected again")
        one.delivered()
    with Peer(broker, files, durable=True) as mes:
        mes.wait(lambda: len(set(mes.on("/result"))) >= count, f"{count} results", 20)
    numbers = {json.loads(payload)["seq"] for payload in mes.on("/result")}
    assert numbers == set(range(1, count + 1))
    assert is_let_in(broker, files)  # clean: its session ends


@pytest.mark.parametrize(("arguments", "each"), [((), "false"), (("--save", "each"), "true")])
def test_the_broker_saves_each_second_or_each_message(
    tmp_path: Path, arguments: tuple[str, ...], each: str
) -> None:
    make("init", tmp_path / "site", "--ip", "10.0.0.5", *arguments)
    lines = (tmp_path / "site/broker/mosquitto.conf").read_text().splitlines()
    assert {"persistence true", "autosave_interval 1", f"autosave_on_changes {each}"} <= set(lines)


# -- the program


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
