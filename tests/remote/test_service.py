"""Commands to `edge-infer run` as a process of its own, from requesters that share no line with it."""

from __future__ import annotations

import hashlib
import json
import re
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import yaml

from edge_infer.messages.command import VERBS
from edge_infer.remote.audit import COMMANDS, FOLDER
from tests.support import runs
from tests.support.mosquitto import Mosquitto
from tests.support.pki import Pki
from tests.support.publishers import PREFIX
from tests.support.remote import Asker, until
from tests.support.running import Running
from tests.support.runs import NO_BOTTLE, Run
from tests.support.subscriber import subscribed

DOC = Path(__file__).parents[2] / "docs" / "mqtt.md"


def site(folder: Path, broker: Mosquitto, **more: Any) -> Path:
    """A free-running station and one that is asked for parts, with a recipe each."""
    free = {"camera": "scene", "model": "m", "rules": [NO_BOTTLE]}
    data: dict[str, Any] = {
        "stations": {"free": free, "cap": {**free, "trigger": {"type": "mqtt"}}},
        "recipes": {
            "blue": {"free": {"rules": [{**NO_BOTTLE, "name": "blue"}]}, "cap": {"rules": [NO_BOTTLE]}}
        },
        "commands": {"allow": list(VERBS), "per_minute": 6000},
    }
    return runs.site(folder, broker, **data | more)


def ready(asker: Asker, running: Running) -> None:
    """Wait until it listens."""
    end = time.monotonic() + 30
    while time.monotonic() < end and running.process.poll() is None:
        before = len(asker.answered())
        # also heard by a device that speaks 3.1.1
        asker.send("ping", {"replyTo": asker.answers, "correlationId": "ready"})
        for _ in range(20):
            if len(asker.answered()) > before:
                return
            time.sleep(0.02)
    raise AssertionError(running.log)


def test_each_verb_does_what_it_says(tmp_path: Path, mosquitto: Mosquitto, run: Run) -> None:
    with subscribed(mosquitto, "vision/#") as subscriber:
        path = site(tmp_path / "a", mosquitto)
        running, asker = run(path), Asker(subscriber)
        ready(asker, running)

        done = asker.ask("cap/start_single_job", {"partId": "A-1", "measId": "M-1"}, expiry_s=None)
        assert (done["status"], done["code"]) == ("ok", "accepted")
        subscriber.wait_on("cap/result")
        (part,) = (one.json for one in subscriber.on("cap/result"))
        assert (part["partId"], part["jobId"]) == ("A-1", done["data"]["jobId"])

        found = asker.ask("cap/get_result", {"partId": "A-1"})["data"]["result"]
        assert found == part
        assert asker.ask("cap/get_result", {"resultId": part["resultId"]})["data"]["result"] == part
        assert asker.ask("cap/get_result", {"partId": "never"})["code"] == "not_found"

        before = asker.ask("free/get_status")["data"]
        assert (before["recipe"], before["decision"]["decision"]) == (None, "OK")
        assert asker.ask("free/select_recipe", {"recipeId": "blue"})["status"] == "ok"
        assert asker.ask("free/get_status")["data"]["recipe"] == "blue"
        until(lambda: "externalRecipeId" in subscriber.on("free/result")[-1].json, "published")
        assert asker.ask("free/select_recipe", {"recipeId": "green"})["status"] == "rejected"
        assert asker.ask("free/set_threshold", {"rule": "blue", "value": 0.9})["status"] == "ok"
        assert asker.ask("free/set_threshold", {"rule": "none", "value": 0.9})["status"] == "rejected"
        refused = asker.ask("cap/start_single_job", {"partId": "A-2", "recipeId": "blue"})
        assert refused["code"] == "other_recipe"
        assert asker.ask("cap/select_recipe", {"recipeId": "blue"})["status"] == "ok"
        right = asker.ask("cap/start_single_job", {"partId": "A-2", "recipeId": "blue"})
        assert right["code"] == "accepted"

        subscriber.wait_on("cap/result", 2)
        counted = subscriber.wait_for(
            lambda _: any(one.json["OK"] == 2 for one in subscriber.on("cap/counts"))
        )
        assert counted
        assert asker.ask("cap/reset_counts")["status"] == "ok"
        subscriber.wait_for(lambda _: subscriber.on("cap/counts")[-1].json["OK"] == 0)

        whole = asker.ask("get_status")["data"]
        assert {one["station"] for one in whole["stations"]} == {"free", "cap"}
        assert whole["cameras"] == [{"camera": "scene", "state": "connected"}]
        assert whole["uptimeS"] > 0
        assert whole["outbox"]["inMemory"] is False

        text = path.read_text().replace("at_most: 0", "at_most: 1")
        path.write_text(text)
        changes = asker.ask("reload")["data"]["changes"]
        assert "stations.free.rules" in changes
        path.write_text(text.replace("at_most", "at_mots"))
        refused = asker.ask("reload")
        assert refused["code"] == "bad_configuration"
        assert "at_mots" in refused["data"]["mistakes"][0]
        assert running.stop() == 0, running.log


