"""`edge-infer run` as the operating system sees it: signals, outages, kills, and one station's trouble."""

from __future__ import annotations

import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from edge_infer.golden import write
from tests.support import networks
from tests.support.mosquitto import Mosquitto
from tests.support.runs import NO_BOTTLE, RESULTS, RULE, Run, Subscribe, site, whole
from tests.support.sites import write_model


def test_a_recording_ends_with_exit_0_and_every_frame_has_a_result(
    tmp_path: Path, mosquitto: Mosquitto, run: Run, subscribe: Subscribe
) -> None:
    subscriber = subscribe(mosquitto, RESULTS)
    running = run(site(tmp_path / "a", mosquitto, frames=60))
    assert running.wait() == 0, running.log
    subscriber.wait(lambda got: len(got) >= 60)
    assert whole(subscriber.messages()).popitem()[1] == 60
    subscriber.close()


def test_results_of_an_outage_are_delivered_at_the_next_start(
    tmp_path: Path, run: Run, subscribe: Subscribe
) -> None:
    broker = Mosquitto(tmp_path / "broker")
    path = site(tmp_path / "a", broker, frames=60)
    assert run(path).wait() == 0
    broker.start()
    subscriber = subscribe(broker, RESULTS)
    running = run(path)
    assert running.wait() == 0, running.log
    subscriber.wait(lambda got: len(got) >= 120)
    assert list(whole(subscriber.messages()).values()) == [120]
    subscriber.close()
    broker.stop()


@pytest.mark.slow
def test_kill_9_and_a_broker_that_dies_lose_nothing(tmp_path: Path, run: Run, subscribe: Subscribe) -> None:
    broker = Mosquitto(tmp_path / "broker", persistence=True).start()
    subscriber = subscribe(broker, RESULTS, client_id="mes", keep=True)
    path = site(tmp_path / "a", broker, fps=50)
    for _ in range(2):
        running = run(path)
        before = len(subscriber.messages())
        subscriber.wait(lambda got, before=before: len(got) > before + 40)  # type: ignore[misc]
        running.kill()
    running = run(path)
    before = len(subscriber.messages())
    subscriber.wait(lambda got: len(got) > before + 40)
    broker.kill()
    time.sleep(1.0)  # an outage takes time
    assert running.process.poll() is None, running.log
    broker.start()
    subscriber.close()
    before_outage = subscriber.messages()
    subscriber = subscribe(broker, RESULTS, client_id="mes", keep=True)
    subscriber.wait(lambda got: len(got) > 60, timeout_s=30)
    assert running.stop() == 0
    ((_, last),) = whole([*before_outage, *subscriber.messages()]).items()
    assert last > 60
    broker.stop()


def test_a_broker_that_hangs_delays_neither_inspection_nor_the_stop(
    tmp_path: Path, mosquitto: Mosquitto, run: Run, subscribe: Subscribe
) -> None:
    subscriber = subscribe(mosquitto, RESULTS)
    path = site(tmp_path / "a", mosquitto, fps=50)
    running = run(path)
    subscriber.wait(lambda got: len(got) > 10)
    mosquitto.freeze()
    time.sleep(1.0)  # results pile up behind the frozen broker
    start = time.monotonic()
    assert running.stop() == 0, running.log
    assert time.monotonic() - start < 5
    mosquitto.thaw()
    again = run(path)
    seen = len(subscriber.messages())
    subscriber.wait(lambda got: len(got) > seen + 60)
    assert again.stop() == 0
    whole(subscriber.messages())
    subscriber.close()


def test_a_stop_says_stopped_and_a_kill_says_offline(
    tmp_path: Path, mosquitto: Mosquitto, run: Run, subscribe: Subscribe
) -> None:
    subscriber = subscribe(mosquitto, "vision/v1/plant1/l3/ipc7/#")
    path = site(tmp_path / "a", mosquitto)

    def states() -> list[str]:
        return [one.json["state"] for one in subscriber.messages("/status")]

    running = run(path)
    subscriber.wait(lambda _: states()[-1:] == ["online"])
    assert running.stop() == 0
    subscriber.wait(lambda _: states()[-1:] == ["stopped"])
    running = run(path)
    subscriber.wait(lambda _: states()[-1:] == ["online"])
    running.kill()
    subscriber.wait(lambda _: states()[-1:] == ["offline"], timeout_s=40)
    subscriber.close()


