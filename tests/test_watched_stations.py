"""A watched folder in the running service: killed between pictures, stopped, judged by two stations."""

from __future__ import annotations

import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from tests.support.mosquitto import Mosquitto
from tests.support.running import Arrived, ForeignSubscriber
from tests.support.runs import NO_BOTTLE, RESULTS, Run, Subscribe, site, whole

EACH = {"camera": "box", "model": "m", "rules": [NO_BOTTLE], "trigger": {"type": "camera"}}


def put(folder: Path, *numbers: int) -> None:
    # an even picture shows nothing to judge
    pixels = np.full((48, 64, 3), 80, np.uint8)
    pixels[24:, 32:] = 140
    data = cv2.imencode(".png", pixels)[1].tobytes()
    for number in numbers:
        part = folder / f".{number}.part"
        part.write_bytes(data)
        part.rename(folder / f"{number}.png")


def watching(tmp_path: Path, broker: Mosquitto | None, stations: dict[str, Any], **more: Any) -> Path:
    (tmp_path / "in").mkdir()
    box = {"type": "files", "path": "in", "watch": True, "settle_s": 0.5, **more}
    return site(tmp_path, broker, cameras={"box": box}, stations=stations)


def parts(messages: list[Arrived], station: str = "cap") -> Counter[str]:
    """How often each was judged; what the broker was sent twice counts once."""
    told = {one.json["resultId"]: one.json["partId"] for one in messages if one.json["station"] == station}
    return Counter(told.values())


def has(*numbers: int) -> Callable[[Any], bool]:
    wanted = {f"{number}.png" for number in numbers}
    return lambda got: wanted <= set(parts(list(got)))


def judged(tmp_path: Path) -> int:
    return len(list((tmp_path / "done").glob("*.png")))


def until(so: Callable[[], bool]) -> None:
    end_s = time.monotonic() + 20
    while not so():
        assert time.monotonic() < end_s
        time.sleep(0.05)


def results(heard: ForeignSubscriber) -> list[Arrived]:
    return heard.messages("/result")


def test_each_picture_is_a_part_by_its_name_and_over_a_stop_each_is_judged_once(
    tmp_path: Path, mosquitto: Mosquitto, run: Run, subscribe: Subscribe
) -> None:
    heard = subscribe(mosquitto, RESULTS)
    path = watching(tmp_path, mosquitto, {"cap": EACH, "rim": EACH | {"trigger": {"type": "continuous"}}})
    put(tmp_path / "in", *range(20))
    running = run(path)
    heard.wait(has(*range(20)), "cap/result")
    put(tmp_path / "in", *range(20, 30))
    heard.wait(has(*range(30)), "cap/result")
    assert running.stop() == 0, running.log
    put(tmp_path / "in", 30)
    again = run(path)
    heard.wait(has(*range(31)), "cap/result")
    put(tmp_path / "in", 31)
    heard.wait(has(31), "cap/result")
    assert again.stop() == 0, again.log
    told = results(heard)
    assert parts(told) == Counter({f"{number}.png": 1 for number in range(32)})
    assert sum(one.json["station"] == "rim" for one in told) == 32
    assert {one.json["decision"] for one in told} == {"OK"}
    assert [one.json["partId"] for one in told if one.json["station"] == "cap"][:3] == [
        "0.png",
        "1.png",
        "2.png",
    ]
    whole(told)


def test_killed_again_and_again_no_picture_is_lost_and_few_are_judged_twice(
    tmp_path: Path, mosquitto: Mosquitto, run: Run, subscribe: Subscribe
) -> None:
    heard = subscribe(mosquitto, RESULTS)
    path = watching(tmp_path, mosquitto, {"cap": EACH}, done="done")
    stop = threading.Event()

    def write() -> None:
        number = 0
        while not stop.wait(0.01):
            put(tmp_path / "in", number)
            number += 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for round_ in range(3):
            before = judged(tmp_path)
            running = run(path)
            until(lambda before=before: judged(tmp_path) > before + 30)  # type: ignore[misc]
            time.sleep(0.05 * round_)
            running.process.send_signal(signal.SIGKILL)
            running.process.wait(5)
    finally:
        stop.set()
        writer.join()
    written = sorted(
        {one.name for folder in ("in", "done") for one in (tmp_path / folder).glob("*.png")},
        key=lambda name: int(name[:-4]),
    )
    running = run(path)
    until(lambda: not list((tmp_path / "in").glob("*.png")))
    until(lambda: set(written) <= set(parts(results(heard))))
    assert running.stop() == 0, running.log
    assert not list((tmp_path / "in").glob("*.png"))
    counted = parts(results(heard))
    assert set(counted) == set(written)
    assert sum(counted.values()) - len(counted) <= 3 * 64
    whole(results(heard))


def test_a_folder_that_is_not_there_yet_is_waited_for(
    tmp_path: Path, mosquitto: Mosquitto, run: Run, subscribe: Subscribe
) -> None:
    heard = subscribe(mosquitto, "#")
    path = watching(tmp_path, mosquitto, {"cap": EACH})
    (tmp_path / "in").rmdir()
    running = run(path)
    heard.wait(lambda got: any(one.json["data"].get("state") == "lost" for one in got), "/event")
    (tmp_path / "in").mkdir()
    put(tmp_path / "in", 1)
    heard.wait(lambda got: any(one.json.get("partId") == "1.png" for one in got), "cap/result")
    assert running.stop() == 0, running.log


@pytest.mark.parametrize("publish", ["change", "every"])
def test_a_station_that_publishes_changes_only_judges_none_twice(
    tmp_path: Path, mosquitto: Mosquitto, run: Run, subscribe: Subscribe, publish: str
) -> None:
    heard = subscribe(mosquitto, RESULTS)
    station = EACH | {"trigger": {"type": "continuous"}, "publish": publish}
    path = watching(tmp_path, mosquitto, {"cap": station}, done="done")
    put(tmp_path / "in", *range(10))
    running = run(path)
    heard.wait(lambda got: len(got) >= 1, "cap/result")
    until(lambda: judged(tmp_path) == 10)
    assert running.stop() == 0, running.log
    assert len(results(heard)) == (1 if publish == "change" else 10)
