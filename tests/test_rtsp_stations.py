"""Network cameras in the running service: killed, frozen, back again, of another size."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.support.camera_sites import told, watching
from tests.support.mosquitto import Mosquitto
from tests.support.rtsp_camera import RtspCamera
from tests.support.running import Arrived
from tests.support.runs import NO_BOTTLE
from tests.test_run import ask

LOST = "UNDEFINED camera_lost"
FIRST_BACK_OFF_S = 0.5 * 1.2


def states(events: Sequence[Arrived]) -> list[str]:
    """Of the camera, in order."""
    return [one.json["data"]["state"] for one in events if one.json["kind"] == "camera"]


def test_a_killed_camera_is_one_undefined_and_judged_within_the_back_off_and_2_s_once_it_is_back(
    tmp_path: Path, mosquitto: Mosquitto
) -> None:
    stations = {"cap": {"camera": "top", "rules": [NO_BOTTLE], "publish": "change"}}
    with RtspCamera() as camera:
        cameras = {"top": {"type": "rtsp", "url": camera.url}}
        with watching(tmp_path, mosquitto, cameras, stations) as (heard, running):
            heard.wait(lambda got: told(got) == ["OK"], "cap/result")
            camera.kill()
            heard.wait(lambda got: told(got) == ["OK", LOST], "cap/result")
            camera.restart()
            back, back_s = datetime.now(UTC), time.monotonic()
            heard.wait(lambda got: told(got) == ["OK", LOST, "OK"], "cap/result")
            # the second wait of the back-off may have begun: 0.5 s, then 1 s
            assert time.monotonic() - back_s < 2 * FIRST_BACK_OFF_S + 2, running.log
            results = [one.json for one in heard.messages("cap/result")]
            seen = states(heard.messages("/event"))
    assert len(results) == 3, "one result for the loss, not one a frame"
    assert datetime.fromisoformat(results[2]["capturedAt"]) > back
    assert seen == ["connected", "lost", "connected"]


def test_a_pulled_cable_is_stalled_then_lost_and_judged_again_once_it_is_back(
    tmp_path: Path, mosquitto: Mosquitto
) -> None:
    stations = {"cap": {"camera": "top", "rules": [NO_BOTTLE], "publish": "change"}}
    with RtspCamera() as camera:
        settings = {
            "type": "rtsp",
            "url": camera.url,
            "read_timeout_s": 3.0,
            "open_timeout_s": 1.0,
            "max_age_s": 0.5,
        }
        with watching(tmp_path, mosquitto, {"top": settings}, stations) as (heard, _):
            heard.wait(lambda got: told(got) == ["OK"], "cap/result")
            camera.freeze()
            pulled, pulled_s = datetime.now(UTC), time.monotonic()
            heard.wait(lambda got: told(got) == ["OK", "UNDEFINED stale"], "cap/result")
            assert time.monotonic() - pulled_s < 0.5 + 1.0 + 1.5
            heard.wait(lambda got: "lost" in states(got), "/event")
            assert time.monotonic() - pulled_s < 3.0 + 1.5
            camera.thaw()
            back, back_s = datetime.now(UTC), time.monotonic()
            heard.wait(lambda got: told(got)[-1] == "OK", "cap/result")
            # an attempt that met the frozen camera ends at open_timeout_s
            assert time.monotonic() - back_s < 1.0 + 2 * FIRST_BACK_OFF_S + 2
            results = [one.json for one in heard.messages("cap/result")]
    assert told(heard.messages("cap/result")) == ["OK", "UNDEFINED stale", "OK"]
    dated = [datetime.fromisoformat(one["capturedAt"]) for one in results if one["decision"] == "OK"]
    # nothing of the time between is judged
    assert all(one < pulled or one > back for one in dated)


def test_frames_of_another_size_are_judged_by_fractions_and_not_by_pixels(
    tmp_path: Path, mosquitto: Mosquitto
) -> None:
    corner = [[0, 0], [320, 0], [320, 180]]
    stations: dict[str, dict[str, Any]] = {
        "pixels": {"camera": "top", "rules": [NO_BOTTLE | {"zone": {"unit": "pixel", "polygon": corner}}]},
        "part": {
            "camera": "top", "rules": [NO_BOTTLE], "region": {"unit": "pixel", "box": [0, 0, 320, 180]},
        },
        "fractions": {"camera": "top", "rules": [NO_BOTTLE], "region": {"box": [0, 0, 0.5, 0.5]}},
    }  # fmt: skip
    stations = {name: one | {"publish": "change"} for name, one in stations.items()}
    with RtspCamera() as camera:
        cameras = {"top": {"type": "rtsp", "url": camera.url}}
        with watching(tmp_path, mosquitto, cameras, stations) as (heard, _):
            for name in stations:
                heard.wait(lambda got: told(got) == ["OK"], f"{name}/result")
            camera.resize(1280, 720)
            for name in ("pixels", "part"):
                heard.wait(lambda got: told(got)[-1] == "UNDEFINED rule_not_evaluable", f"{name}/result")
            text = heard.messages("pixels/result")[-1].json["reasons"][0]["text"]
            camera.resize(640, 360)
            for name in stations:
                heard.wait(lambda got: told(got)[-1] == "OK", f"{name}/result")
            assert "UNDEFINED rule_not_evaluable" not in told(heard.messages("fractions/result"))
    assert (
        "the camera gives 1280x720 now and gave 640x360 at first: zones, regions and areas in pixels" in text
    )


def test_a_part_that_asks_is_never_answered_from_a_frame_that_was_on_its_way_already(
    tmp_path: Path, mosquitto: Mosquitto
) -> None:
    """At 5 frames a second each comes 0.2 s after it was taken: the next to come is of before the part."""
    stations = {"cap": {"camera": "top", "rules": [NO_BOTTLE], "trigger": {"type": "mqtt"}}}
    with RtspCamera("--fps", "5") as camera:
        cameras = {"top": {"type": "rtsp", "url": camera.url}}
        with watching(tmp_path, mosquitto, cameras, stations) as (heard, _):
            heard.wait(lambda got: "connected" in states(got), "/event")
            for part in range(1, 9):
                ask(mosquitto, f'{{"partId": "A-{part}"}}')
                heard.wait(lambda got: len(got) == part, "cap/result")  # noqa: B023 - it is waited for here
            results = [one.json for one in heard.messages("cap/result")]
    assert [one["partId"] for one in results] == [f"A-{part}" for part in range(1, 9)]
    for one in results:
        assert one["decision"] == "OK"
        assert one["capturedAt"] >= one["trigger"]["receivedAt"]
