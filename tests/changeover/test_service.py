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
from tests.support.remote import Asker, until
from tests.support.running import Arrived
from tests.support.runs import NO_BOTTLE, RESULTS, Run, Subscribe, site, whole
from tests.support.subscriber import Received, subscribed
from tests.test_run import broken

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
        ("host: 127.0.0.1", "host: 127.0.0.2", "needs a restart: mqtt.host;"),
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


COMPILES_FOR_EVER = """
import time, edge_infer.network, edge_infer.changeover.configurations as configurations
configurations.LOADING_S = 1.0
open_, opened = edge_infer.network.Network.open, []
def hang(*arguments):
    opened.append(arguments)
    if len(opened) > 1:
        time.sleep(3600)
    return open_(*arguments)
edge_infer.network.Network.open = hang
"""


def test_a_reload_that_does_not_come_back_is_told_and_holds_up_nobody_who_judges(
    tmp_path: Path, mosquitto: Mosquitto, run: Run, subscribe: Subscribe
) -> None:
    subscriber = subscribe(mosquitto, PREFIX)
    path = site(tmp_path / "a", mosquitto)
    running = run(path, **broken(tmp_path / "hangs", COMPILES_FOR_EVER))
    subscriber.wait(lambda got: len(got) > 3, "/result")
    (tmp_path / "a/model").rename(tmp_path / "a/moved")
    data = yaml.safe_load(path.read_text())
    data["models"]["m"] = {"path": "moved", "backend": {"type": "onnxruntime", "threads": 1}}
    path.write_text(yaml.safe_dump(data))
    running.process.send_signal(signal.SIGHUP)
    subscriber.wait(lambda got: len(events(got, "loop_hangs")) == 1, "/event")
    (hangs,) = events(subscriber.messages("/event"), "loop_hangs")
    assert hangs == {"loop": "reload of the configuration", "restart": False}
    before = len(subscriber.messages("/result"))
    subscriber.wait(lambda got: len(got) > before + 3, "/result")
    assert running.stop() == 0, running.log


ASKED_TOO_EARLY = """
import pathlib, shutil
from edge_infer.errors import EdgeInferError
from edge_infer.service import Service
listen = Service._listen
def ask(self, control):
    listen(self, control)
    path = self._site.path
    path.write_text(path.read_text().replace('path: model', 'path: other'))
    shutil.copytree(path.parent / 'model', path.parent / 'other')
    card = path.parent / 'other/model.yaml'
    card.write_text(card.read_text() + 'score_threshold: 0.1\\n')
    try:
        control.reload(by='early')
    except EdgeInferError as error:
        print('told:', error, flush=True)
Service._listen = ask
"""
"""By a command that is there before cameras and networks have begun."""


def test_a_reload_that_is_asked_for_before_the_stations_run_is_told_to_come_again(
    tmp_path: Path, mosquitto: Mosquitto, run: Run, subscribe: Subscribe
) -> None:
    subscriber = subscribe(mosquitto, PREFIX)
    running = run(site(tmp_path / "a", mosquitto), **broken(tmp_path / "early", ASKED_TOO_EARLY))
    subscriber.wait(lambda got: len(got) > 3, "/result")
    assert "told: the service is starting" in running.log
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


COMMANDS = {"allow": ["ping", "select_recipe"], "per_minute": 6000}
STATIONS = {name: {"camera": "scene", "model": "m", "rules": [NO_BOTTLE]} for name in ("cap", "other")}
COLOURS = ("red", "green", "blue")
RECIPES = {
    colour: {name: {"rules": [{**NO_BOTTLE, "name": colour}]} for name in ("cap", "other")}
    for colour in COLOURS
}


def runs(results: Sequence[Received]) -> str | None:
    """The recipe that the newest result names."""
    return str(results[-1].json.get("externalRecipeId", {}).get("id")) if results else None


def listening(asker: Asker) -> None:
    """Wait until the service that was started now answers: what came before it listened is lost."""
    before = len(asker.answered())

    def answers() -> bool:
        asker.send("ping", response_topic=asker.answers, correlation=b"listening")
        return len(asker.answered()) > before

    until(answers, "listens", 30)


def test_a_recipe_whose_selection_was_acknowledged_runs_after_kill_9(
    tmp_path: Path, mosquitto: Mosquitto, run: Run
) -> None:
    path = site(tmp_path / "a", mosquitto, stations=STATIONS, recipes=RECIPES, commands=COMMANDS)
    with subscribed(mosquitto, "vision/#") as subscriber:
        asker, selected = Asker(subscriber), None
        for colour in COLOURS:
            running = run(path)
            listening(asker)
            if selected is not None:
                # what waited in the outbox comes first
                until(lambda: runs(subscriber.on("cap/result")) == selected, f"{selected} runs")  # noqa: B023
            assert asker.ask("cap/select_recipe", {"recipeId": colour})["status"] == "ok"
            running.kill()
            selected = colour


def test_many_selections_while_every_station_works_leave_no_hole_and_mix_nothing(
    tmp_path: Path, mosquitto: Mosquitto, run: Run
) -> None:
    path = site(tmp_path / "a", mosquitto, fps=100, stations=STATIONS, recipes=RECIPES, commands=COMMANDS)
    with subscribed(mosquitto, "vision/#") as subscriber:
        running, asker = run(path), Asker(subscriber)
        listening(asker)
        for number in range(30):
            for name in ("cap", "other"):
                answer = asker.ask(f"{name}/select_recipe", {"recipeId": COLOURS[number % 3]})
                assert answer["status"] == "ok", answer
        assert running.stop() == 0, running.log
        subscriber.wait_for(lambda _: any(one.json["state"] == "stopped" for one in subscriber.on("/status")))
        for name in ("cap", "other"):
            results = [one.json for one in subscriber.on(f"{name}/result")]
            assert [one["seq"] for one in results] == list(range(1, len(results) + 1))
            hashes: dict[str | None, set[str]] = {}
            for one in results:
                recipe = one.get("externalRecipeId", {}).get("id")
                assert [rule["name"] for rule in one["rules"]] in ([recipe or NO_BOTTLE["name"]], [])
                hashes.setdefault(recipe, set()).add(one["internalRecipeId"]["hash"])
            assert set(hashes) >= set(COLOURS)
            assert all(len(each) == 1 for each in hashes.values())
            assert len(set.union(*hashes.values())) == len(hashes)
