"""Many changes under full load: every inspection is judged and published by one setup, none is missing."""

from __future__ import annotations

import hashlib
import itertools
import random
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from edge_infer.errors import EdgeInferError
from edge_infer.frame import Frame
from edge_infer.outbox import Outbox
from edge_infer.outbox.settings import OutboxSettings
from edge_infer.result import Result
from edge_infer.scene import Scene
from edge_infer.station import StationSettings
from edge_infer.station.setup import Setup
from tests.support.changeovers import HAS_CAP, NO_BOTTLE, Rig, site_data, write
from tests.support.frames import frame
from tests.support.stations import part

SECONDS = 6.0
OTHER_CAP: dict[str, Any] = {**HAS_CAP, "name": "cap"}


class Recorder(Rig):
    """Notes in which order setups came and by which each result was made."""

    def __init__(self, path: Path, state_dir: Path, outbox: Outbox, *, live: set[str]) -> None:
        self.made_by: dict[str, list[tuple[Result, StationSettings]]] = {}
        self.committed: dict[str, list[Result]] = {}
        self.outbox = outbox
        super().__init__(path, state_dir, live=live)
        self.setups: dict[str, list[Setup]] = {name: [one.setup] for name, one in self.stations.items()}
        for name, station in self.stations.items():
            self._note(name, station)

    def _note(self, name: str, station: Any) -> None:
        configure = station.configure

        def noted(setup: Setup) -> None:
            self.setups[name].append(setup)
            configure(setup)

        station.configure = noted

    def publish(self, result: Result, _frame: object, _findings: object, settings: Any) -> None:
        self.made_by.setdefault(result.station, []).append((result, settings))
        self.outbox.put(f"t/{result.station}/result", result, self._committed)

    def _committed(self, result: Result) -> None:
        self.committed.setdefault(result.station, []).append(result)


def is_by(result: Result, settings: StationSettings, setup: Setup) -> bool:
    """Whether everything that the result says of itself is the setup's."""
    return (
        settings is setup.settings
        and result.external_recipe_id == setup.identity.external_recipe
        and result.internal_recipe_id == setup.identity.recipe
        and result.internal_configuration_id == setup.identity.configuration
        and (result.backend, result.model) == (setup.identity.backend, setup.identity.model)
        and [rule.name for rule in result.rules] in ([rule.name for rule in settings.rules], [])
    )


@pytest.mark.slow
def test_swaps_under_full_load_lose_double_reorder_and_mix_nothing(tmp_path: Path) -> None:
    stations: dict[str, Any] = {
        "tape": {"camera": "scene", "model": "bottles", "rules": [HAS_CAP]},
        "live": {"camera": "scene", "model": "bottles", "rules": [HAS_CAP]},
        "parts": {
            "camera": "scene", "model": "bottles", "trigger": {"type": "mqtt"}, "deadline_ms": 20_000,
            "rules": [HAS_CAP],
        },
    }  # fmt: skip
    recipes = {
        "small": {name: {"rules": [NO_BOTTLE]} for name in stations},
        "large": {name: {"model": "again", "rules": [OTHER_CAP]} for name in stations},
    }
    path = write(tmp_path / "a", site_data(stations=stations, recipes=recipes))
    reloaded = site_data(stations=stations, recipes=recipes, models=site_data()["models"])
    outbox = Outbox.open(tmp_path / "state", OutboxSettings())
    rig = Recorder(path, tmp_path / "state", outbox, live={"live", "parts"})
    scene = Scene(1, 10, 0)
    pixels = scene.pixels(scene.arrival(1))
    pixels.flags.writeable = False
    end_s = time.monotonic() + SECONDS
    failures: list[BaseException] = []
    asked: list[str] = []
    swaps = 0

    def shot(seq: int) -> Frame:
        return Frame("scene", seq, pixels, time.monotonic(), frame(1).captured_at)

    def feed(name: str, pause_s: float) -> None:
        for seq in itertools.count(1):
            if time.monotonic() > end_s:
                return
            rig.stations[name].offer(shot(seq))
            time.sleep(pause_s)

    def ask() -> None:
        for number in itertools.count(1):
            if time.monotonic() > end_s:
                break
            rig.stations["parts"].ask(part(str(number)))
            asked.append(str(number))
            time.sleep(0.02)
        rig.stations["parts"].offer(shot(10**6))

    def swap(seed: int) -> None:
        nonlocal swaps
        draw = random.Random(seed)  # noqa: S311 - no secret
        while time.monotonic() < end_s:
            name = draw.choice(list(stations))
            kind = draw.random()
            try:
                if kind < 0.6:
                    rig.changeover.select_recipe(name, draw.choice(["small", "large", None]), by="stress")
                elif kind < 0.95 or seed != 1:
                    rule = rig.stations[name].settings.rules[0].name
                    rig.changeover.set_threshold(name, rule, draw.uniform(0.5, 1), by="stress")
                else:
                    reloaded["recipes"]["large"]["tape"]["hold_s"] = draw.choice([0, 1])
                    write(path.parent, reloaded)
                    rig.reload()
            except EdgeInferError as error:
                # another thread selected a recipe in between: the rule's name is gone
                if "has no rule" not in str(error):
                    raise
            swaps += 1

    def run(work: Any, *arguments: Any) -> threading.Thread:
        def guarded() -> None:
            try:
                work(*arguments)
            except BaseException as error:  # noqa: BLE001 - raised by the test
                failures.append(error)

        thread = threading.Thread(target=guarded)
        thread.start()
        return thread

    threads = [run(feed, "tape", 0), run(feed, "live", 0.001), run(feed, "parts", 0.005), run(ask)]
    threads += [run(swap, 1), run(swap, 2)]
    for thread in threads:
        thread.join(30)
    assert failures == []
    for station in rig.stations.values():
        station.end_recording()
    rig.close()
    assert outbox.flush(10)
    outbox.close(10)
    for name, made in rig.made_by.items():
        setups, index, used = rig.setups[name], 0, set()
        for result, settings in made:
            digest = hashlib.sha256(settings.model_dump_json().encode()).hexdigest()
            assert result.internal_recipe_id.hash == digest
            if result.reasons and result.reasons[0].code == "overload":
                # told at once, past those that wait
                assert any(is_by(result, settings, one) for one in setups)
                continue
            # forward only: an older setup after a newer one is out of order
            while index < len(setups) and not is_by(result, settings, setups[index]):
                index += 1
            assert index < len(setups), f"made by no setup, or out of order: {result}"
            used.add(index)
        assert len(used) > 5, (name, len(used))
        assert [one.seq for one in rig.committed[name]] == list(range(1, len(made) + 1))
        assert len({one.stream_id for one in rig.committed[name]}) == 1
        frames = [one.frame_seq for one, _ in made if one.frame_seq is not None]
        if name == "tape":
            assert frames == list(range(1, len(frames) + 1))
            assert len(frames) == len(made)
        elif name == "live":
            assert frames == sorted(set(frames))
    answered = [one.part_id for one, _ in rig.made_by["parts"]]
    assert sorted(answered, key=lambda one: int(one or 0)) == asked
    assert swaps > 50
