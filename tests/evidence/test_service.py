"""`edge-infer run` with stored pictures: real scenes, a real broker, kills, and disks that hang."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from importlib.resources import files
from pathlib import Path
from typing import Any

import av
import numpy as np
import psutil
import pytest
import yaml
from PIL import Image as Pillow

from tests.support.evidence import lay, pictures, until
from tests.support.filesystems import ext4
from tests.support.mosquitto import Mosquitto
from tests.support.running import ForeignSubscriber
from tests.support.runs import RESULTS, Run, site

EVENTS = "vision/v1/plant1/l3/ipc7/event"
NOTHING_FOUND = {"name": "some", "count": {"labels": ["bottle"], "at_least": 1}}
EVERYTHING = {"min_free_bytes": 0, "ok_every": 1, "per_minute": 100_000}


def write_site(folder: Path, broker: Mosquitto | None, evidence: dict[str, Any], **more: Any) -> Path:
    """A drawn scene in which a small network finds nothing: every part is NOK."""
    nok = {"cap": {"camera": "scene", "model": "m", "rules": [NOTHING_FOUND]}}
    return site(folder, broker, fps=25, **{"stations": nok, "evidence": evidence} | more)


def looked_at(image: dict[str, Any]) -> np.ndarray[Any, Any]:
    """Its pixels (RGB), decoded by somebody else; its file is what the result says."""
    path = Path(image["uri"].removeprefix("file://"))
    assert hashlib.sha256(path.read_bytes()).hexdigest() == image["sha256"]
    opened = Pillow.open(path)
    assert (opened.format, *opened.size) == ("JPEG", image["width"], image["height"])
    return np.asarray(opened)


def test_the_bottles_of_the_scene_are_stored_as_the_results_say(
    tmp_path: Path, mosquitto: Mosquitto, run: Run
) -> None:
    demo = yaml.safe_load(files("edge_infer.bundled").joinpath("bottles/demo.yaml").read_text("utf-8"))
    (filler,) = demo["stations"].values()
    path = write_site(
        tmp_path,
        mosquitto,
        {"min_free_bytes": 0, "ok_every": 3, "per_minute": 1000, "publish": ["drawn"]},
        cameras={"scene": {"type": "synthetic", "fps": 10, "seed": 1, "defect_rate": 0.4}},
        models={"bottles": {"path": str(files("edge_infer.bundled").joinpath("bottles"))}},
        stations={"filler": {**filler, "camera": "scene", "model": "bottles"}},
    )
    subscriber = ForeignSubscriber(mosquitto, RESULTS)
    sent = ForeignSubscriber(mosquitto, "vision/v1/plant1/l3/ipc7/+/image/+")
    running = run(path)
    subscriber.wait(
        lambda got: {"OK", "NOK"} <= {one.json["decision"] for one in got if "image" in one.json},
        timeout_s=60,
    )
    sent.wait(lambda got: len(got) >= 2)
    assert running.stop() == 0, running.log
    results = [one.json for one in subscriber.messages()]
    named = [one for one in results if "image" in one]
    for one in named:
        assert one["hasTransferableDataOnFile"]
        raw, drawn = looked_at(one["image"]), looked_at(one["image"]["drawn"])
        assert raw.shape == drawn.shape
        assert np.abs(raw.astype(int) - drawn).mean() > 0.1
        assert one["image"]["drawn"]["uri"].endswith(f"{one['resultId']}-drawn.jpg")
    assert all("image" in one for one in results if one["decision"] == "NOK")
    assert not all("image" in one for one in results)
    # the published picture is the stored one
    by_id = {one["resultId"]: one for one in named}
    for message in sent.messages("/image/drawn"):
        (result_id,) = (key for key in by_id if key in message.properties)
        assert hashlib.sha256(message.payload).hexdigest() == by_id[result_id]["image"]["drawn"]["sha256"]
    subscriber.close()
    sent.close()


def test_frames_of_a_real_video_are_stored(
    tmp_path: Path, shared: Path, mosquitto: Mosquitto, run: Run
) -> None:
    (tmp_path / "tape").mkdir()
    with av.open(str(shared / "assets/videos/bottle-detection.mp4")) as video:
        for number, frame in zip(range(12), video.decode(video=0), strict=False):
            Pillow.fromarray(frame.to_ndarray(format="rgb24")).save(tmp_path / f"tape/{number:02}.png")
    (tmp_path / "yolox").mkdir()
    card = {
        "format": 1,
        "name": "yolox-nano",
        "network": str(shared / "assets/yolox_nano/yolox_nano.onnx"),
        "decoder": "yolox-raw",
        "labels_file": str(shared / "assets/coco80.txt"),
        "input": {"align": "top_left", "color": "bgr", "scale": 1},
    }
    (tmp_path / "yolox/model.yaml").write_text(yaml.safe_dump(card))
    path = write_site(
        tmp_path,
        mosquitto,
        EVERYTHING,
        cameras={"tape": {"type": "files", "path": "tape"}},
        models={"m": {"path": "yolox"}},
        stations={"cap": {"camera": "tape", "model": "m", "rules": [NOTHING_FOUND]}},
    )
    subscriber = ForeignSubscriber(mosquitto, RESULTS)
    running = run(path)
    assert running.wait() == 0, running.log
    subscriber.wait(lambda got: len(got) >= 12)
    results = [one.json for one in subscriber.messages()]
    assert [one["seq"] for one in results] == list(range(1, 13))
    stored = [one for one in results if "image" in one]
    assert len(stored) >= 6
    for one in stored:
        original = np.asarray(Pillow.open(tmp_path / f"tape/{one['frameSeq'] - 1:02}.png").convert("RGB"))
        assert np.abs(looked_at(one["image"]).astype(int) - original).mean() < 4
    subscriber.close()


def test_kill_9_leaves_no_half_picture_and_the_next_start_cleans_up(tmp_path: Path, run: Run) -> None:
    path = write_site(
        tmp_path, None, EVERYTHING, cameras={"scene": {"type": "synthetic", "fps": 100, "seed": 1}}
    )
    store = tmp_path / "state/evidence"
    before = 0
    for kill in range(4):
        running = run(path)
        until(lambda before=before: len(pictures(store)) > before + 20, 30)  # type: ignore[misc]
        # somewhere else in a write each time
        time.sleep(0.003 * kill)
        running.kill()
        before = len(pictures(store))
        for picture in pictures(store)[-30:]:
            assert picture.read_bytes().endswith(b"\xff\xd9")
            Pillow.open(picture).load()
    left = store / ".partial" / pictures(store)[0].name
    left.write_bytes(b"half")
    running = run(path)
    until(lambda: not left.exists(), 30)
    assert running.stop() == 0


class Disk:
    """The pictures' folder on a disk that can be frozen; the outbox is on another one."""

    def __init__(self, folder: Path) -> None:
        (folder / "state").mkdir()
        self.mounted = ext4(folder / "state/evidence", "64M")

    def close(self) -> None:
        self.mounted.thaw()
        self.mounted.close()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    one = Disk(tmp_path)
    yield one
    one.close()


