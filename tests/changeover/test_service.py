"""Recipes and reloads as the operating system and a foreign subscriber see them."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from edge_infer.changeover.choices import Choice, ChoicesFile
from tests.support.mosquitto import Mosquitto
from tests.support.running import Arrived
from tests.support.runs import NO_BOTTLE, RESULTS, Run, Subscribe, site, whole

PREFIX = "vision/v1/plant1/l3/ipc7/#"


def choose(folder: Path, **recipes: str) -> None:
    """As an earlier run of the service did, by station."""
    (folder / "state").mkdir()
    ChoicesFile(folder / "state").store({name: Choice(recipe=recipe) for name, recipe in recipes.items()})


def write_rules(path: Path, rule: dict[str, Any]) -> None:
    """Into the site that is there."""
    data = yaml.safe_load(path.read_text())
    data["stations"]["cap"]["rules"] = [rule]
    path.write_text(yaml.safe_dump(data, sort_keys=False))


def events(messages: Sequence[Arrived], kind: str) -> list[dict[str, Any]]:
    """The data of the events of a kind."""
    return [one.json["data"] for one in messages if one.json["kind"] == kind]


def test_sighup_reloads_rules_between_two_inspections_and_says_so(
    tmp_path: Path, mosquitto: Mosquitto, run: Run, subscribe: Subscribe
) -> None:
    subscriber = subscribe(mosquitto, PREFIX)
    path = site(tmp_path / "a", mosquitto)
    running = run(path)
    subscriber.wait(lambda got: len(got) > 3, "/result")
    write_rules(path, NO_BOTTLE | {"name": "new"})
    running.process.send_signal(signal.SIGHUP)
    subscriber.wait(lambda got: got[-1].json["rules"][0]["name"] == "new", "/result")
    subscriber.wait(lambda got: len(events(got, "configuration_loaded")) == 2, "/event")
    assert running.stop() == 0, running.log
    results = [one.json for one in subscriber.messages("/result")]
    whole(subscriber.messages("/result"))
    told = [(one["rules"][0]["name"], one["internalConfigurationId"]["hash"]) for one in results]
    # one swap: first all by the old, then all by the new
    assert len(set(told)) == 2
    assert told == sorted(told, key=lambda one: one[0] == "new")
    loaded = events(subscriber.messages("/event"), "configuration_loaded")[-1]
    assert (loaded["by"], loaded["changed"]) == ("SIGHUP", ["stations.cap.rules"])
    assert loaded["sha256"] == told[-1][1]
    assert "changed: stations.cap.rules" in running.log


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("at_least: 1", "at_least: -1", "stations.cap.rules[0].count.at_least"),
        ("fps: 20", "fps: 10", "needs a restart: cameras.scene;"),
    ],
)
def test_sighup_with_what_cannot_run_changes_nothing_and_says_why(
    tmp_path: Path, mosquitto: Mosquitto, run: Run, subscribe: Subscribe, *, old: str, new: str, words: str
) -> None:
    subscriber = subscribe(mosquitto, PREFIX)
    path = site(tmp_path / "a", mosquitto)
    running = run(path)
    subscriber.wait(lambda got: len(got) > 3, "/result")
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    running.process.send_signal(signal.SIGHUP)
    subscriber.wait(lambda got: bool(events(got, "configuration_refused")), "/event")
    before = len(subscriber.messages("/result"))
    subscriber.wait(lambda got: len(got) > before + 3, "/result")
    assert running.stop() == 0, running.log
    assert len({one.json["internalConfigurationId"]["hash"] for one in subscriber.messages("/result")}) == 1
    (refused,) = events(subscriber.messages("/event"), "configuration_refused")
    assert words in refused["mistakes"][0]
    assert words in running.log


def test_a_sighup_while_it_starts_is_not_lost(
    tmp_path: Path, mosquitto: Mosquitto, run: Run, subscribe: Subscribe
) -> None:
    subscriber = subscribe(mosquitto, PREFIX)
    running = run(site(tmp_path / "a", mosquitto))
    running.handles(signal.SIGHUP)
    running.process.send_signal(signal.SIGHUP)
    subscriber.wait(lambda got: len(events(got, "configuration_loaded")) == 2, "/event")
    assert running.stop() == 0, running.log


def test_a_selected_recipe_is_in_every_result_also_after_kill_9(
    tmp_path: Path, mosquitto: Mosquitto, run: Run, subscribe: Subscribe
) -> None:
    subscriber = subscribe(mosquitto, RESULTS)
    path = site(tmp_path / "a", mosquitto, recipes={"small": {"cap": {"rules": [NO_BOTTLE]}}})
    choose(tmp_path / "a", cap="small")
    for times in (1, 2):
        running = run(path)
        subscriber.wait(lambda got, times=times: len(got) > 5 * times)  # type: ignore[misc]
        running.kill()
    results = [one.json for one in subscriber.messages()]
    assert {one["externalRecipeId"]["id"] for one in results} == {"small"}
    whole(subscriber.messages())


def test_a_recipe_that_is_gone_is_undefined_and_the_other_stations_run(
    tmp_path: Path, mosquitto: Mosquitto, run: Run, subscribe: Subscribe
) -> None:
    subscriber = subscribe(mosquitto, RESULTS)
    station = {"camera": "scene", "model": "m", "rules": [NO_BOTTLE]}
    path = site(tmp_path / "a", mosquitto, frames=20, stations={"cap": station, "other": station})
    choose(tmp_path / "a", cap="small")
    running = run(path)
    assert running.wait() == 0, running.log
    subscriber.wait(lambda got: len(got) >= 21)
    results = [one.json for one in subscriber.messages()]
    (undefined,) = [one for one in results if one["station"] == "cap"]
    assert (undefined["decision"], undefined["externalRecipeId"]["id"]) == ("UNDEFINED", "small")
    assert undefined["reasons"][0]["code"] == "rule_not_evaluable"
    assert "the recipe small is selected" in running.log
    assert [one["decision"] for one in results if one["station"] == "other"] == ["OK"] * 20
