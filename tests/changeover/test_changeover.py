"""Recipes and thresholds on stations that run, with real networks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from edge_infer.changeover.choices import ChoicesFile
from edge_infer.errors import EdgeInferError
from edge_infer.frame import Frame
from edge_infer.messages.kinds import KINDS
from tests.support.changeovers import (
    BY,
    HAS_CAP,
    NO_BOTTLE,
    Rig,
    edit,
    on_disk,
    running,
    site_data,
    stations,
    told,
    write,
)
from tests.support.filesystems import tmpfs
from tests.support.frames import frame

# -- recipes


def test_a_selected_recipe_judges_the_next_inspection_and_is_named_by_its_results(
    rig: Rig, bottle: Frame, state: Path
) -> None:
    rig.see(bottle)
    rig.changeover.select_recipe("cap", "small", by=BY)
    rig.see(bottle)
    rig.changeover.select_recipe("cap", None, by=BY)
    rig.see(bottle)
    assert [told(one) for one in rig.results["cap"]] == [
        (None, "has-cap", "OK"),
        ("small", "no-bottle", "NOK"),
        (None, "has-cap", "OK"),
    ]
    first, small, last = (one.internal_recipe_id.hash for one in rig.results["cap"])
    assert first == last != small
    assert [told(one) for one in rig.results["other"]] == [(None, "has-cap", "OK")] * 3
    assert on_disk(state) == {"cap": {}}
    assert rig.events == [
        ("recipe_selected", "cap", {"recipe": "small", "before": None, "by": BY}),
        ("recipe_selected", "cap", {"recipe": None, "before": "small", "by": BY}),
    ]


def test_a_recipe_with_another_network_is_judged_by_it(rig: Rig, bottle: Frame) -> None:
    rig.changeover.select_recipe("cap", "large", by=BY)
    rig.see(bottle)
    result = rig.last("cap")
    assert (result.backend, result.decision) == ("openvino", "OK")
    assert rig.last("other").backend == "onnxruntime"


def test_a_selection_is_kept_over_a_restart(site: Path, state: Path, bottle: Frame) -> None:
    with running(site, state) as first:
        first.changeover.select_recipe("cap", "small", by=BY)
        first.changeover.set_threshold("cap", "no-bottle", 0.99, by=BY)
    with running(site, state) as second:
        second.see(bottle, "cap", "other")
        assert told(second.last("cap"))[:2] == ("small", "no-bottle")
        assert told(second.last("other")) == (None, "has-cap", "OK")
        assert second.stations["cap"].settings.rules[0].count.min_score == 0.99
        assert second.events == []


@pytest.mark.parametrize(
    ("station", "recipe", "words"),
    [
        ("cap", "smal", 'did you mean "small"'),
        ("film", "small", "the station film has no recipe small"),
        ("other", "large", "no recipe large; known: small"),
        ("cup", "small", 'there is no station cup; did you mean "cap"'),
        ("cap", "sm\nall" * 99, "\\n"),
    ],
)
def test_a_recipe_that_the_station_does_not_have_is_refused_and_changes_nothing(
    rig: Rig, state: Path, station: str, recipe: str, words: str
) -> None:
    with pytest.raises(EdgeInferError) as caught:
        rig.changeover.select_recipe(station, recipe, by=BY)
    assert words in str(caught.value)
    assert len(str(caught.value)) < 300
    assert not (state / "choices.json").exists()
    assert rig.events == []


def test_a_model_that_fails_makes_only_its_recipes_unavailable(
    tmp_path: Path, state: Path, bottle: Frame
) -> None:
    data = site_data()
    data["models"]["again"] = {"path": "broken.onnx"}
    path = write(tmp_path / "a", data)
    (path.parent / "broken.onnx").write_bytes(b"no network")
    with running(path, state) as rig:
        assert rig.kinds() == ["model_failed"]
        with pytest.raises(EdgeInferError, match=r"the recipe large is not available: .*broken.onnx"):
            rig.changeover.select_recipe("cap", "large", by=BY)
        rig.changeover.select_recipe("cap", "small", by=BY)
        rig.see(bottle, "cap")
        assert told(rig.last("cap")) == ("small", "no-bottle", "NOK")


def test_a_stored_recipe_whose_model_fails_at_the_start_is_undefined(tmp_path: Path, state: Path) -> None:
    path = write(tmp_path / "a", site_data())
    with running(path, state) as rig:
        rig.changeover.select_recipe("cap", "large", by=BY)
    data = site_data()
    data["models"]["again"] = {"path": "broken.onnx"}
    write(path.parent, data)
    (path.parent / "broken.onnx").write_bytes(b"no network")
    with running(path, state) as rig:
        (result,) = rig.results["cap"]
        assert told(result) == ("large", None, "UNDEFINED")
        assert result.reasons[0].code == "backend_failed"


def test_a_stored_recipe_that_is_gone_is_undefined_until_one_is_selected_and_the_others_run(
    site: Path, state: Path, bottle: Frame
) -> None:
    with running(site, state) as rig:
        rig.changeover.select_recipe("cap", "small", by=BY)
    edit(site, recipes={"large": site_data()["recipes"]["large"]})
    for _ in range(2):
        with running(site, state) as rig:
            rig.see(bottle)
            (result,) = rig.results["cap"]
            assert told(result) == ("small", None, "UNDEFINED")
            assert result.internal_recipe_id.hash is None
            (reason,) = result.reasons
            assert reason.code == "rule_not_evaluable"
            assert "the recipe small is selected" in reason.text
            assert "select another one" in reason.text
            assert told(rig.last("other")) == (None, "has-cap", "OK")
    with running(site, state) as rig:
        with pytest.raises(EdgeInferError, match="judges nothing"):
            rig.changeover.set_threshold("cap", "has-cap", 0.9, by=BY)
        rig.changeover.select_recipe("cap", None, by=BY)
        rig.see(bottle)
        assert told(rig.last("cap")) == (None, "has-cap", "OK")


def test_an_unreadable_file_leaves_stations_with_recipes_undefined_until_one_is_selected(
    site: Path, state: Path, bottle: Frame, caplog: pytest.LogCaptureFixture
) -> None:
    ChoicesFile(state).path.write_bytes(b"\x00" * 100)
    with running(site, state) as rig:
        rig.see(bottle)
        assert rig.kinds() == ["choices_damaged"]
        assert "cannot be read" in caplog.text
        assert "select one" in rig.results["cap"][0].reasons[0].text
        # no recipes: there was nothing to choose
        assert rig.last("film").decision != "UNDEFINED"
    # the next start does not forget that nobody knows
    with running(site, state) as rig:
        rig.see(bottle)
        assert [one.decision for one in rig.results["cap"]] == ["UNDEFINED"]
        rig.changeover.select_recipe("cap", "small", by=BY)
        rig.see(bottle)
        assert told(rig.last("cap")) == ("small", "no-bottle", "NOK")
        assert rig.last("other").decision == "UNDEFINED"


# -- thresholds


def test_a_threshold_is_in_force_from_the_next_inspection_and_in_the_hash(rig: Rig, bottle: Frame) -> None:
    rig.see(bottle, "cap")
    rig.changeover.set_threshold("cap", "has-cap", 1.0, by=BY)
    rig.see(bottle, "cap")
    rig.changeover.set_threshold("cap", "has-cap", 0.5, by=BY)
    rig.see(bottle, "cap")
    assert [one.decision for one in rig.results["cap"]] == ["OK", "NOK", "OK"]
    first, second, third = (one.internal_recipe_id.hash for one in rig.results["cap"])
    assert first == third != second
    assert [data for _, _, data in rig.events] == [
        {"rule": "has-cap", "value": 1.0, "before": 0.5, "by": BY},
        {"rule": "has-cap", "value": 0.5, "before": 1.0, "by": BY},
    ]


def test_an_anomaly_threshold_is_in_force_from_the_next_inspection(rig: Rig) -> None:
    # its brightest pixel is 114 of 255
    grey = frame(1)
    rig.see(grey, "film")
    rig.changeover.set_threshold("film", None, 0.4, by=BY)
    rig.see(grey, "film")
    assert [one.decision for one in rig.results["film"]] == ["OK", "NOK"]
    content = rig.last("film").result_content[0].model_dump()
    assert content["threshold"] == 0.4
    assert content["hot_box"] is not None
    assert rig.events == [
        ("threshold_changed", "film", {"rule": None, "value": 0.4, "before": None, "by": BY})
    ]


@pytest.mark.parametrize(
    ("station", "rule", "value", "words"),
    [
        ("cap", "has-cap", 0.3, "would have no effect: the model bottles drops everything below"),
        ("cap", "has-cap", 1.5, "lies in 0..1"),
        ("cap", "has-cap", float("nan"), "lies in 0..1"),
        ("cap", "has-cup", 0.9, 'did you mean "has-cap"'),
        ("cap", None, 0.9, "finds no anomalies"),
        ("film", "has-cap", 0.9, "no rule has-cap"),
        ("cup", None, 0.9, "no station cup"),
    ],
)
def test_a_threshold_without_effect_is_refused_with_the_reason(
    rig: Rig, state: Path, *, station: str, rule: str | None, value: float, words: str
) -> None:
    with pytest.raises(EdgeInferError) as caught:
        rig.changeover.set_threshold(station, rule, value, by=BY)
    assert words in str(caught.value)
    assert not (state / "choices.json").exists()
    assert rig.events == []


def test_selecting_a_recipe_drops_thresholds(rig: Rig, state: Path) -> None:
    rig.changeover.set_threshold("cap", "has-cap", 0.9, by=BY)
    assert on_disk(state) == {"cap": {"min_scores": {"has-cap": 0.9}}}
    rig.changeover.select_recipe("cap", "small", by=BY)
    rig.changeover.select_recipe("cap", None, by=BY)
    assert on_disk(state) == {"cap": {}}
    assert rig.stations["cap"].settings.rules[0].count.min_score == 0.5


def test_a_threshold_of_a_rule_that_is_gone_is_told_and_forgotten(site: Path, state: Path) -> None:
    with running(site, state) as rig:
        rig.changeover.set_threshold("cap", "has-cap", 0.9, by=BY)
    edit(site, stations=stations(cap={"rules": [NO_BOTTLE]}))
    with running(site, state) as rig:
        assert rig.events == [("threshold_dropped", "cap", {"rule": "has-cap", "value": 0.9})]
        assert on_disk(state) == {"cap": {}}


# -- stored first


def test_on_a_disk_that_takes_nothing_the_command_fails_and_nothing_changes(
    tmp_path: Path, site: Path, bottle: Frame
) -> None:
    disk = tmpfs(tmp_path / "disk", "1m")
    try:
        with running(site, disk.path) as rig:
            for trouble in ("full", "ro"):
                if trouble == "full":
                    disk.fill()
                else:
                    disk.read_only()
                with pytest.raises(EdgeInferError, match="nothing was changed"):
                    rig.changeover.select_recipe("cap", "small", by=BY)
                with pytest.raises(EdgeInferError, match="nothing was changed"):
                    rig.changeover.set_threshold("cap", "has-cap", 0.9, by=BY)
                rig.see(bottle, "cap")
                assert told(rig.last("cap")) == (None, "has-cap", "OK")
                assert rig.stations["cap"].settings.rules[0].count.min_score == 0.5
            disk.writable()
            disk.make_room()
            rig.changeover.select_recipe("cap", "small", by=BY)
            assert rig.kinds() == ["recipe_selected"]
    finally:
        disk.close()


def test_it_is_stored_before_it_judges(rig: Rig, state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    station = rig.stations["cap"]
    seen: list[Any] = []
    configure = station.configure

    def look(*arguments: Any) -> None:
        seen.append(on_disk(state))
        configure(*arguments)

    monkeypatch.setattr(station, "configure", look)
    rig.changeover.select_recipe("cap", "small", by=BY)
    rig.changeover.set_threshold("cap", "no-bottle", 0.9, by=BY)
    assert seen == [
        {"cap": {"recipe": "small"}},
        {"cap": {"recipe": "small", "min_scores": {"no-bottle": 0.9}}},
    ]


# -- told


def test_every_event_is_one_of_the_documented_kinds(site: Path, state: Path) -> None:
    ChoicesFile(state).path.write_text("no json")
    with running(site, state) as rig:
        rig.changeover.select_recipe("cap", "small", by="x" * 500 + "\n")
        rig.changeover.set_threshold("cap", "no-bottle", 0.9, by=BY)
        edit(rig, recipes={"small": {"cap": {"rules": [HAS_CAP]}}})
        rig.reload()
        edit(rig, line="l4")
        with pytest.raises(EdgeInferError):
            rig.reload()
        for kind, _, data in rig.events:
            KINDS[kind].model_validate_json(json.dumps(data))
        assert rig.kinds() == [
            "choices_damaged", "recipe_selected", "threshold_changed", "threshold_dropped",
            "configuration_loaded", "configuration_refused",
        ]  # fmt: skip
        assert len(rig.events[1][2]["by"]) == 100


def test_the_newest_frame_is_the_cameras(rig: Rig, bottle: Frame) -> None:
    assert rig.changeover.newest_frame("cap") is None
    rig.see(bottle, "cap")
    assert rig.changeover.newest_frame("cap") is bottle
    with pytest.raises(EdgeInferError, match="no station"):
        rig.changeover.newest_frame("cup")
