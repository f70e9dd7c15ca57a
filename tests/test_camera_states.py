"""How a camera is, as a subscriber of the running service hears it."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from typing import Any

from edge_infer.messages.camera import CameraMessage
from tests.support.gige_camera import GigeCamera
from tests.support.mosquitto import Mosquitto
from tests.support.running import Arrived, ForeignSubscriber
from tests.support.runs import NO_BOTTLE
from tests.test_gige_stations import service

STATION = {"cap": {"rules": [NO_BOTTLE]}}
TOPIC = "/camera/top"


def told(heard: ForeignSubscriber) -> list[CameraMessage]:
    return [CameraMessage.model_validate_json(one.payload, by_alias=True) for one in heard.messages(TOPIC)]


def states(heard: ForeignSubscriber) -> list[str]:
    return [state for state, _ in groupby(one.state for one in told(heard))]


def until(heard: ForeignSubscriber, *wanted: str) -> None:
    heard.wait(lambda _: states(heard) == list(wanted), TOPIC)


def decided(wanted: str, after: int = 0) -> Callable[[Any], bool]:
    return lambda got: any(one.json["decision"] == wanted for one in list(got)[after:])


def test_a_camera_that_loses_its_power_is_one_undefined_and_judges_again_soon_after_it_is_back(
    tmp_path: Path, mosquitto: Mosquitto
) -> None:
    with (
        GigeCamera("127.0.0.3", "T3") as camera,
        service(tmp_path, mosquitto, {"read_timeout_s": 1.0}, STATION) as heard,
    ):
        heard.wait(decided("OK"), "cap/result")
        camera.kill()
        until(heard, "opening", "connected", "lost")
        before = len(heard.messages("cap/result"))
        # attempts fail meanwhile, and nothing more is said
        time.sleep(2.0)
        camera.restart()
        back_s = time.monotonic()
        heard.wait(decided("OK", after=before), "cap/result")
        # lost for at most 2.5 s: the longest wait by then is 2 s and a fifth
        assert time.monotonic() - back_s < 2.4 + 2
        until(heard, "opening", "connected", "lost", "connected")
        results = [one.json for one in heard.messages("cap/result")]
        last = told(heard)[-1]
        events = [
            one.json["data"]["state"] for one in heard.messages("/event") if one.json["kind"] == "camera"
        ]
    undefined = [one["reasons"][0]["code"] for one in results if one["decision"] == "UNDEFINED"]
    assert undefined == ["camera_lost"]
    assert events == ["connected", "lost", "connected"]
    assert last.reconnections == 1
    assert last.frames >= len(results) - 1
    assert last.packets_lost == 0
    assert last.last_frame_at is not None


def test_who_comes_later_finds_the_state_and_numbers_that_go_on(tmp_path: Path, mosquitto: Mosquitto) -> None:
    with (
        GigeCamera("127.0.0.3", "T3") as camera,
        service(tmp_path, mosquitto, {"frame_rate": 20.0}, STATION) as heard,
    ):
        camera.lose(0.02)
        heard.wait(lambda _: any(one.fps is not None for one in told(heard)), TOPIC)
        counted = told(heard)[-1]
        later = ForeignSubscriber(mosquitto, f"vision/v1/plant1/l3/ipc7{TOPIC}")
        try:
            later.wait(lambda got: len(got) == 1)
            (found,) = later.messages()
        finally:
            later.close()
    assert found.retained
    assert found.json["state"] == "connected"
    assert counted.fps is not None
    assert 10 < counted.fps < 25
    assert counted.packets_lost
    assert counted.damaged


def test_a_camera_that_another_host_controls_is_busy_until_it_is_let_go(
    tmp_path: Path, mosquitto: Mosquitto
) -> None:
    from edge_infer.settings import Secrets
    from edge_infer.sources.gige import Gige

    with GigeCamera("127.0.0.3", "T3", "--address-of-controller", "10.1.2.3"):
        viewer = Gige(type="gige", address="127.0.0.3").open("viewer", Secrets({}))
        try:
            with service(tmp_path, mosquitto, {}, STATION) as heard:
                until(heard, "opening", "busy")
                assert "another host (10.1.2.3)" in told(heard)[-1].text
                viewer.close()
                heard.wait(decided("OK"), "cap/result")
                until(heard, "opening", "busy", "connected")
                results: list[Arrived] = heard.messages("cap/result")
        finally:
            viewer.close()
    assert results[0].json["reasons"][0]["code"] == "camera_lost"
    assert sum(one.json["decision"] == "UNDEFINED" for one in results) == 1