def test_a_model_that_cannot_be_used_makes_its_station_undefined_and_the_other_goes_on(
    tmp_path: Path, mosquitto: Mosquitto, run: Run, subscribe: Subscribe
) -> None:
    subscriber = subscribe(mosquitto, RESULTS)
    path = site(
        tmp_path / "a",
        mosquitto,
        frames=30,
        models={"m": {"path": "model"}, "bad": {"path": "bad.onnx"}},
        stations={
            "cap": {"camera": "scene", "model": "m", "rules": [RULE]},
            "other": {"camera": "scene", "model": "bad", "rules": [RULE]},
        },
    )
    (tmp_path / "a/bad.onnx").write_bytes(
        b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"
    )
    running = run(path)
    assert running.wait() == 1, running.log
    assert "LFS" in running.log
    results = [one.json for one in subscriber.messages()]
    assert sum(one["station"] == "cap" for one in results) == 30
    (other,) = (one for one in results if one["station"] == "other")
    assert (other["decision"], other["reasons"][0]["code"]) == ("UNDEFINED", "backend_failed")
    subscriber.close()


def test_a_station_leaves_undefined_only_after_its_golden_pictures_passed_on_this_device(
    tmp_path: Path, mosquitto: Mosquitto, run: Run, subscribe: Subscribe
) -> None:
    path = site(
        tmp_path / "a",
        mosquitto,
        frames=10,
        models={
            "m": {"path": "model", "backend": {"type": "openvino"}},
            "bad": {"path": "bad", "backend": {"type": "openvino"}},
        },
        stations={
            "cap": {"camera": "scene", "model": "m", "rules": [NO_BOTTLE]},
            "other": {"camera": "scene", "model": "bad", "rules": [NO_BOTTLE]},
        },
    )
    grey = tmp_path / "grey.png"
    cv2.imwrite(str(grey), np.full((48, 64, 3), 90, np.uint8))
    write(tmp_path / "a/model", [grey])
    write(write_model(tmp_path / "a/bad"), [grey])
    # the network changes after the expectation was written: it sees what is not there
    rows = np.zeros((1, 6, 84), np.float32)
    rows[0, :, 0] = (30, 30, 20, 20, 0, 0.9)
    networks.rows(tmp_path / "a/bad/model.onnx", rows)
    subscriber = subscribe(mosquitto, "vision/v1/plant1/l3/ipc7/#")
    running = run(path)
    assert running.wait() == 1, running.log
    results = [one.json for one in subscriber.messages("/result")]
    assert [one["decision"] for one in results if one["station"] == "cap"] == ["OK"] * 10
    (other,) = (one for one in results if one["station"] == "other")
    assert (other["decision"], other["reasons"][0]["code"]) == ("UNDEFINED", "golden_failed")
    assert "grey.png: tear 0.900 at" in other["reasons"][0]["text"]
    (event,) = (one.json for one in subscriber.messages("/event") if b"model_failed" in one.payload)
    assert "golden_failed" in str(event)
    assert "model m: 1 golden picture" in running.log
    subscriber.close()


def test_a_camera_that_is_not_there_is_told_once_and_the_other_station_goes_on(
    tmp_path: Path, mosquitto: Mosquitto, run: Run, subscribe: Subscribe
) -> None:
    subscriber = subscribe(mosquitto, "vision/v1/plant1/l3/ipc7/#")
    path = site(
        tmp_path / "a",
        mosquitto,
        cameras={
            "scene": {"type": "synthetic", "fps": 10},
            "gone": {"type": "rtsp", "url": "rtsp://127.0.0.1:9/x", "user": "u", "password": {"env": "CAM"}},
        },
        stations={
            "cap": {"camera": "scene", "model": "m", "rules": [RULE]},
            "other": {"camera": "gone", "model": "m", "rules": [RULE]},
        },
    )
    running = run(path, CAM="s3cret#word")
    subscriber.wait(lambda got: len(got) >= 20, "cap/result")
    (other,) = subscriber.messages("other/result")
    assert other.json["reasons"][0]["code"] == "camera_lost"
    events = [one.json for one in subscriber.messages("/event")]
    assert [
        e["data"]["state"] for e in events if e["kind"] == "camera" and e["data"]["camera"] == "gone"
    ] == ["lost"]
    assert running.stop() == 0
    assert "s3cret" not in running.log
    assert not any(b"s3cret" in one.payload for one in subscriber.messages())
    subscriber.close()


