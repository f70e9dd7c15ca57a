"""A driver that hangs or crashes in C code, in the running service: only its own camera is lost."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from tests.support.mosquitto import Mosquitto
from tests.support.running import Arrived, ForeignSubscriber, Running
from tests.support.runs import NO_BOTTLE, Run, Subscribe, site
from tests.test_run import broken

DEADLINE_MS = 500
KNOWN = "import edge_infer.sources\nedge_infer.sources.SOURCES['bad'] = 'tests.support.isolated:Bad'\n"


def start(folder: Path, broker: Mosquitto, run: Run, told: Path) -> Running:
    told.write_text("")
    cameras: dict[str, Any] = {
        "scene": {"type": "synthetic", "fps": 20, "seed": 1},
        "bad": {"type": "bad", "told": str(told), "read_timeout_s": 0.5, "open_timeout_s": 1.0},
    }
    stations = {
        name: {"camera": camera, "model": "m", "rules": [NO_BOTTLE], "deadline_ms": DEADLINE_MS}
        for name, camera in (("cap", "scene"), ("other", "bad"))
    }
    path = site(folder / "a", broker, cameras=cameras, stations=stations)
    # a site names kinds of cameras that the product knows; this one must be made known first
    assert yaml.safe_load(path.read_text())["cameras"]["bad"]["type"] == "bad"
    return run(path, **broken(folder / "known", KNOWN))


def states(heard: ForeignSubscriber) -> list[str]:
    told = [one.json["state"] for one in heard.messages("/camera/bad")]
    return [state for place, state in enumerate(told) if state != (told[place - 1] if place else None)]


def healthy(results: list[Arrived]) -> bool:
    """Each of the other station's inspections has a verdict, within its deadline."""
    return all(one.json["decision"] == "OK" and one.json["ageMs"] < DEADLINE_MS for one in results)


@pytest.mark.parametrize("word", ["hang", "crash"])
def test_the_other_station_goes_on_and_the_camera_comes_back(
    tmp_path: Path, mosquitto: Mosquitto, run: Run, subscribe: Subscribe, word: str
) -> None:
    heard = subscribe(mosquitto, "vision/v1/plant1/l3/ipc7/#")
    told = tmp_path / "told"
    running = start(tmp_path, mosquitto, run, told)
    heard.wait(lambda _: states(heard) == ["opening", "connected"], "/camera/bad")
    heard.wait(lambda got: len(got) > 5, "cap/result")
    before = len(heard.messages("cap/result"))
    told.write_text(word)
    heard.wait(lambda _: states(heard)[-1] == "lost", "/camera/bad")
    # it fails again at each attempt until it is well
    time.sleep(1.5)
    during = heard.messages("cap/result")[before:]
    told.write_text("")
    heard.wait(lambda _: states(heard)[-2:] == ["lost", "connected"], "/camera/bad")
    heard.wait(lambda got: got[-1].json["decision"] == "OK", "other/result")
    assert len(during) > 15
    assert healthy(during)
    assert running.process.poll() is None
    undefined = [one.json for one in heard.messages("other/result") if one.json["decision"] == "UNDEFINED"]
    assert {one["reasons"][0]["code"] for one in undefined} <= {"camera_lost"}
    started_s = time.monotonic()
    assert running.stop() == 0, running.log
    assert time.monotonic() - started_s < 5


def test_a_stop_while_a_driver_hangs_takes_no_longer_and_leaves_no_process(
    tmp_path: Path, mosquitto: Mosquitto, run: Run, subscribe: Subscribe
) -> None:
    heard = subscribe(mosquitto, "vision/v1/plant1/l3/ipc7/#")
    told = tmp_path / "told"
    running = start(tmp_path, mosquitto, run, told)
    heard.wait(lambda _: states(heard) == ["opening", "connected"], "/camera/bad")
    children = psutil.Process(running.process.pid).children()
    assert len(children) == 1
    told.write_text("hang")
    started_s = time.monotonic()
    assert running.stop() == 0, running.log
    assert time.monotonic() - started_s < 5
    _, alive = psutil.wait_procs(children, timeout=2)
    assert alive == []