def test_a_snapshot_is_a_picture_that_the_broker_takes(tmp_path: Path, run: Run) -> None:
    with (
        Mosquitto(tmp_path / "broker", lines=("max_packet_size 8000",)) as broker,
        subscribed(broker, "vision/#") as subscriber,
    ):
        running, asker = run(site(tmp_path / "a", broker)), Asker(subscriber)
        ready(asker, running)
        subscriber.wait_on("free/result")
        for number, kind in enumerate(("raw", "drawn"), start=1):
            answer = asker.ask("free/snapshot", {"kind": kind})
            assert answer["status"] == "ok", answer
            picture = subscriber.wait_on("free/image/snapshot", number)[-1]
            data = answer["data"]
            assert picture.topic == data["topic"]
            assert hashlib.sha256(picture.payload).hexdigest() == data["sha256"]
            assert picture.properties["ContentType"] == data["contentType"] == "image/jpeg"
            assert not picture.retained
            pixels = cv2.imdecode(np.frombuffer(picture.payload, np.uint8), cv2.IMREAD_COLOR)
            assert pixels is not None
            assert (data["width"], data["height"]) == (pixels.shape[1], pixels.shape[0])
            assert len(picture.payload) < 8000
            assert data["width"] < 640
            assert picture.user["capturedAt"].startswith(data["capturedAt"][:19])
            assert picture.user["kind"] == kind
        assert running.stop() == 0


def test_a_plain_script_triggers_a_part_where_nothing_is_allowed(
    tmp_path: Path, mosquitto: Mosquitto, run: Run
) -> None:
    with subscribed(mosquitto, f"{PREFIX}/#") as subscriber:
        running = run(site(tmp_path / "a", mosquitto, commands={}))
        subscriber.wait_on("free/result")
        topic = f"{PREFIX}/cap/cmd/start_single_job"
        for version in ("mqttv5", "mqttv311"):
            _script(
                "mosquitto_pub", mosquitto, "-V", version, "-t", topic, "-m", f'{{"partId": "{version}"}}'
            )
        results = [one.json["partId"] for one in subscriber.wait_on("cap/result", 2)]
        assert results == ["mqttv5", "mqttv311"]
        asker = Asker(subscriber)
        for verb in ("ping", "reload", "free/set_threshold", "cap/start_continuous"):
            asker.send(verb, {}, response_topic=asker.answers)
        _script("mosquitto_pub", mosquitto, "-t", topic, "-m", '{"partId": "last"}')
        subscriber.wait_on("cap/result", 3)
        heard = set(
            re.findall(r"edge-infer-\S+ \d (\S+)$|\t(vision/\S+/cmd/\S+) \(QoS", mosquitto.log, re.MULTILINE)
        )
        assert {name for pair in heard for name in pair if "/cmd/" in name} == {topic}
        assert not subscriber.on("rsp/mes")
        assert running.stop() == 0


