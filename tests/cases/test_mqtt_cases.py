"""Problems that people reported in public about MQTT clients, each with the case's own trigger."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import yaml

from edge_infer.config.site import load_site
from edge_infer.errors import ConfigError
from edge_infer.mqtt import presence
from edge_infer.mqtt.identity import default_client_id
from edge_infer.mqtt.publisher import Message, Timing
from edge_infer.outbox import Counts
from edge_infer.result import ClassificationContent
from tests.support import networks
from tests.support.mosquitto import Mosquitto
from tests.support.pki import Pki
from tests.support.publishers import PREFIX, Device, device
from tests.support.results import result
from tests.support.running import ForeignSubscriber, Running
from tests.support.runs import site
from tests.support.sites import GOOD, write_model, write_site
from tests.support.subscriber import subscribed

WAR = Timing(connack_s=2, ack_s=2, retry_min_s=0.1, retry_max_s=2)


@pytest.fixture(scope="module")
def names(request: pytest.FixtureRequest) -> dict[str, list[str]]:
    shared: Path = request.getfixturevalue("shared")
    expected = json.loads((shared / "cases/open/D13/expected.json").read_text())
    found: dict[str, list[str]] = expected["names"]
    return found


def test_d01_two_devices_with_one_client_id_say_so_and_stop_fighting(
    mosquitto: Mosquitto, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        subscribed(mosquitto, f"{PREFIX}/event") as subscriber,
        device(mosquitto, tmp_path / "1", client_id="same", timing=WAR) as one,
        device(mosquitto, tmp_path / "2", client_id="same", timing=WAR) as two,
    ):
        one.wait(lambda: one.publisher.stats.taken_over + two.publisher.stats.taken_over > 0, "noticed", 20)
        told = subscriber.wait_on("event")[0].json
        assert told["kind"] == "client_id_taken_over"
        assert told["data"]["clientId"] == "same"
        assert "give each its own client_id" in caplog.text
        before = one.publisher.stats.connections + two.publisher.stats.connections
        time.sleep(2)
        # each waits one to two seconds now, so that both get something through
        assert one.publisher.stats.connections + two.publisher.stats.connections - before <= 6


def test_d01_two_devices_and_two_services_on_one_device_have_their_own_ids() -> None:
    ids = {default_client_id("ipc7", "a"), default_client_id("ipc8", "a"), default_client_id("ipc7", "b")}
    assert len(ids) == 3


def test_d03_after_a_common_power_cut_nobody_finds_the_dead_device_online(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(presence, "VALID_S", 4.0)
    with Mosquitto(tmp_path / "mosquitto", persistence=True) as broker:
        with device(broker, tmp_path / "outbox") as one:
            with subscribed(broker, f"{PREFIX}/#") as watcher:
                one.publisher.decision("cap", result("cap", "OK"))
                watcher.wait_on("/status")
                watcher.wait_on("/decision")
            # longer than the broker takes to write it down, and than one `online` holds
            time.sleep(5)
            with subscribed(broker, f"{PREFIX}/status") as watcher:
                assert watcher.wait_on("/status")[0].json["state"] == "online"
            one.lock_out()
            broker.kill()
        broker.start()
        time.sleep(4)
        with subscribed(broker, f"{PREFIX}/#", "alive") as later:
            later.client.publish("alive", "yes", qos=1)
            later.wait_on("alive")
            assert [message.topic for message in later.messages] == ["alive"]


def test_d05_after_a_restart_the_whole_state_is_told_anew(mosquitto: Mosquitto, tmp_path: Path) -> None:
    with device(mosquitto, tmp_path / "outbox") as one:
        one.connected()
        one.put(result("cap", "NOK"), lambda final: one.publisher.last("cap", final))
        one.publisher.decision("cap", result("cap", "NOK"))
        one.publisher.counts("cap", Counts(nok=1))
        one.delivered()
    # the object has left while nobody looked
    with device(mosquitto, tmp_path / "outbox") as one:
        one.publisher.decision("cap", result("cap", "OK"))
        one.publisher.counts("cap", one.outbox.counts("cap"))
        one.connected()
        with subscribed(mosquitto, f"{PREFIX}/#") as subscriber:
            subscriber.wait_for(
                lambda _: (
                    [m.payload for m in subscriber.on("/decision")][-1:] == [b"OK"]
                    and bool(subscriber.on("/counts"))
                    and [m.json["state"] for m in subscriber.on("/status")][-1:] == ["online"]
                )
            )
            assert subscriber.on("/counts")[-1].json["NOK"] == 1


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    return Pki(tmp_path_factory.mktemp("d09") / "pki")


@pytest.mark.parametrize(("server", "says"), [("expired", "expired"), ("future", "not yet valid")])
def test_d09_a_certificate_out_of_its_time_is_said_with_the_local_time_and_tried_until_it_holds(
    pki: Pki, tmp_path: Path, server: str, says: str, caplog: pytest.LogCaptureFixture
) -> None:
    broker = Mosquitto(tmp_path / "mosquitto", lines=pki.lines(server))
    with broker, device(broker, tmp_path / "outbox", tls={"ca": pki.path("ca.crt")}) as one:
        began = time.monotonic()
        for _ in range(20):
            one.put(result())
        assert one.outbox.flush(5)
        assert time.monotonic() - began < 3
        one.wait(lambda: one.publisher.stats.trouble is not None, "told")
        trouble = str(one.publisher.stats.trouble)
        assert says in trouble
        assert time.strftime("%Y-%m-%d") in trouble
        assert time.strftime("%Z") in trouble
        time.sleep(1)
        # one line a change, not one an attempt
        assert len([record for record in caplog.records if says in record.getMessage()]) <= 2
        assert one.publisher.failure is None
        # somebody puts the right certificate there
        broker.stop()
        for kind in ("crt", "key"):
            text = Path(pki.path(f"server.{kind}")).read_text()
            (tmp_path / f"new.{kind}").write_text(text)
        config = tmp_path / "mosquitto/mosquitto.conf"
        config.write_text(config.read_text().replace(pki.path(server), str(tmp_path / "new")))
        broker.start()
        one.delivered()
        assert one.publisher.stats.delivered >= 20


def _refused_names(names: dict[str, list[str]]) -> list[str]:
    return [*names["must_not_reach_the_broker_raw"], *names["changes_the_topic_depth_unless_escaped"]]


def test_d11_an_outage_longer_than_the_queue_gives_up_ok_first_and_a_restart_keeps_the_rest(
    mosquitto: Mosquitto, tmp_path: Path
) -> None:
    few = {"max_rows": 5}
    made = [result("cap", "NOK" if number in (3, 10) else "OK") for number in range(1, 11)]
    before = Device(mosquitto, tmp_path / "outbox", outbox=few)
    for one in made:
        before.put(one)
        before.outbox.flush(5)
    before.close()
    with (
        subscribed(mosquitto, f"{PREFIX}/cap/#") as subscriber,
        device(mosquitto, tmp_path / "outbox", outbox=few) as after,
    ):
        after.delivered()
        ranges = [one for gap in subscriber.on("/gap") for one in gap.json["ranges"]]
        given_up = {seq for one in ranges for seq in range(one["fromSeq"], one["toSeq"] + 1)}
        arrived = {one.json["seq"]: one for one in subscriber.on("/result")}
    # the newest OK and every NOK; one place of the five is the event's that says so
    assert arrived.keys() == {3, 8, 9, 10}
    assert given_up == {1, 2, 4, 5, 6, 7}
    for seq, message in arrived.items():
        assert message.user["delayed"] == "true"
        assert message.json["creationTime"] == json.loads(made[seq - 1].as_json())["creationTime"]


@pytest.mark.parametrize("room", ["cameras", "stations", "models"])
def test_d13_names_that_would_break_a_topic_are_refused_at_their_key(
    names: dict[str, list[str]], tmp_path: Path, room: str
) -> None:
    write_site(tmp_path)
    for name in [*_refused_names(names), *names["legal_utf8"]]:
        good = yaml.safe_load(GOOD)
        old = {"cameras": "usb", "stations": "asked", "models": "plain"}[room]
        good[room][name] = good[room].pop(old)
        path = tmp_path / "site.yaml"
        path.write_text(yaml.safe_dump(good, allow_unicode=True), encoding="utf-8")
        with pytest.raises(ConfigError) as refused:
            load_site(path)
        assert any(one.line > 0 and one.key.startswith(room) for one in refused.value.mistakes), name


@pytest.mark.parametrize("key", ["site", "line", "device"])
def test_d13_the_levels_of_the_prefix_hold_no_sign_of_mqtt(
    names: dict[str, list[str]], tmp_path: Path, key: str
) -> None:
    write_site(tmp_path)
    for name in _refused_names(names):
        path = tmp_path / "site.yaml"
        path.write_text(yaml.safe_dump({**yaml.safe_load(GOOD), key: name}), encoding="utf-8")
        with pytest.raises(ConfigError) as refused:
            load_site(path)
        assert any(one.key == key for one in refused.value.mistakes), name


def test_d13_labels_of_any_text_arrive_as_they_are(
    names: dict[str, list[str]], mosquitto: Mosquitto, tmp_path: Path
) -> None:
    labels = [*_refused_names(names), *names["legal_utf8"], "x" * 70_000, "\ud800"]
    with (
        subscribed(mosquitto, f"{PREFIX}/+/result", f"{PREFIX}/+/gap") as subscriber,
        device(mosquitto, tmp_path / "outbox") as one,
    ):
        one.connected()
        for label in labels:
            one.put(result(label=label, found=1))
        # the last one is no Unicode: it is given up, and told
        arrived = subscriber.wait_on("/result", len(labels) - 1)
        assert [message.json["resultContent"][0]["label"] for message in arrived] == labels[:-1]
        assert subscriber.wait_on("/gap")[0].json["reason"] == "unpublishable"
        assert one.publisher.stats.connections == 1


def test_d15_numbers_that_json_does_not_know_are_null(mosquitto: Mosquitto, tmp_path: Path) -> None:
    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    odd = {"score": float("nan"), "fps": float("inf"), "deep": [{"low": float("-inf")}], "fine": 0.5}
    with (
        subscribed(mosquitto, f"{PREFIX}/#") as subscriber,
        device(mosquitto, tmp_path / "outbox") as one,
    ):
        one.publisher.event("odd", odd)
        data = json.loads(subscriber.wait_on("/event")[0].payload, parse_constant=refuse)["data"]
        assert data == {"score": None, "fps": None, "deep": [{"low": None}], "fine": 0.5}
    with pytest.raises(ValueError, match="finite"):
        ClassificationContent(label="cap", score=float("nan"))


def test_d17_long_work_in_a_command_keeps_the_connection(mosquitto: Mosquitto, tmp_path: Path) -> None:
    inside, release = threading.Event(), threading.Event()

    def slow(_: Message) -> None:
        inside.set()
        release.wait(15)

    topic = f"{PREFIX}/cmd/ping"
    with (
        subscribed(mosquitto, f"{PREFIX}/+/result", topic) as subscriber,
        device(mosquitto, tmp_path / "outbox", keepalive_s=5) as one,
    ):
        one.publisher.subscribe(topic, slow)
        one.connected()
        one.wait(lambda: topic in one.publisher._pump._subscribed, "subscribed")
        subscriber.client.publish(topic, "{}", qos=1)
        assert inside.wait(5)
        # the broker throws out who is silent for 1.5 times its keepalive
        time.sleep(8.5)
        one.put(result())
        subscriber.wait_on("/result")
        assert one.publisher.stats.connections == 1
        release.set()


ASCII = {"LANG": "C", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


@pytest.fixture
def foreign_labels(mosquitto: Mosquitto, tmp_path: Path) -> Path:
    """A site whose network finds a 瓶盖."""
    folder = tmp_path / "site"
    lid = {"name": "lid", "count": {"labels": ["瓶盖"], "at_least": 1}}
    stations = {"cap": {"camera": "scene", "model": "m", "rules": [lid]}}
    config = site(folder, mosquitto, fps=10, stations=stations)
    write_model(folder / "model", "format: 1\nname: seals\nnetwork: model.onnx\nlabels: [瓶盖, Öldeckel]\n")
    found = np.zeros((1, 6, 84), np.float32)
    found[0, :, 3] = [32, 32, 20, 20, 0.9, 0.1]
    networks.rows(folder / "model/model.onnx", found)
    return config


def test_d19_labels_of_any_script_arrive_from_a_service_in_an_ascii_locale(
    mosquitto: Mosquitto, foreign_labels: Path
) -> None:
    subscriber = ForeignSubscriber(mosquitto, f"{PREFIX}/cap/result")
    service = Running(foreign_labels, **ASCII)
    try:
        subscriber.wait(lambda messages: len(messages) > 0)
        first = subscriber.messages()[0].json
        assert {found["label"] for found in first["resultContent"]} == {"瓶盖"}
        assert first["decision"] == "OK"
        assert service.stop() == 0
    finally:
        service.kill()
        subscriber.close()


def test_d19_check_names_a_label_of_any_script_in_an_ascii_locale(foreign_labels: Path) -> None:
    foreign_labels.write_text(
        foreign_labels.read_text(encoding="utf-8").replace("瓶盖", "標籤"), encoding="utf-8"
    )
    done = subprocess.run(
        [sys.executable, "-m", "edge_infer", "check", str(foreign_labels)],
        capture_output=True,
        check=False,
        timeout=60,
        env={**os.environ, **ASCII},
    )
    assert done.returncode == 78
    assert b"Traceback" not in done.stderr
    assert b"site.yaml:" in done.stderr
