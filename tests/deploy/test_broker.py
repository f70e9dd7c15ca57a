"""The site's broker as deploy/broker/make-broker makes it: who gets in, and what they may do there."""

from __future__ import annotations

import json
import shutil
import ssl
import subprocess
from pathlib import Path
from typing import Any

import pytest

from edge_infer.config.site import load_site
from tests.support.publishers import PREFIX, QUICK, device
from tests.support.results import result
from tests.support.running import Running
from tests.support.site_broker import Peer, SiteBroker, is_let_in, make

CHECKOUT = Path(__file__).parents[2]
OTHER = PREFIX.replace("ipc7", "ipc8")
COMMAND = f"{OTHER}/cap/cmd/start_single_job"


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