def _script(program: str, broker: Mosquitto, *arguments: str) -> str:
    done = subprocess.run(
        [
            program, "-h", broker.host, "-p", str(broker.port), "-u", broker.user, "-P", broker.password,
            "-q", "1", *arguments,
        ],
        check=True, timeout=20, capture_output=True, text=True,
    )  # fmt: skip
    return done.stdout


def test_a_retained_command_is_not_obeyed_at_any_connection(
    tmp_path: Path, mosquitto: Mosquitto, run: Run
) -> None:
    with subscribed(mosquitto, "vision/#") as subscriber:
        asker = Asker(subscriber)
        asker.send("cap/start_single_job", {"partId": "old"}, expiry_s=None, retain=True)
        asker.send("free/select_recipe", {"recipeId": "blue"}, expiry_s=500, retain=True)
        subscriber.wait_on("cmd/select_recipe")
        for protocol in ("5", "3.1.1"):
            path = site(tmp_path / "a", mosquitto)
            text = yaml.safe_load(path.read_text())
            text["mqtt"]["protocol"] = protocol
            path.write_text(yaml.safe_dump(text))
            running = run(path)
            before = len(subscriber.on("cap/result"))
            ready(asker, running)
            _script(
                "mosquitto_pub",
                mosquitto,
                "-t",
                f"{PREFIX}/cap/cmd/start_single_job",
                "-m",
                f'{{"partId": "{protocol}"}}',
            )
            parts = [one.json["partId"] for one in subscriber.wait_on("cap/result", before + 1)]
            assert parts[-1] == protocol
            assert "old" not in parts
            assert running.stop() == 0
        assert not any("externalRecipeId" in one.json for one in subscriber.on("free/result"))


def test_a_change_is_made_once_though_the_device_was_killed_before_the_repetition(
    tmp_path: Path, mosquitto: Mosquitto, run: Run
) -> None:
    with subscribed(mosquitto, "vision/#") as subscriber:
        path, asker = site(tmp_path / "a", mosquitto), Asker(subscriber)
        running = run(path)
        ready(asker, running)
        first = asker.ask("free/set_threshold", {"rule": "none", "value": 0.9}, correlation=b"one")
        assert (
            asker.ask("free/set_threshold", {"rule": "none", "value": 0.8}, correlation=b"two")["status"]
            == "ok"
        )

        def told() -> list[float]:
            events = [one.json for one in subscriber.on("/event") if b"threshold_changed" in one.payload]
            # after a kill the outbox sends again what it does not know to have arrived
            return list({event["time"]: event["data"]["value"] for event in events}.values())

        until(lambda: told() == [0.9, 0.8], "told")
        running.kill()
        running = run(path)
        ready(asker, running)
        again = asker.ask("free/set_threshold", {"rule": "none", "value": 0.9}, correlation=b"one")
        assert again.pop("dup") is True
        assert (again["status"], again["data"]) == (first["status"], first["data"])
        assert running.stop() == 0
        assert told() == [0.9, 0.8]
        chosen = json.loads((path.parent / "state/choices.json").read_text())
        assert chosen["stations"]["free"]["min_scores"] == {"none": 0.8}


def test_parts_faster_than_the_network_are_each_answered_once_and_delay_no_question(
    tmp_path: Path, mosquitto: Mosquitto, run: Run
) -> None:
    with subscribed(mosquitto, "vision/#") as subscriber:
        # ten parts a frame; eight may wait for the network
        running, asker = run(site(tmp_path / "a", mosquitto)), Asker(subscriber)
        scada = Asker(subscriber, answers="vision/v1/rsp/scada")
        ready(asker, running)
        for i in range(300):
            asker.send(
                "cap/start_single_job",
                {"partId": f"P-{i}", "replyTo": asker.answers, "correlationId": f"{i}"},
                expiry_s=None,
            )
            if i % 30 == 0:
                assert scada.ask("get_status")["status"] == "ok"
            time.sleep(0.005)  # the speed of the line
        results = [one.json for one in subscriber.wait_on("cap/result", 300, timeout=30)]
        assert sorted(one["partId"] for one in results) == sorted(f"P-{i}" for i in range(300))
        codes = {reason["code"] for one in results for reason in one["reasons"]}
        assert "overload" in codes
        assert codes <= {"overload", "deadline"}
        subscriber.wait_for(lambda _: sum(one.json["code"] == "accepted" for one in asker.answered()) == 300)
        assert running.stop() == 0


