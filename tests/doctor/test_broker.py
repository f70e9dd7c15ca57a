"""A real broker: what a client of its own meets there, and nothing that it leaves behind."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from edge_infer.doctor import broker
from edge_infer.doctor.finding import Finding
from tests.support.mosquitto import Mosquitto, free_port
from tests.support.patients import root, subject, told
from tests.support.pki import Pki
from tests.support.running import ForeignSubscriber
from tests.support.runs import Subscribe, site

PREFIX = "vision/v1/plant1/l3/ipc7"


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    return Pki(tmp_path_factory.mktemp("authority") / "pki")


def look(folder: Path, where: Mosquitto | None, limit_s: float = 12, **mqtt: Any) -> dict[str, Finding]:
    settings: dict[str, Any] = {
        "host": "127.0.0.1",
        "port": where.port if where else free_port(),
        "user": "edge-infer",
        "password": {"file": "password"},
    }
    path = site(folder / "site", where, mqtt=settings | mqtt)
    return told(broker.check, subject(root(folder / "root"), path), limit_s)


def test_a_broker_that_takes_everything_is_told_with_what_was_tried(
    tmp_path: Path, mosquitto: Mosquitto
) -> None:
    found = look(tmp_path, mosquitto)
    assert {name: one.status for name, one in found.items()} == {"mqtt": "ok", "mqtt.publish": "ok"}
    assert found["mqtt.publish"].found == f"{PREFIX}/doctor is taken"


def test_it_is_a_client_of_its_own_that_leaves_nothing_behind(
    tmp_path: Path, mosquitto: Mosquitto, subscribe: Subscribe
) -> None:
    heard: ForeignSubscriber = subscribe(mosquitto, "#")
    look(tmp_path, mosquitto)
    heard.wait(lambda got: len(got) >= 1)
    assert [(one.topic, one.retained) for one in heard.messages()] == [(f"{PREFIX}/doctor", False)]
    (published,) = [line for line in mosquitto.log.splitlines() if "Received PUBLISH from edge" in line]
    # d0: not a repetition, q1: acknowledged, r0: not retained
    assert "(d0, q1, r0, " in published
    assert "as edge-infer-doctor-" in mosquitto.log
    assert "as edge-infer-ipc7-" not in mosquitto.log
    # the farewell keeps a will from being sent; there is none either
    assert "Will message specified" not in mosquitto.log


def test_nobody_there_fails_with_the_commands_to_look(tmp_path: Path) -> None:
    found = look(tmp_path, None)["mqtt"]
    assert found.status == "fail"
    assert "no connection: Connection refused" in found.found
    assert "nc -vz 127.0.0.1" in found.mend


def test_a_wrong_password_is_told_without_it(tmp_path: Path, mosquitto: Mosquitto) -> None:
    mosquitto.password = "horse wrong"
    found = look(tmp_path, mosquitto)["mqtt"]
    assert found.status == "fail"
    assert "the broker refuses: Not authorized" in found.found
    assert "mqtt.password" in found.mend
    assert "horse" not in found.found + found.mend


def test_access_rights_that_refuse_the_device_are_told_with_the_line_that_is_missing(tmp_path: Path) -> None:
    acl = "user edge-infer\ntopic write vision/v1/plant1/l3/other/#\n"
    with Mosquitto(tmp_path / "broker", acl=acl) as where:
        found = look(tmp_path, where)
    assert found["mqtt"].status == "ok"
    refused = found["mqtt.publish"]
    assert refused.status == "fail"
    assert "Not authorized" in refused.found
    assert f"topic write {PREFIX}/#" in refused.mend
    assert "edge-infer" in refused.mend


def test_a_frozen_broker_is_given_up_in_time(tmp_path: Path, mosquitto: Mosquitto) -> None:
    mosquitto.freeze()
    began_s = time.monotonic()
    found = look(tmp_path, mosquitto, limit_s=2)["mqtt"]
    mosquitto.thaw()
    assert found.status == "fail"
    assert "does not answer" in found.found
    assert time.monotonic() - began_s < 6


def test_3_1_1_does_not_promise_what_it_cannot_see(tmp_path: Path, mosquitto: Mosquitto) -> None:
    found = look(tmp_path, mosquitto, protocol="3.1.1")
    assert "would not say that it is refused" in found["mqtt.publish"].found


def test_tls_tells_until_when_each_certificate_holds(tmp_path: Path, pki: Pki) -> None:
    with Mosquitto(tmp_path / "broker", lines=pki.lines(client=True)) as where:
        tls = {"ca": pki.path("ca.crt"), "cert": pki.path("ipc7.crt"), "key": pki.path("ipc7.key")}
        found = look(tmp_path, where, tls=tls)
    assert found["mqtt"].found.endswith("lets us in with TLS, MQTT 5")
    # theirs hold for less than 30 days
    assert {found[f"mqtt.tls.{whose}"].status for whose in ("device", "ca", "broker")} == {"warn"}
    assert "expires in" in found["mqtt.tls.broker"].found
    assert "make-broker renew" in found["mqtt.tls.broker"].mend


@pytest.mark.parametrize(
    ("server", "tls", "words"),
    [
        ("server", {"ca": "rogue.crt"}, "certificate is not accepted"),
        ("expired", {"ca": "ca.crt"}, "certificate has expired"),
        ("server", {"ca": "ca.crt", "cert": "ipc7.crt", "key": "server.key"}, "cannot use the certificate"),
    ],
)
def test_what_is_wrong_with_tls_is_told(
    tmp_path: Path, pki: Pki, server: str, tls: dict[str, str], words: str
) -> None:
    with Mosquitto(tmp_path / "broker", lines=pki.lines(server)) as where:
        found = look(tmp_path, where, tls={key: pki.path(name) for key, name in tls.items()})["mqtt"]
    assert found.status == "fail"
    assert words in found.found
    assert found.mend


def test_a_password_that_anybody_could_read_on_the_way_is_warned_of(tmp_path: Path) -> None:
    # another address of this machine, which is not known to be its own
    with Mosquitto(tmp_path / "broker", host="127.0.0.2") as where:
        found = look(tmp_path, where, host="127.0.0.2")
    assert found["mqtt.tls"].status == "warn"
    assert "tls:" in found["mqtt.tls"].mend


def test_a_secret_that_is_not_here_is_told_and_nobody_is_asked(tmp_path: Path, mosquitto: Mosquitto) -> None:
    found = look(tmp_path, mosquitto, password={"credential": "mqtt-password"})["mqtt"]
    assert found.status == "fail"
    assert "was not asked" in found.found
    assert "as edge-infer-doctor-" not in mosquitto.log


def test_without_a_configuration_no_broker_is_looked_for(tmp_path: Path) -> None:
    assert told(broker.check, subject(root(tmp_path))) == {}
