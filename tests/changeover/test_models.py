"""Models that are others now: verified beside those that run, swapped between two frames, or not at all."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from edge_infer.backends.onnxruntime import OnnxRuntime
from edge_infer.engine import Engine
from edge_infer.errors import ConfigError, EdgeInferError
from edge_infer.frame import Frame
from edge_infer.golden import write as write_golden
from edge_infer.model.card import ModelCard
from edge_infer.network import Network
from tests.support.changeovers import BY, Rig, running, write
from tests.support.reloads import edited, write_network
from tests.support.remote import until
from tests.support.sites import CARD, write_model

ONE = {"name": "one", "count": {"labels": ["bottle"], "at_least": 1}}


def write_site(folder: Path) -> Path:
    """Two stations on a model that finds nothing, one on another."""
    folder.mkdir(exist_ok=True)
    for name in ("a", "b"):
        write_model(folder / name)
    station = {"camera": "scene", "rules": [ONE]}
    data: dict[str, Any] = {
        "format": 1, "site": "plant1", "line": "l3", "device": "ipc7", "mqtt": {"host": "127.0.0.1"},
        "cameras": {"scene": {"type": "synthetic"}},
        "models": {"a": {"path": "a"}, "b": {"path": "b"}},
        "stations": {
            "cap": {**station, "model": "a"}, "ring": {**station, "model": "a"},
            "seal": {**station, "model": "b"},
        },
        "recipes": {"other": {"seal": {"model": "a"}}},
    }  # fmt: skip
    return write(folder, data)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    return write_site(tmp_path / "a")


def closed(engine: Engine) -> bool:
    """Whether its threads have ended."""
    return not any(thread.is_alive() for thread in engine._threads)


def judged(rig: Rig, bottle: Frame, station: str) -> tuple[str, str]:
    """Decision and network of one more result."""
    rig.see(bottle, station)
    result = rig.last(station)
    assert result.model is not None
    return result.decision, result.model.sha256


def test_a_network_that_was_replaced_in_its_folder_judges_at_every_station_and_recipe_that_uses_it(
    rig: Rig, bottle: Frame
) -> None:
    old = rig.stations["cap"].setup.engine
    kept = rig.stations["seal"].setup.engine
    assert judged(rig, bottle, "cap")[0] == "NOK"
    digest = write_network(rig.path.parent / "a", 1)
    assert list(rig.reload()) == ["models.a.network"]
    assert judged(rig, bottle, "cap") == ("OK", digest)
    assert judged(rig, bottle, "ring") == ("OK", digest)
    assert rig.stations["seal"].setup.engine is kept, "what is as before runs on"
    rig.changeover.select_recipe("seal", "other", by=BY)
    assert judged(rig, bottle, "seal") == ("OK", digest)
    assert old is not None
    until(lambda: closed(old), "the old network is closed")


def test_results_tell_two_configurations_apart_whose_file_is_the_same(rig: Rig, bottle: Frame) -> None:
    rig.see(bottle, "cap")
    card = rig.path.parent / "a" / "model.yaml"
    card.write_text(CARD.replace("tear]", "tear]\nscore_threshold: 0.5"))
    assert list(rig.reload()) == ["models.a.card"]
    rig.see(bottle, "cap")
    before, after = rig.results["cap"]
    assert before.internal_configuration_id.hash == after.internal_configuration_id.hash
    numbers = [one.internal_configuration_id.version for one in (before, after)]
    assert numbers == ["1", "2"]
    assert before.model is not None
    assert after.model is not None
    assert before.model.sha256 == after.model.sha256
    assert before.model.card_sha256 != after.model.card_sha256


def test_another_backend_and_a_folder_of_another_name_are_changes_of_the_model(
    rig: Rig, bottle: Frame
) -> None:
    engine = rig.stations["cap"].setup.engine
    (rig.path.parent / "a").rename(rig.path.parent / "c")
    edited(rig.path, models={"a": {"path": "c"}, "b": {"path": "b", "backend": {"type": "openvino"}}})
    assert list(rig.reload()) == ["models.a.path", "models.b.backend"]
    assert rig.stations["cap"].setup.engine is engine, "the same files in another place are the same model"
    rig.see(bottle, "seal")
    assert rig.last("seal").backend == "openvino"


def test_a_model_that_nobody_uses_any_more_is_closed(rig: Rig) -> None:
    old = rig.stations["seal"].setup.engine
    stations = edited(rig.path)["stations"]
    stations["seal"]["model"] = "a"
    edited(rig.path, stations=stations)
    assert list(rig.reload()) == ["stations.seal.model"]
    assert old is not None
    until(lambda: closed(old), "it is closed")
    assert rig.engines.known == {"a"}


def test_a_model_that_other_stations_want_in_another_profile_is_opened_anew_which_is_told(rig: Rig) -> None:
    old = rig.stations["cap"].setup.engine
    assert old is not None
    assert old.network.profile == "throughput"
    stations = edited(rig.path)["stations"]
    del stations["ring"]
    edited(rig.path, stations=stations, recipes={})
    assert list(rig.reload()) == ["stations.ring", "recipes.other", "models.a.profile"]
    new = rig.stations["cap"].setup.engine
    assert new is not None
    assert new.network.profile == "latency"
    until(lambda: closed(old), "the old one is closed")


def test_a_model_that_is_the_only_one_from_now_on_is_opened_anew_which_is_told(rig: Rig) -> None:
    stations = edited(rig.path)["stations"]
    del stations["ring"]
    edited(rig.path, stations=stations, recipes={})
    rig.reload()
    old = rig.stations["cap"].setup.engine
    del stations["seal"]
    edited(rig.path, stations=stations)
    # its runtime's threads may spin now
    assert list(rig.reload()) == ["stations.seal", "models.a.backend"]
    new = rig.stations["cap"].setup.engine
    assert old is not None
    assert new is not None
    assert new is not old
    assert new.network.profile == old.network.profile == "latency"
    until(lambda: closed(old), "the old one is closed")


def break_golden(folder: Path) -> None:
    """The network finds another thing in its golden picture than the card says."""
    write_network(folder, 1)
    picture = folder / "picture.png"
    import cv2
    import numpy as np

    assert cv2.imwrite(str(picture), np.full((64, 64, 3), 90, np.uint8))
    write_golden(folder, [picture])
    write_network(folder, 2)


def break_network(folder: Path) -> None:
    (folder / "model.onnx").write_bytes(b"no network")


def break_card(folder: Path) -> None:
    (folder / "model.yaml").write_text(CARD.replace("labels", "lables"))


def remove(folder: Path) -> None:
    (folder / "model.yaml").unlink()


@pytest.mark.parametrize(
    ("breaks", "words"),
    [
        (break_golden, "models.a: golden pictures"),
        (break_network, "models.a: "),
        (break_card, "a/model.yaml:4:1: lables"),
        (remove, "models.a.path: "),
    ],
)
def test_a_model_that_cannot_be_trusted_changes_nothing_anywhere(
    rig: Rig, bottle: Frame, breaks: Any, words: str
) -> None:
    rig.see(bottle)
    engines = rig.engines.now
    setups = {name: one.setup for name, one in rig.stations.items()}
    stations = edited(rig.path)["stations"]
    stations["seal"]["rules"] = [{**ONE, "name": "new"}]
    edited(rig.path, stations=stations)
    breaks(rig.path.parent / "a")
    with pytest.raises(ConfigError) as caught:
        rig.reload()
    (mistake,) = caught.value.mistakes
    assert words in str(mistake)
    assert mistake.line or breaks is remove
    assert {name: one.setup for name, one in rig.stations.items()} == setups
    assert rig.engines.now is engines
    assert rig.configurations.number == 1
    assert rig.kinds() == ["configuration_refused"]
    rig.see(bottle, "cap")
    assert rig.last("cap").decision == "NOK"


def test_all_models_that_cannot_run_are_told_at_once(rig: Rig) -> None:
    for name in ("a", "b"):
        break_network(rig.path.parent / name)
    with pytest.raises(ConfigError) as caught:
        rig.reload()
    assert [one.key for one in caught.value.mistakes] == ["models.a", "models.b"]
    assert all(one.line for one in caught.value.mistakes)


def test_a_model_that_could_not_run_before_holds_no_reload_up_and_is_tried_again(
    site: Path, tmp_path: Path, bottle: Frame
) -> None:
    good = (site.parent / "b" / "model.onnx").read_bytes()
    break_network(site.parent / "b")
    (tmp_path / "state").mkdir()
    with running(site, tmp_path / "state") as rig:
        stations = edited(rig.path)["stations"]
        stations["cap"]["rules"] = [{**ONE, "name": "new"}]
        edited(rig.path, stations=stations)
        assert list(rig.reload()) == ["stations.cap.rules"]
        assert rig.last("seal").decision == "UNDEFINED"
        (site.parent / "b" / "model.onnx").write_bytes(good)
        rig.reload()
        rig.see(bottle, "seal")
        assert rig.last("seal").decision == "NOK"


def test_a_folder_that_is_replaced_while_it_is_read_is_not_run(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = rig.path.parent / "a"
    write_network(folder, 1)
    opens = OnnxRuntime.open

    def slow(settings: OnnxRuntime, card: ModelCard, *rest: Any) -> Any:
        if card.network.parent == folder:
            write_network(folder, 2)
        return opens(settings, card, *rest)

    monkeypatch.setattr(OnnxRuntime, "open", slow)
    with pytest.raises(ConfigError, match=r"models\.a: its files were replaced while they were read"):
        rig.reload()
    monkeypatch.undo()
    rig.reload()
    assert rig.configurations.number == 2


def test_a_model_for_which_there_is_no_memory_changes_nothing(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    def greedy(_settings: OnnxRuntime, _card: ModelCard, *_: Any) -> Any:
        raise MemoryError

    write_network(rig.path.parent / "a", 1)
    monkeypatch.setattr(OnnxRuntime, "open", greedy)
    with pytest.raises(ConfigError, match="not enough memory"):
        rig.reload()
    assert rig.configurations.number == 1


def test_what_was_loaded_beside_is_closed_where_it_is_not_wanted(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    closes, close = [], Network.close

    def noted(network: Network) -> None:
        closes.append(network.identity.sha256)
        close(network)

    monkeypatch.setattr(Network, "close", noted)
    digest = write_network(rig.path.parent / "a", 1)
    break_network(rig.path.parent / "b")
    with pytest.raises(ConfigError):
        rig.reload()
    assert closes == [digest]


def test_the_old_network_finishes_what_it_has_in_hand_and_results_name_it(
    rig: Rig, bottle: Frame, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = rig.stations["cap"].setup.engine
    assert old is not None
    inside, go = threading.Event(), threading.Event()
    look = Network.look

    def held(network: Network, *arguments: Any) -> Any:
        if network is old.network:
            inside.set()
            assert go.wait(20)
        return look(network, *arguments)

    monkeypatch.setattr(Network, "look", held)
    before = old.network.identity.sha256
    rig.stations["cap"].offer(bottle)
    assert inside.wait(20)
    after = write_network(rig.path.parent / "a", 1)
    rig.reload()
    rig.stations["cap"].offer(bottle)
    time.sleep(0.2)  # long enough for a network that is closed too early
    assert not closed(old)
    go.set()
    rig.stations["cap"].end_recording()
    told = [
        (one.decision, one.model.sha256, one.internal_configuration_id.version)
        for one in rig.results["cap"]
        if one.model is not None
    ]
    assert told == [("NOK", before, "1"), ("OK", after, "2")]
    until(lambda: closed(old), "the old network is closed")


def test_a_bug_in_the_middle_of_a_change_ends_the_service(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(rig, "change", broken)
    stations = edited(rig.path)["stations"]
    del stations["ring"]
    edited(rig.path, stations=stations)
    with pytest.raises(ZeroDivisionError):
        rig.reload()
    assert isinstance(rig.changeover.failure, ZeroDivisionError)


def compile_slowly(monkeypatch: pytest.MonkeyPatch) -> tuple[threading.Event, threading.Event]:
    """Set once a model is compiled; to be set for it to go on."""
    opens, compiling, go = OnnxRuntime.open, threading.Event(), threading.Event()

    def slow(settings: OnnxRuntime, card: ModelCard, *rest: Any) -> Any:
        compiling.set()
        assert go.wait(20)
        return opens(settings, card, *rest)

    monkeypatch.setattr(OnnxRuntime, "open", slow)
    return compiling, go


def test_a_stop_while_a_model_is_compiled_changes_nothing(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    compiling, go = compile_slowly(monkeypatch)
    write_network(rig.path.parent / "a", 1)
    engines, failures = rig.engines.now, []

    def reload() -> None:
        try:
            rig.reload()
        except EdgeInferError as error:
            failures.append(error)

    thread = threading.Thread(target=reload)
    thread.start()
    assert compiling.wait(20)
    began_s = time.monotonic()
    assert rig.changeover.close(1)
    assert time.monotonic() - began_s < 1, "a stop waits for no compiler"
    go.set()
    thread.join(20)
    assert "the service stops" in str(failures[0])
    assert rig.engines.now is engines


def test_a_second_reload_waits_for_the_first_and_reads_the_file_after_it(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiling, go = compile_slowly(monkeypatch)
    write_network(rig.path.parent / "a", 1)
    done: list[list[str]] = []
    first = threading.Thread(target=lambda: done.append(list(rig.reload())))
    first.start()
    assert compiling.wait(20)
    second = threading.Thread(target=lambda: done.append(list(rig.reload())))
    second.start()
    stations = edited(rig.path)["stations"]
    stations["cap"]["rules"] = [{**ONE, "name": "new"}]
    edited(rig.path, stations=stations)
    # what compiles does not hold up those who change recipes
    rig.changeover.select_recipe("seal", None, by=BY)
    go.set()
    first.join(20)
    second.join(20)
    assert done == [["models.a.network"], ["stations.cap.rules"]]


def test_a_reload_that_changes_nothing_says_so_and_counts_no_configuration(rig: Rig) -> None:
    setups = {name: one.setup.memory for name, one in rig.stations.items()}
    assert list(rig.reload()) == []
    assert rig.configurations.number == 1
    assert {name: one.setup.memory for name, one in rig.stations.items()} == setups
    kind, _, data = rig.events[-1]
    assert (kind, data["changed"], data["number"]) == ("configuration_loaded", [], 1)