def test_over_mtls_with_the_documented_rights_a_requester_is_answered_within_milliseconds(
    tmp_path: Path, run: Run
) -> None:
    pki = Pki(tmp_path / "pki")
    rights = re.findall(r"^pattern .*$", DOC.read_text(), re.MULTILINE)
    acl = "\n".join([*rights, "user mes", f"topic write {PREFIX}/+/cmd/#", f"topic write {PREFIX}/cmd/#",
        "topic read vision/v1/rsp/mes/#", f"topic read {PREFIX}/#", ""])  # fmt: skip
    lines = pki.lines(client=True)
    with Mosquitto(tmp_path / "broker", users={"ipc7": "p", "mes": "m"}, acl=acl, lines=lines) as broker:
        broker.user, broker.password = "ipc7", "p"
        path = site(tmp_path / "a", broker)
        data = yaml.safe_load(path.read_text())
        data["mqtt"]["tls"] = {
            "ca": pki.path("ca.crt"),
            "cert": pki.path("ipc7.crt"),
            "key": pki.path("ipc7.key"),
        }
        path.write_text(yaml.safe_dump(data))
        broker.user, broker.password = "mes", "m"
        # any certificate of the authority will do: who it is says the password here
        tls = (pki.path("ca.crt"), pki.path("server.crt"), pki.path("server.key"))
        running = run(path)
        with subscribed(broker, "vision/v1/rsp/mes/#", f"{PREFIX}/#", tls=tls) as subscriber:
            asker = Asker(subscriber, answers="vision/v1/rsp/mes/1")
            sock: Any = subscriber.client.socket()
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            ready(asker, running)
            times = []
            for _ in range(200):
                began = time.monotonic()
                asker.ask("ping")
                times.append((time.monotonic() - began) * 1000)
            times.sort()
            print(f"\nping over TLS: p50 {times[100]:.1f} ms, p99 {times[197]:.1f} ms")  # noqa: T201 - for people
            assert times[20] < 30
            assert asker.ask("free/set_threshold", {"rule": "none", "value": 0.5})["status"] == "ok"
        assert running.stop() == 0
        assert "refuses" not in running.log


def test_a_foreign_requester_is_answered_and_audited(tmp_path: Path, mosquitto: Mosquitto, run: Run) -> None:
    with subscribed(mosquitto, "vision/#") as subscriber:
        path, asker = site(tmp_path / "a", mosquitto), Asker(subscriber)
        running = run(path)
        ready(asker, running)
        answer = _script(
            "mosquitto_rr", mosquitto, "-V", "mqttv5", "-t", f"{PREFIX}/cmd/ping",
            "-e", "vision/v1/rsp/script", "-m", "{}", "-W", "10",
        )  # fmt: skip
        assert json.loads(answer)["code"] == "pong"
        asker.ask("free/set_threshold", {"rule": "none", "value": 0.9}, user=("user", "Anna"))
        asker.ask("free/set_threshold", {"rule": "none", "value": 0.8}, expiry_s=None)
        running.process.send_signal(signal.SIGTERM)
        assert running.wait() == 0
        lines = [
            json.loads(line) for line in (path.parent / "state" / FOLDER / COMMANDS).read_text().splitlines()
        ]
        done, refused = (line for line in lines if line["topic"].endswith("set_threshold"))
        assert (done["claimedBy"], done["code"], done["request"]) == (
            "Anna",
            "done",
            {"rule": "none", "value": 0.9},
        )
        assert (refused["claimedBy"], refused["code"]) == (None, "no_expiry")
        assert "correct horse" not in running.log