def test_a_secret_that_is_not_on_this_machine_is_refused(tmp_path: Path, run: Run) -> None:
    path = site(tmp_path / "a", None)
    (tmp_path / "a/password").unlink()
    running = run(path)
    assert running.wait() == 78
    assert "mqtt.password" in running.log
    assert "Traceback" not in running.log


def test_a_part_asked_over_mqtt_is_answered_once_from_a_later_frame(
    tmp_path: Path, mosquitto: Mosquitto, run: Run, subscribe: Subscribe
) -> None:
    subscriber = subscribe(mosquitto, "#")
    path = site(
        tmp_path / "a",
        mosquitto,
        stations={"cap": {"camera": "scene", "model": "m", "trigger": {"type": "mqtt"}, "rules": [RULE]}},
    )
    running = run(path)
    subscriber.wait(lambda got: any(one.json["data"].get("state") == "connected" for one in got), "/event")
    for _ in range(2):
        ask(mosquitto, '{"partId": "A-1"}')
    subscriber.wait(lambda got: len(got) >= 2, "rsp/plc/answer")
    first, second = (one.json for one in subscriber.messages("rsp/plc/answer"))
    assert first["status"] == second["status"] == "ok"
    assert first["data"]["jobId"] == second["data"]["jobId"]
    subscriber.wait(lambda got: len(got) >= 1, "cap/result")
    ask(mosquitto, "not json")
    subscriber.wait(lambda got: len(got) >= 3, "rsp/plc/answer")
    assert subscriber.messages("rsp/plc/answer")[-1].json["status"] == "rejected"
    (result,) = (one.json for one in subscriber.messages("cap/result"))
    assert (result["partId"], result["jobId"]) == ("A-1", first["data"]["jobId"])
    assert result["capturedAt"] >= result["trigger"]["receivedAt"]
    assert running.stop() == 0
    subscriber.close()


def test_a_part_that_waited_at_a_kill_is_answered_restarted(
    tmp_path: Path, mosquitto: Mosquitto, run: Run, subscribe: Subscribe
) -> None:
    subscriber = subscribe(mosquitto, "#")
    path = site(
        tmp_path / "a",
        mosquitto,
        # the first frame would come after the test
        cameras={"scene": {"type": "synthetic", "fps": 0.01, "max_age_s": 200}},
        stations={
            "cap": {
                "camera": "scene",
                "model": "m",
                "trigger": {"type": "mqtt"},
                "deadline_ms": 100000,
                "rules": [RULE],
            }
        },
    )
    running = run(path)
    subscriber.wait(lambda got: any(one.json["kind"] == "configuration_loaded" for one in got), "/event")
    ask(mosquitto, '{"partId": "A-1"}')
    subscriber.wait(lambda got: len(got) >= 1, "rsp/plc/answer")
    running.kill()
    again = run(path)
    subscriber.wait(lambda got: len(got) >= 1, "cap/result")
    (result,) = (one.json for one in subscriber.messages("cap/result"))
    job_id = subscriber.messages("rsp/plc/answer")[0].json["data"]["jobId"]
    assert (result["partId"], result["jobId"], result["decision"]) == ("A-1", job_id, "UNDEFINED")
    assert result["reasons"][0]["code"] == "restarted"
    assert again.stop() == 0


def broken(folder: Path, code: str) -> dict[str, str]:
    """An environment in which the product is broken on purpose before it starts."""
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(code)
    return {"PYTHONPATH": f"{folder}:{Path.cwd()}", "TMPDIR": str(folder)}