class Stamped:
    """`mosquitto_sub` that says when each message came."""

    def __init__(self, broker: Mosquitto, topic: str, file: Path) -> None:
        self._file = file
        with file.open("wb") as out:
            self._process = subprocess.Popen(
                ["mosquitto_sub", "-V", "mqttv5", "-h", broker.host, "-p", str(broker.port),
                 "-u", broker.user, "-P", broker.password, "-q", "1", "-t", topic, "-F", "%U %p"],
                stdout=out,
            )  # fmt: skip

    @property
    def results(self) -> list[tuple[float, dict[str, Any]]]:
        """When it came (seconds since 1970), and what."""
        lines = self._file.read_text().splitlines()
        return [
            (float(line.split(" ", 1)[0]), json.loads(line.split(" ", 1)[1]))
            for line in lines
            if line.endswith("}")
        ]

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(5)


def _after_ms(results: list[tuple[float, dict[str, Any]]]) -> list[float]:
    return sorted(
        (at - datetime.fromisoformat(one["creationTime"]).timestamp()) * 1000 for at, one in results
    )


def test_a_frozen_disk_delays_no_result_and_no_stop(
    tmp_path: Path, mosquitto: Mosquitto, run: Run, disk: Disk
) -> None:
    path = write_site(tmp_path, mosquitto, EVERYTHING)
    stamped = Stamped(mosquitto, RESULTS, tmp_path / "results.txt")
    events = ForeignSubscriber(mosquitto, EVENTS)
    running = run(path)
    until(lambda: len(stamped.results) > 30, 30)
    well = stamped.results
    disk.mounted.freeze()
    frozen_at = time.time()
    time.sleep(3)  # how long the disk hangs
    during = [(at, one) for at, one in stamped.results if at > frozen_at]
    # 25 a second, as before
    assert len(during) > 50
    assert _after_ms(during)[len(during) // 2] < max(_after_ms(well)[len(well) // 2], 50) + 50
    assert _after_ms(during)[-1] < 1000
    events.wait(lambda got: any(one.json["kind"] == "evidence_stopped" for one in got))
    start_s = time.monotonic()
    running.process.send_signal(signal.SIGTERM)
    # what the kernel holds cannot exit, but all else is over in time
    until(lambda: "in the outbox" in running.log or "did not" in running.log or stopped(mosquitto), 6)
    assert time.monotonic() - start_s < 5
    disk.mounted.thaw()
    assert running.wait(10) == 0, running.log
    results = [one for _, one in stamped.results]
    assert [one["seq"] for one in results] == list(range(1, len(results) + 1))
    lost = {one.json["data"]["resultId"] for one in events.messages() if one.json["kind"] == "evidence_lost"}
    missing = {one["resultId"] for one in results if "image" in one and not _there(one["image"])}
    assert missing <= lost
    stamped.close()
    events.close()


def stopped(broker: Mosquitto) -> bool:
    """Whether the service said goodbye."""
    return "Received DISCONNECT from edge-infer" in broker.log


def _there(image: dict[str, Any]) -> bool:
    return Path(image["uri"].removeprefix("file://")).exists()


def test_four_stations_at_full_rate_with_a_disk_that_hangs_need_bounded_memory(
    tmp_path: Path, run: Run, disk: Disk
) -> None:
    station = {"camera": "scene", "model": "m", "rules": [NOTHING_FOUND]}
    path = write_site(
        tmp_path,
        None,
        EVERYTHING,
        cameras={"scene": {"type": "synthetic", "fps": 50, "seed": 1}},
        stations={f"s{number}": station for number in range(4)},
    )
    running = run(path)
    until(lambda: len(pictures(disk.mounted.path)) > 20, 30)
    process = psutil.Process(running.process.pid)
    before = process.memory_info().rss
    disk.mounted.freeze()
    highest = 0
    until_s = time.monotonic() + 6
    while time.monotonic() < until_s:
        highest = max(highest, process.memory_info().rss)
        time.sleep(0.1)
    disk.mounted.thaw()
    # 32 MB of encoded pictures, a few frames
    assert highest - before < 60e6
    assert running.stop() == 0, running.log


def test_a_start_does_not_wait_for_many_old_pictures(tmp_path: Path, mosquitto: Mosquitto, run: Run) -> None:
    store = tmp_path / "state/evidence"
    first = lay(store, timedelta(days=2), size=1)
    for number in range(30_000):
        os.link(
            first,
            first.with_name(f"01a2a3a4-{number >> 12:04x}-7{number & 0xFFF:03x}-8000-000000000000-raw.jpg"),
        )
    path = write_site(tmp_path, mosquitto, EVERYTHING)
    subscriber = ForeignSubscriber(mosquitto, RESULTS)
    running = run(path)
    subscriber.wait(lambda got: any("image" in one.json for one in got), timeout_s=30)
    image = next(one.json["image"] for one in subscriber.messages() if "image" in one.json)
    until(lambda: _there(image), 15)
    assert running.stop() == 0, running.log
    subscriber.close()
