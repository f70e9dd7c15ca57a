"""Industrial cameras in the running service: pulled plugs, parts that ask, parts on the camera's line."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import cv2
import yaml

from tests.support.gige_camera import GigeCamera
from tests.support.mosquitto import Mosquitto
from tests.support.running import Arrived, ForeignSubscriber, Running
from tests.support.runs import NO_BOTTLE, RULE
from tests.support.sites import write_model
from tests.test_run import ask

CAMERA = {"type": "gige", "address": "127.0.0.3", "pixel_format": "Mono8", "width": 320, "height": 240}


def write_site(
    folder: Path, broker: Mosquitto, camera: dict[str, Any], stations: dict[str, dict[str, Any]]
) -> Path:
    """With a network that finds nothing."""
    write_model(folder / "model")
    (folder / "password").write_text("correct horse")
    data = {
        "format": 1, "site": "plant1", "line": "l3", "device": "ipc7", "state_dir": "state",
        "mqtt": {
            "host": broker.host, "port": broker.port, "user": "edge-infer", "password": {"file": "password"}
        },
        "cameras": {"top": CAMERA | camera},
        "models": {"m": {"path": "model"}},
        "stations": {
            # the test camera's pictures are one even grey
            name: {"camera": "top", "model": "m", "health": {"checks": []}} | more
            for name, more in stations.items()
        },
    }  # fmt: skip
    path = folder / "site.yaml"
    path.write_text(yaml.safe_dump(data, sort_keys=False))
    return path


@contextmanager
def service(
    folder: Path, broker: Mosquitto, camera: dict[str, Any], stations: dict[str, dict[str, Any]]
) -> Iterator[ForeignSubscriber]:
    """What a subscriber hears of the service."""
    path = write_site(folder, broker, camera, stations)
    subscriber = ForeignSubscriber(broker, "#")
    running = Running(path)
    try:
        yield subscriber
        assert running.stop() == 0, running.log
    finally:
        running.kill()
        subscriber.close()


def test_grab_has_a_picture_taken_by_a_camera_that_waits_to_be_asked(
    tmp_path: Path, mosquitto: Mosquitto
) -> None:
    stations = {"cap": {"rules": [NO_BOTTLE], "trigger": {"type": "mqtt"}}}
    path = write_site(tmp_path, mosquitto, {"trigger": "software"}, stations)
    with GigeCamera("127.0.0.3", "T3", "--grey", "140"):
        grab = [
            sys.executable,
            "-m",
            "edge_infer",
            "grab",
            str(path),
            "cap",
            "--out",
            str(tmp_path / "cap.png"),
        ]
        subprocess.run(grab, check=True, timeout=30, capture_output=True)
    picture = cv2.imread(str(tmp_path / "cap.png"))
    assert picture is not None
    assert (picture[1:] == 140).all()


def decisions(messages: list[Arrived]) -> list[str]:
    """With the reason where there is no verdict."""
    told = [one.json for one in messages]
    return [one["decision"] + "".join(f" {each['code']}" for each in one["reasons"][:1]) for one in told]


def become(*wanted: str) -> Callable[[Any], bool]:
    def has_become(got: Any) -> bool:
        told = decisions(list(got))
        assert told == list(wanted)[: len(told)]
        return told == list(wanted)

    return has_become


def test_a_camera_that_loses_its_power_is_one_undefined_then_verdicts_again(
    tmp_path: Path, mosquitto: Mosquitto
) -> None:
    stations = {
        "good": {"rules": [NO_BOTTLE], "publish": "change"},
        "bad": {"rules": [RULE], "publish": "change"},
    }
    with (
        GigeCamera("127.0.0.3", "T3") as camera,
        service(tmp_path, mosquitto, {"read_timeout_s": 1.0}, stations) as heard,
    ):
        heard.wait(become("OK"), "good/result")
        camera.kill()
        heard.wait(become("OK", "UNDEFINED camera_lost"), "good/result")
        camera.restart()
        heard.wait(become("OK", "UNDEFINED camera_lost", "OK"), "good/result")
        heard.wait(lambda got: len(got) >= 3, "bad/result")
        states = [
            one.json["data"]["state"] for one in heard.messages("/event") if one.json["kind"] == "camera"
        ]
    plain = [each.split()[0] for each in decisions(heard.messages("bad/result"))]
    assert plain == ["NOK", "UNDEFINED", "NOK"]
    assert states == ["connected", "lost", "connected"]


def test_a_stop_does_not_wait_for_a_camera_that_hangs(tmp_path: Path, mosquitto: Mosquitto) -> None:
    stations = {"cap": {"rules": [NO_BOTTLE], "publish": "change"}}
    with GigeCamera("127.0.0.3", "T3") as camera:
        with service(tmp_path, mosquitto, {"read_timeout_s": 0.5}, stations) as heard:
            heard.wait(become("OK"), "cap/result")
            camera.freeze()
            heard.wait(become("OK", "UNDEFINED camera_lost"), "cap/result")
            time.sleep(1.0)  # it is being opened again, which hangs, and let go, which hangs too
            asked_s = time.monotonic()
        assert time.monotonic() - asked_s < 5


def connected(times: int) -> Callable[[Any], bool]:
    return lambda got: sum(one.json["data"].get("state") == "connected" for one in got) == times


def test_a_part_that_asks_is_photographed_for_itself_also_after_a_loss(
    tmp_path: Path, mosquitto: Mosquitto
) -> None:
    stations = {"cap": {"rules": [NO_BOTTLE], "trigger": {"type": "mqtt", "delay_ms": 30}}}
    with (
        GigeCamera("127.0.0.3", "T3") as camera,
        service(tmp_path, mosquitto, {"trigger": "software"}, stations) as heard,
    ):
        heard.wait(connected(1), "/event")
        for part in range(1, 6):
            ask(mosquitto, f'{{"partId": "A-{part}"}}')
            heard.wait(become(*["OK"] * part), "cap/result")
        camera.kill()
        heard.wait(lambda got: any(one.json["data"].get("state") == "lost" for one in got), "/event")
        ask(mosquitto, '{"partId": "B-1"}')
        # the loss itself, and the part that asked meanwhile
        heard.wait(become(*["OK"] * 5, *["UNDEFINED camera_lost"] * 2), "cap/result")
        camera.restart()
        heard.wait(connected(2), "/event")
        ask(mosquitto, '{"partId": "C-1"}')
        heard.wait(become(*["OK"] * 5, *["UNDEFINED camera_lost"] * 2, "OK"), "cap/result")
        results = [one.json for one in heard.messages("cap/result")]
    assert [one.get("partId") for one in results] == ["A-1", "A-2", "A-3", "A-4", "A-5", None, "B-1", "C-1"]
    asked = [one for one in results if one["decision"] == "OK"]
    assert all(one["capturedAt"] > one["trigger"]["receivedAt"] for one in asked)
    frames = [one["frameSeq"] for one in asked[:5]]
    assert frames == sorted(set(frames)), "each has a picture of its own"


def test_a_part_that_asks_is_answered_from_a_camera_that_runs_freely(
    tmp_path: Path, mosquitto: Mosquitto
) -> None:
    stations = {"cap": {"rules": [NO_BOTTLE], "trigger": {"type": "mqtt"}}}
    with GigeCamera("127.0.0.3", "T3"), service(tmp_path, mosquitto, {}, stations) as heard:
        heard.wait(connected(1), "/event")
        for part in range(1, 3):
            ask(mosquitto, f'{{"partId": "A-{part}"}}')
            heard.wait(become(*["OK"] * part), "cap/result")
    lines = (tmp_path / "state" / "audit" / "parts.jsonl").read_text().splitlines()
    assert [json.loads(line)["status"] for line in lines] == ["ok", "ok"]


def test_each_part_on_the_cameras_line_has_one_result_and_a_lost_picture_is_damaged(
    tmp_path: Path, mosquitto: Mosquitto
) -> None:
    stations = {"cap": {"rules": [NO_BOTTLE], "trigger": {"type": "camera"}}}
    with (
        GigeCamera("127.0.0.3", "T3", "--line") as camera,
        service(tmp_path, mosquitto, {"trigger": "line", "line": "Line1"}, stations) as heard,
    ):
        heard.wait(connected(1), "/event")
        for count in range(1, 4):
            camera.pulse()
            heard.wait(become(*["OK"] * count), "cap/result")
        camera.lose(0.3)
        camera.pulse()
        heard.wait(become(*["OK"] * 3, "UNDEFINED damaged"), "cap/result")
        camera.lose(0)
        camera.pulse()
        heard.wait(become(*["OK"] * 3, "UNDEFINED damaged", "OK"), "cap/result")
        results = [one.json for one in heard.messages("cap/result")]
    assert [one["seq"] for one in results] == [1, 2, 3, 4, 5]
    assert {one["trigger"]["type"] for one in results} == {"camera"}
