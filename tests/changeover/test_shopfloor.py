"""Stations and cameras that come, go and change while the service runs, as a foreign subscriber sees it."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from edge_infer.ctl.client import ask
from edge_infer.ctl.protocol import SOCKET, Request
from tests.changeover.test_service import PREFIX, events
from tests.support.fake_systemd import FakeSystemd
from tests.support.http_camera import HttpCamera
from tests.support.mosquitto import Mosquitto
from tests.support.reloads import ctl, ctl_process, edited, status, write_network
from tests.support.running import Arrived, ForeignSubscriber
from tests.support.runs import NO_BOTTLE, Run, Subscribe, site, whole

DEVICE = "vision/v1/plant1/l3/ipc7"
STATION: dict[str, Any] = {"camera": "scene", "model": "m", "rules": [NO_BOTTLE]}


def newest(got: Sequence[Arrived], **wanted: str) -> bool:
    """Whether the last one says so."""
    return bool(got) and all(got[-1].json[key] == value for key, value in wanted.items())


def retained(broker: Mosquitto, topic: str) -> list[bytes]:
    """What somebody who comes now finds there."""
    later = ForeignSubscriber(broker, f"{DEVICE}/{topic}")
    marker = ForeignSubscriber(broker, f"{DEVICE}/info")
    try:
        marker.wait(lambda got: len(got) >= 1)
        time.sleep(0.3)  # what is kept comes at once, nothing is no event
        return [one.payload for one in later.messages() if one.retained]
    finally:
        later.close()
        marker.close()


def test_stations_come_and_go_and_those_that_stay_count_on(
    tmp_path: Path, mosquitto: Mosquitto, run: Run, subscribe: Subscribe
) -> None:
    heard = subscribe(mosquitto, PREFIX)
    path = site(tmp_path / "a", mosquitto, fps=50, stations={"cap": STATION, "old": STATION})
    running = run(path)
    for name in ("cap", "old"):
        heard.wait(lambda got: len(got) > 5, f"/{name}/result")
    cameras = {"scene": {"type": "synthetic", "fps": 50, "seed": 1}, "side": {"type": "synthetic", "fps": 50}}
    edited(path, cameras=cameras, stations={"cap": STATION, "new": {**STATION, "camera": "side"}})
    done = ctl(path, "reload")
    assert done.returncode == 0, done.stderr
    assert "changed: stations.old\nchanged: stations.new\n" in done.stdout
    heard.wait(lambda got: len(got) > 5, "/new/result")
    before = len(heard.messages("/cap/result"))
    heard.wait(lambda got: len(got) > before + 5, "/cap/result")

    # the last word of what is gone is that nobody knows, and a PLC that comes later finds nothing
    heard.wait(lambda got: got[-1].payload == b"", "/old/decision")
    heard.wait(lambda got: got[-1].payload == b"", "/old/counts")
    assert heard.messages("/old/decision")[-2].payload == b"UNDEFINED"
    for kept in ("decision", "last", "counts"):
        assert retained(mosquitto, f"old/{kept}") == []
    assert [one["station"] for one in json.loads(retained(mosquitto, "info")[0])["stations"]] == [
        "cap",
        "new",
    ]

    # back again it counts on
    edited(path, stations={"cap": STATION, "old": STATION})
    assert ctl(path, "reload").returncode == 0
    ended = len(heard.messages("/old/result"))
    heard.wait(lambda got: len(got) > ended + 3, "/old/result")
    heard.wait(lambda got: got[-1].payload == b"", "/camera/side")
    heard.wait(lambda got: got[-1].payload != b"", "/old/counts")
    assert running.stop() == 0, running.log
    results = [one for name in ("cap", "old", "new") for one in heard.messages(f"/{name}/result")]
    seqs = whole(results)
    assert sorted(station for station, _ in seqs) == ["cap", "new", "old"], "one stream each"
    assert sum(seqs.values()) == len(results), "none twice"
    assert {one.json["decision"] for one in heard.messages("/cap/result")} == {"OK"}, "cap noticed nothing"

    # removed while nothing ran
    edited(path, stations={"cap": STATION})
    running = run(path)
    heard.wait(lambda got: got[-1].payload == b"", "/old/counts")
    assert running.stop() == 0, running.log


def test_parts_that_wait_at_a_station_that_is_removed_are_answered(
    tmp_path: Path, mosquitto: Mosquitto, run: Run, subscribe: Subscribe
) -> None:
    heard = subscribe(mosquitto, PREFIX)
    slow = {"type": "mqtt", "delay_ms": 15000}
    part = {**STATION, "trigger": slow, "deadline_ms": 20000}
    path = site(tmp_path / "a", mosquitto, stations={"cap": STATION, "part": part, "moved": part})
    running = run(path)
    heard.wait(lambda got: len(got) > 3, "/cap/result")
    for name in ("part", "moved"):
        mosquitto_pub(mosquitto, f"{DEVICE}/{name}/cmd/start_single_job", {"partId": f"of-{name}"})
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and not open_triggers(tmp_path / "a" / "state") >= 2:
        time.sleep(0.05)
    fast = {**part, "trigger": {"type": "mqtt"}}
    edited(path, stations={"cap": STATION, "moved": fast})
    assert ctl(path, "reload").returncode == 0
    for name, words in (("part", "removed"), ("moved", "given another camera or trigger")):
        heard.wait(lambda got: len(got) == 1, f"/{name}/result")
        told = heard.messages(f"/{name}/result")[0].json
        assert (told["partId"], told["decision"]) == (f"of-{name}", "UNDEFINED")
        assert told["reasons"][0]["code"] == "restarted"
        assert words in told["reasons"][0]["text"]
    mosquitto_pub(mosquitto, f"{DEVICE}/moved/cmd/start_single_job", {"partId": "later"})
    heard.wait(lambda got: len(got) == 2, "/moved/result")
    assert heard.messages("/moved/result")[1].json["decision"] == "OK"
    # nobody listens where the station was
    end = time.monotonic() + 20
    while "UNSUBSCRIBE" not in mosquitto.log and time.monotonic() < end:
        time.sleep(0.02)
    assert f"{DEVICE}/part/cmd/start_single_job" in mosquitto.log.partition("UNSUBSCRIBE")[2]
    mosquitto_pub(mosquitto, f"{DEVICE}/part/cmd/start_single_job", {"partId": "nobody"})
    assert running.stop() == 0, running.log
    assert len(heard.messages("/part/result")) == 1
    before = len(heard.messages("/cap/result"))
    running = run(path)
    heard.wait(lambda got: len(got) > before + 3, "/cap/result")
    assert running.stop() == 0, running.log
    assert len(heard.messages("/part/result")) == 1, "and after a restart nothing is open"


def mosquitto_pub(broker: Mosquitto, topic: str, payload: Any) -> None:
    """As a script of the plant would."""
    import subprocess

    command = ["mosquitto_pub", "-V", "mqttv5", "-h", broker.host, "-p", str(broker.port), "-u", broker.user]
    subprocess.run(
        [*command, "-P", broker.password, "-q", "1", "-t", topic, "-m", json.dumps(payload)],
        check=True,
        timeout=10,
    )


def open_triggers(state: Path) -> int:
    """That are on disk."""
    import sqlite3

    with sqlite3.connect(f"file:{next(state.glob('*.db'))}?mode=ro", uri=True) as database:
        return int(database.execute("select count(*) from open_trigger").fetchone()[0])


def test_a_camera_whose_settings_changed_is_opened_anew_and_one_that_cannot_be_is_lost(
    tmp_path: Path, mosquitto: Mosquitto, run: Run, subscribe: Subscribe
) -> None:
    heard = subscribe(mosquitto, PREFIX)
    cameras: dict[str, Any] = {
        name: {"type": "synthetic", "fps": 20, "seed": 1} for name in ("scene", "side")
    }
    stations = {"cap": STATION, "other": {**STATION, "camera": "side"}}
    path = site(tmp_path / "a", mosquitto, cameras=cameras, stations=stations)
    running = run(path)
    for name in ("cap", "other"):
        heard.wait(lambda got: len(got) > 3, f"/{name}/result")
    cameras["scene"] = {"type": "rtsp", "url": "rtsp://127.0.0.1:9/none"}
    edited(path, cameras=cameras)
    done = ctl(path, "reload")
    # the configuration is right: it runs, and the camera's trouble is told as always
    assert done.returncode == 0, done.stderr
    heard.wait(lambda got: newest(got, state="lost"), "/camera/scene")
    heard.wait(
        lambda got: got[-1].json["reasons"] and got[-1].json["reasons"][0]["code"] == "camera_lost",
        "/cap/result",
    )
    before = len(heard.messages("/other/result"))
    heard.wait(lambda got: len(got) > before + 5, "/other/result")
    now = status(path)
    assert [one["state"] for one in now["cameras"]] == ["lost", "connected"]
    blind, other = now["stations"]
    assert "rtsp://127.0.0.1:9/none" in blind["trouble"], (
        "a station that is blind is not told as one that judges"
    )
    assert other["trouble"] is None
    cameras["scene"] = {"type": "synthetic", "fps": 40, "seed": 2}
    edited(path, cameras=cameras)
    assert ctl(path, "reload").returncode == 0
    heard.wait(lambda got: newest(got, state="connected"), "/camera/scene")
    heard.wait(lambda got: newest(got, decision="OK"), "/cap/result")
    assert running.stop() == 0, running.log
    seqs = whole([one for name in stations for one in heard.messages(f"/{name}/result")])
    assert len(seqs) == 2, "one stream each"
    assert {one.json["decision"] for one in heard.messages("/other/result")} == {"OK"}


def test_going_back_holds_after_kill_9_and_is_told_everywhere(
    tmp_path: Path, mosquitto: Mosquitto, run: Run, subscribe: Subscribe
) -> None:
    heard = subscribe(mosquitto, PREFIX)
    path = site(tmp_path / "a", mosquitto, stations={"cap": STATION})
    running = run(path)
    heard.wait(lambda got: len(got) > 3, "/result")
    edited(path, stations={"cap": {**STATION, "rules": [{**NO_BOTTLE, "name": "bad"}]}})
    assert ctl(path, "reload").returncode == 0
    done = ctl(path, "rollback")
    assert done.returncode == 0, done.stderr
    assert "configuration 1 runs; the file on disk does NOT run" in done.stdout
    running.kill()
    running = run(path)
    heard.wait(
        lambda got: any(
            one["by"] is None and one["rolledBack"] for one in events(got, "configuration_loaded")
        ),
        "/event",
    )
    heard.wait(lambda got: got[-1].json["rolledBack"] is not None, "/info")
    told = events(heard.messages("/event"), "configuration_loaded")[-1]
    assert told["rolledBack"]["number"] == 2
    assert heard.messages("/info")[-1].json["rolledBack"]["by"].startswith("ctl:")
    assert heard.messages("/info")[-1].json["configuration"]["version"] == "1"
    text = ctl(path, "status").stdout
    assert "ROLLED BACK from configuration 2" in text
    assert f"{path} DOES NOT RUN" in text
    assert "rolled back from it" in running.log
    running.process.send_signal(signal.SIGHUP)
    heard.wait(lambda got: bool(events(got, "configuration_refused")), "/event")
    seen = len(heard.messages("/result"))
    heard.wait(lambda got: len(got) > seen + 3, "/result")
    assert heard.messages("/result")[-1].json["rules"][0]["name"] == NO_BOTTLE["name"]
    edited(path, stations={"cap": {**STATION, "rules": [{**NO_BOTTLE, "name": "good"}]}})
    assert "WAS CHANGED since and is not loaded" in ctl(path, "status").stdout
    assert ctl(path, "reload").returncode == 0
    assert status(path)["configuration"]["rolledBack"] is None
    assert running.stop() == 0, running.log


def test_the_command_prints_every_mistake_and_exits_78(
    tmp_path: Path, mosquitto: Mosquitto, run: Run, subscribe: Subscribe
) -> None:
    heard = subscribe(mosquitto, PREFIX)
    path = site(tmp_path / "a", mosquitto, stations={"cap": STATION})
    running = run(path)
    # while it starts somebody asks already: he waits for it
    early = status_when_there(path)
    assert early["state"] in ("starting", "running")
    assert ctl(path, "reload").returncode == 0
    heard.wait(lambda got: len(got) > 3, "/result")
    text, card = path.read_text(), (path.parent / "model" / "model.yaml").read_text()
    path.write_text(text.replace("at_most: 0", "at_most: -1").replace("model: m", "model: n"))
    (path.parent / "model" / "model.yaml").write_text("format: 1\nname: seals\nnetwork: gone.onnx\n")
    done = ctl_process(path, "reload")
    assert (done.returncode, done.stdout) == (78, "")
    assert f"{path}:" in done.stderr
    assert "at_most" in done.stderr
    assert "model.yaml:3:10: network: there is no file" in done.stderr
    assert "3 mistake(s); nothing was changed" in done.stderr
    as_json = json.loads(ctl(path, "reload", "--json").stdout)
    assert (as_json["code"], len(as_json["mistakes"])) == (78, 3)
    (path.parent / "model" / "model.yaml").write_text(card)
    path.write_text(text.replace("plant1", "plant2"))
    done = ctl_process(path, "reload")
    assert (done.returncode, "needs a restart: site;" in done.stderr) == (1, True)
    assert running.stop() == 0, running.log
    done = ctl(path, "reload")
    assert (done.returncode, "the service does not run" in done.stderr) == (1, True)
    assert not (path.parent / "state" / "ctl.sock").exists()


def status_when_there(path: Path) -> Any:
    """As soon as somebody answers."""
    end = time.monotonic() + 20
    while (done := ctl(path, "status", "--json")).returncode and time.monotonic() < end:
        time.sleep(0.05)
    return json.loads(done.stdout)


def test_commands_and_limits_of_storage_change_while_it_runs(
    tmp_path: Path, mosquitto: Mosquitto, run: Run, subscribe: Subscribe
) -> None:
    heard = subscribe(mosquitto, PREFIX)
    path = site(tmp_path / "a", mosquitto, stations={"cap": STATION}, evidence={"ok_every": 1000})
    running = run(path)
    heard.wait(lambda got: len(got) > 3, "/result")
    edited(
        path,
        commands={"allow": ["reset_counts"]},
        outbox={"max_rows": 5000},
        evidence={"ok_every": 1, "min_free_bytes": 0},
        shifts=["05:00", "17:00"],
    )
    done = ctl(path, "reload", "--json")
    assert json.loads(done.stdout)["changed"] == [
        "shifts", "commands.allow", "outbox.max_rows", "evidence.min_free_bytes", "evidence.ok_every",
    ]  # fmt: skip
    heard.wait(lambda got: "image" in got[-1].json, "/result")
    mosquitto_pub(
        mosquitto,
        f"{DEVICE}/cap/cmd/reset_counts",
        {"expiresAt": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 60))},
    )
    assert running.stop() == 0, running.log


def test_sigterm_while_a_model_is_compiled_ends_within_5_s(
    tmp_path: Path, mosquitto: Mosquitto, run: Run, subscribe: Subscribe
) -> None:
    heard = subscribe(mosquitto, PREFIX)
    path = site(tmp_path / "a", mosquitto, stations={"cap": STATION})
    slow = tmp_path / "slow"
    slow.mkdir()
    # a runtime that takes a minute for the network that is loaded second
    (slow / "sitecustomize.py").write_text(SLOW)
    running = run(path, PYTHONPATH=f"{slow}:{Path.cwd()}")
    heard.wait(lambda got: len(got) > 3, "/result")
    write_network(path.parent / "model", 1)
    running.process.send_signal(signal.SIGHUP)
    end = time.monotonic() + 20
    while "compiles" not in running.log and time.monotonic() < end:
        time.sleep(0.02)
    before = len(heard.messages("/result"))
    heard.wait(lambda got: len(got) > before + 3, "/result")
    began = time.monotonic()
    assert running.stop() == 0, running.log
    assert time.monotonic() - began < 5
    results = heard.messages("/result")
    whole(results)
    assert len({one.json["model"]["sha256"] for one in results if one.json["model"]}) == 1
    assert (
        yaml.safe_load((path.parent / "state" / "configurations" / "state.json").read_text())["running"] == 1
    )


def test_a_storm_of_reloads_changes_what_changed_once_and_disturbs_nobody(
    tmp_path: Path, mosquitto: Mosquitto, run: Run, subscribe: Subscribe
) -> None:
    heard = subscribe(mosquitto, PREFIX)
    path = site(tmp_path / "a", mosquitto, fps=50, stations={"cap": STATION})
    running = run(path)
    heard.wait(lambda got: len(got) > 3, "/result")
    edited(path, stations={"cap": {**STATION, "rules": [{**NO_BOTTLE, "name": "new"}]}})
    answers: list[Any] = []
    request = Request(do="reload")
    askers = [
        threading.Thread(target=lambda: answers.append(ask(path.parent / "state" / SOCKET, request, 60)))
        for _ in range(12)
    ]
    for asker in askers:
        running.process.send_signal(signal.SIGHUP)
        asker.start()
    for asker in askers:
        asker.join(60)
    assert len(answers) == len(askers), "nobody is left without an answer"
    assert all(one["code"] == 0 or "too many ask at once" in one["message"] for one in answers)
    assert any(one["changed"] == ["stations.cap.rules"] for one in answers) or "SIGHUP" in running.log
    heard.wait(lambda got: got[-1].json["rules"][0]["name"] == "new", "/result")
    assert status(path)["configuration"]["number"] == 2
    assert running.stop() == 0, running.log
    results = heard.messages("/result")
    assert sum(whole(results).values()) == len(results)
    assert {one.json["decision"] for one in results} == {"OK"}


def test_systemd_hears_that_it_reloads_and_that_it_is_done_and_is_fed_meanwhile(
    tmp_path: Path, mosquitto: Mosquitto
) -> None:
    path = site(tmp_path / "a", mosquitto, stations={"cap": STATION})
    slow = tmp_path / "slow"
    slow.mkdir()
    (slow / "sitecustomize.py").write_text(SLOW.replace("sleep(60)", "sleep(4)"))
    environment = {"PYTHONPATH": f"{slow}:{Path.cwd()}"}
    with FakeSystemd(tmp_path, path, watchdog_s=3, environment=environment) as systemd:
        systemd.ready()
        write_network(path.parent / "model", 1)
        systemd.running.process.send_signal(signal.SIGHUP)
        systemd.wait(lambda: len(systemd.heard("READY")) == 2)
        assert "MONOTONIC_USEC" in systemd.heard("RELOADING")[0].fields
        began, done = systemd.heard("RELOADING")[0].at, systemd.heard("READY")[1].at
        fed = [word.at for word in systemd.heard("WATCHDOG") if began < word.at < done]
        assert fed, "a model that compiles is no hang"
        assert status(path)["configuration"]["number"] == 2
        # what is refused is done too
        path.write_text("format: [")
        systemd.running.process.send_signal(signal.SIGHUP)
        systemd.wait(lambda: len(systemd.heard("READY")) == 3)
        assert systemd.running.stop() == 0, systemd.running.log


def test_a_station_that_a_reload_brought_is_not_told_as_one_that_judges_before_its_camera_gave_anything(
    tmp_path: Path, mosquitto: Mosquitto
) -> None:
    cameras: dict[str, Any] = {"scene": {"type": "synthetic", "fps": 20}}
    path = site(tmp_path / "a", mosquitto, cameras=cameras, stations={"cap": STATION})
    with FakeSystemd(tmp_path, path) as systemd:
        systemd.ready()
        # its first frame comes after a hundred seconds
        cameras["slow"] = {"type": "synthetic", "fps": 0.01, "max_age_s": 200}
        edited(path, cameras=cameras, stations={"cap": STATION, "new": {**STATION, "camera": "slow"}})
        assert ctl(path, "reload").returncode == 0
        systemd.wait(lambda: "2 stations" in systemd.statuses[-1])
        assert "1 of 2 stations judge; new waits for the first frame of camera slow" in systemd.statuses[-1]
        assert systemd.running.stop() == 0, systemd.running.log


def test_a_station_whose_camera_is_frozen_is_not_told_as_one_that_judges(
    tmp_path: Path, mosquitto: Mosquitto
) -> None:
    with HttpCamera() as camera:
        kept: list[bytes] = []

        def freeze(picture: bytes, number: int) -> bytes:
            if number > 30:
                kept.append(picture)
            return kept[0] if kept else picture

        camera.spoil = freeze
        cameras = {"scene": {"type": "http", "url": camera.url(), "frozen_s": 1}}
        path = site(tmp_path / "a", mosquitto, cameras=cameras, stations={"cap": STATION})
        with FakeSystemd(tmp_path, path) as systemd:
            systemd.wait(lambda: "cap UNDEFINED: camera scene is frozen" in "".join(systemd.statuses[-1:]))
            assert systemd.statuses[-1].startswith("0 of 1 stations judge")
            assert status(path)["stations"][0]["trouble"] == "camera scene is frozen"
            assert systemd.running.stop() == 0, systemd.running.log


SLOW = """
import sys, time

def slow():
    from edge_infer.backends import onnxruntime
    opens, times = onnxruntime.OnnxRuntime.open, []

    def open_slowly(self, card, *rest):
        times.append(card)
        if len(times) > 1:
            print("compiles", file=sys.stderr, flush=True)
            time.sleep(60)
        return opens(self, card, *rest)

    onnxruntime.OnnxRuntime.open = open_slowly

if "run" in sys.orig_argv:
    slow()
"""
