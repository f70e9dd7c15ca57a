"""A picture that cannot be judged, in the running service: one UNDEFINED with its reason, and OK again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import av
import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from edge_infer.imagehealth.reference import load, path_of
from tests.support.mosquitto import Mosquitto
from tests.support.rtsp_camera import RtspCamera
from tests.support.runs import NO_BOTTLE, RESULTS, Run, Subscribe, site

ALL = "vision/v1/plant1/l3/ipc7/#"


def write_video(path: Path, frames: list[NDArray[np.uint8]]) -> None:
    """What was written is what is read, but for a grey level or two."""
    height, width = frames[0].shape[:2]
    with av.open(str(path), "w") as container:
        stream = container.add_stream("mjpeg", rate=10)
        stream.width, stream.height, stream.pix_fmt = width, height, "yuvj420p"
        stream.options = {"qmin": "2", "qmax": "2"}
        for one in frames:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(one, format="bgr24")))
        container.mux(stream.encode(None))


def belt(shared: Path, count: int) -> list[NDArray[np.uint8]]:
    with av.open(str(shared / "assets/videos/bottle-detection.mp4")) as container:
        frames = container.decode(video=0)
        return [np.asarray(next(frames).to_ndarray(format="bgr24"), np.uint8) for _ in range(count)]


def station(**more: Any) -> dict[str, Any]:
    # finds nothing: without trouble it is OK
    return {"cap": {"camera": "scene", "model": "m", "rules": [NO_BOTTLE], "publish": "change", **more}}


def told(messages: list[Any]) -> list[tuple[str, list[str]]]:
    return [(one.json["decision"], [why["code"] for why in one.json["reasons"]]) for one in messages]


def test_when_the_light_goes_there_is_one_undefined_and_ok_when_it_is_back(
    shared: Path, tmp_path: Path, mosquitto: Mosquitto, run: Run, subscribe: Subscribe
) -> None:
    frames = belt(shared, 60)
    frames[20:40] = [(one * 0.05).astype(np.uint8) for one in frames[20:40]]
    write_video(tmp_path / "tape.avi", frames)
    subscriber = subscribe(mosquitto, RESULTS)
    camera = {"scene": {"type": "files", "path": str(tmp_path / "tape.avi")}}
    path = site(tmp_path / "a", mosquitto, cameras=camera, stations=station())
    running = run(path)
    assert running.wait() == 0, running.log
    subscriber.wait(lambda got: len(got) >= 3)
    assert told(subscriber.messages()) == [("OK", []), ("UNDEFINED", ["dark"]), ("OK", [])]
    dark = subscriber.messages()[1].json
    assert (dark["frameSeq"], dark["rules"], dark["resultState"]) == (21, [], 4)


def test_a_commissioned_service_finds_a_camera_that_was_knocked_and_a_replay_says_the_same(
    shared: Path, tmp_path: Path, mosquitto: Mosquitto, run: Run, subscribe: Subscribe
) -> None:
    good = belt(shared, 60)
    knocked = [np.roll(one, 40, axis=1) for one in good[30:]]
    write_video(tmp_path / "good.avi", good)
    write_video(tmp_path / "tape.avi", [*good[:30], *knocked])
    tape = tmp_path / "now.avi"
    tape.symlink_to(tmp_path / "good.avi")
    camera = {"scene": {"type": "files", "path": str(tape)}}
    path = site(tmp_path / "a", mosquitto, cameras=camera, stations=station(publish="every"))
    command = [sys.executable, "-m", "edge_infer", "commission", str(path)]
    assert subprocess.run(command, timeout=60, check=True, capture_output=True).stderr == b""
    tape.unlink()
    tape.symlink_to(tmp_path / "tape.avi")
    subscriber = subscribe(mosquitto, RESULTS)
    for _ in range(2):
        running = run(path)
        assert running.wait() == 0, running.log
    subscriber.wait(lambda got: len(got) >= 120)
    first, second = told(subscriber.messages()[:60]), told(subscriber.messages()[60:])
    assert first == second
    assert first == [("OK", [])] * 30 + [("UNDEFINED", ["moved"])] * 30


def test_a_reference_of_another_size_is_an_event_and_the_rest_goes_on(
    shared: Path, tmp_path: Path, mosquitto: Mosquitto, run: Run, subscribe: Subscribe
) -> None:
    frames = belt(shared, 30)
    write_video(tmp_path / "tape.avi", frames)
    camera = {"scene": {"type": "files", "path": str(tmp_path / "tape.avi")}}
    path = site(tmp_path / "a", mosquitto, cameras=camera, stations=station())
    command = [sys.executable, "-m", "edge_infer", "commission", str(path)]
    subprocess.run(command, timeout=60, check=True, capture_output=True)
    assert load(path_of(tmp_path / "a/state", "cap")) is not None
    write_video(tmp_path / "tape.avi", [np.asarray(cv2.resize(one, (480, 270)), np.uint8) for one in frames])
    subscriber = subscribe(mosquitto, ALL)
    running = run(path)
    assert running.wait() == 0, running.log
    subscriber.wait(lambda got: len(got) >= 1, "/result")
    events = [one.json for one in subscriber.messages("/event")]
    (event,) = [one for one in events if one["kind"] == "reference_unused"]
    assert event["station"] == "cap"
    assert "frames of 640x360, the camera gives 480x270" in event["data"]["why"]
    assert told(subscriber.messages("/result")) == [("OK", [])]
    assert "the reference is not used" in running.log


@pytest.mark.parametrize("codec", ["h264", "jpeg"])
def test_a_network_camera_that_freezes_is_told_as_its_state_and_as_one_undefined(
    codec: str, tmp_path: Path, mosquitto: Mosquitto, run: Run, subscribe: Subscribe
) -> None:
    subscriber = subscribe(mosquitto, ALL)
    with RtspCamera("--frozen-after", "100", "--codec", codec) as camera:
        cameras = {"scene": {"type": "rtsp", "url": camera.url, "frozen_s": 1.0}}
        running = run(site(tmp_path / "a", mosquitto, cameras=cameras, stations=station()))
        subscriber.wait(lambda got: len(got) >= 2, "/result")
        assert running.stop() == 0, running.log
    assert told(subscriber.messages("/result")) == [("OK", []), ("UNDEFINED", ["frozen"])]
    states = [
        one.json["data"]["state"] for one in subscriber.messages("/event") if one.json["kind"] == "camera"
    ]
    assert states[:2] == ["connected", "frozen"]