def test_a_stop_does_not_wait_for_a_model_that_is_being_loaded(
    tmp_path: Path, mosquitto: Mosquitto, run: Run
) -> None:
    slow = broken(
        tmp_path / "slow",
        "import time, edge_infer.network\n"
        "def load(*_): print('loading', flush=True); time.sleep(60)\n"
        "edge_infer.network.Network.open = load\n",
    )
    running = run(site(tmp_path / "a", mosquitto), **slow)
    end = time.monotonic() + 20
    while "loading" not in running.log and time.monotonic() < end:
        time.sleep(0.02)
    start = time.monotonic()
    assert running.stop() == 0, running.log
    assert time.monotonic() - start < 5


def test_six_silent_cameras_and_a_frozen_broker_do_not_hold_up_a_stop(
    tmp_path: Path, mosquitto: Mosquitto, run: Run, subscribe: Subscribe
) -> None:
    subscriber = subscribe(mosquitto, "vision/v1/plant1/l3/ipc7/event")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"rtsp://127.0.0.1:{silent.getsockname()[1]}/x"
        cameras: dict[str, Any] = {f"c{i}": {"type": "rtsp", "url": url} for i in range(6)}
        stations = {name: {"camera": name, "model": "m", "rules": [RULE]} for name in cameras}
        running = run(site(tmp_path / "a", mosquitto, cameras=cameras, stations=stations))
        subscriber.wait(lambda got: any(one.json["kind"] == "configuration_loaded" for one in got))
        mosquitto.freeze()
        start = time.monotonic()
        assert running.stop() == 0, running.log
        assert time.monotonic() - start < 5
        mosquitto.thaw()


def test_a_thread_that_a_bug_ended_is_the_end_of_the_service(
    tmp_path: Path, mosquitto: Mosquitto, run: Run
) -> None:
    bug = broken(
        tmp_path / "bug",
        "import edge_infer.delivery\n"
        "def publish(*_): raise ZeroDivisionError('boom')\n"
        "edge_infer.delivery.Delivery.publish = publish\n",
    )
    running = run(site(tmp_path / "a", mosquitto), **bug)
    assert running.wait(20) == 3, running.log
    assert list((tmp_path / "bug").glob("edge-infer-*.txt"))


def test_a_stop_while_it_starts_ends_with_exit_0(tmp_path: Path, mosquitto: Mosquitto, run: Run) -> None:
    path = site(tmp_path / "a", mosquitto)
    codes = set()
    for i in range(6):
        running = run(path)
        running.handles(signal.SIGTERM)
        time.sleep(i * 0.15)  # another phase of the start each time
        codes.add(running.stop())
    assert codes == {0}, running.log


def test_a_truncated_video_is_judged_as_far_as_it_goes_and_then_said(
    tmp_path: Path, shared: Path, mosquitto: Mosquitto, run: Run, subscribe: Subscribe
) -> None:
    subscriber = subscribe(mosquitto, RESULTS)
    whole_video = (shared / "assets/videos/bottle-detection.mp4").read_bytes()
    (tmp_path / "cut.mp4").write_bytes(whole_video[: len(whole_video) // 2])
    path = site(tmp_path / "a", mosquitto, cameras={"scene": {"type": "files", "path": "../cut.mp4"}})
    running = run(path)
    assert running.wait() == 1
    assert "cut.mp4" in running.log
    assert "Traceback" not in running.log
    subscriber.wait(lambda got: len(got) >= 1)
    results = [one.json for one in subscriber.messages()]
    assert results[-1]["decision"] == "UNDEFINED"
    assert results[-1]["reasons"][0]["code"] == "camera_lost"


def ask(broker: Mosquitto, payload: str) -> None:
    topic = "vision/v1/plant1/l3/ipc7/cap/cmd/start_single_job"
    subprocess.run(
        [
            "mosquitto_pub", "-V", "mqttv5", "-h", broker.host, "-p", str(broker.port),
            "-u", broker.user, "-P", broker.password, "-q", "1", "-t", topic, "-m", payload,
            "-D", "publish", "response-topic", "vision/v1/rsp/plc/answer",
            "-D", "publish", "correlation-data", "c1",
        ],
        check=True, timeout=10,
    )  # fmt: skip
