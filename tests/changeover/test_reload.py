"""A new configuration on stations that run, with real networks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from edge_infer.engine import Engine
from edge_infer.errors import ConfigError, EdgeInferError
from edge_infer.frame import Frame
from edge_infer.imagehealth.commissioning import commission
from edge_infer.imagehealth.reference import path_of, store
from tests.support.changeovers import (
    BY,
    HAS_CAP,
    NO_BOTTLE,
    Rig,
    edit,
    running,
    site_data,
    stations,
    told,
    write,
)
from tests.support.filesystems import tmpfs
from tests.support.frames import frame


def test_a_reload_changes_rules_and_recipes_and_the_hash_of_every_later_result(
    rig: Rig, bottle: Frame
) -> None:
    rig.see(bottle)
    edit(
        rig,
        stations=stations(cap={"rules": [NO_BOTTLE]}),
        recipes={"small": {"other": {"rules": [HAS_CAP]}}, "night": {"cap": {"hold_s": 1}}},
    )
    changed = rig.reload()
    assert list(changed) == [
        "stations.cap.rules", "recipes.small.cap", "recipes.small.other", "recipes.large", "recipes.night",
    ]  # fmt: skip
    rig.see(bottle)
    assert told(rig.last("cap")) == (None, "no-bottle", "NOK")
    for results in rig.results.values():
        before, after = (one.internal_configuration_id.hash for one in results)
        assert before != after
    kind, station, data = rig.events[-1]
    assert (kind, station, data["by"]) == ("configuration_loaded", None, BY)
    assert data["changed"] == list(changed)
    assert data["sha256"] == rig.last("film").internal_configuration_id.hash
    rig.changeover.select_recipe("cap", "night", by=BY)


def test_a_reload_keeps_what_was_selected(rig: Rig, bottle: Frame) -> None:
    rig.changeover.select_recipe("cap", "small", by=BY)
    rig.changeover.set_threshold("other", "has-cap", 0.9, by=BY)
    edit(rig, recipes={"small": {"cap": {"rules": [HAS_CAP]}}})
    rig.reload()
    rig.see(bottle, "cap")
    assert told(rig.last("cap")) == ("small", "has-cap", "OK")
    assert rig.stations["other"].settings.rules[0].count.min_score == 0.9
    edit(rig, recipes={})
    rig.reload()
    rig.see(bottle)
    assert told(rig.last("cap")) == ("small", None, "UNDEFINED")
    assert rig.last("other").decision != "UNDEFINED"


def test_a_station_that_judges_as_before_keeps_its_memory(rig: Rig) -> None:
    memory = {name: station.setup.memory for name, station in rig.stations.items()}
    edit(rig, stations=stations(cap={"confirm": {"k": 1, "n": 2}}))
    rig.reload()
    kept = [name for name, station in rig.stations.items() if station.setup.memory is memory[name]]
    assert kept == ["other", "film"]


def test_a_wrong_configuration_changes_nothing_and_is_told_whole(rig: Rig, bottle: Frame) -> None:
    edit(
        rig,
        stations=stations(cap={"rules": [NO_BOTTLE]}, other={"hold_s": -1}),
        recipes={"small": {"cup": {"hold_s": 1}}},
    )
    before = [station.setup for station in rig.stations.values()]
    with pytest.raises(ConfigError) as caught:
        rig.reload()
    assert [one.key for one in caught.value.mistakes] == ["stations.other.hold_s", "recipes.small.cup"]
    assert [station.setup for station in rig.stations.values()] == before
    kind, _, data = rig.events[-1]
    assert (kind, data["by"], len(data["mistakes"])) == ("configuration_refused", BY, 2)
    assert "site.yaml" in data["mistakes"][0]
    rig.path.unlink()
    with pytest.raises(ConfigError):
        rig.reload()
    rig.see(bottle, "cap")
    assert told(rig.last("cap")) == (None, "has-cap", "OK")


@pytest.mark.parametrize(
    ("change", "keys"),
    [
        ({"line": "l4"}, ["line"]),
        ({"mqtt": {"host": "127.0.0.1", "port": 1884}}, ["mqtt.port"]),
        ({"outbox": {"max_rows": 5, "commit": "normal"}}, ["outbox.commit"]),
        ({"evidence": {}}, ["evidence"]),
        ({"state_dir": "elsewhere"}, ["state_dir"]),
        ({"site": "plant2", "metrics": {"port": 9999}}, ["site", "metrics"]),
    ],
)
def test_what_needs_a_restart_is_refused_by_its_key_and_changes_nothing(
    rig: Rig, change: dict[str, Any], keys: list[str]
) -> None:
    edit(rig, **{"stations": stations(cap={"rules": [NO_BOTTLE]})} | change)
    before = [station.setup for station in rig.stations.values()]
    with pytest.raises(EdgeInferError) as caught:
        rig.reload()
    assert f"needs a restart: {', '.join(keys)}; " in str(caught.value)
    assert [station.setup for station in rig.stations.values()] == before
    assert rig.kinds() == ["configuration_refused"]


def test_a_model_that_was_not_used_before_is_loaded(tmp_path: Path, state: Path) -> None:
    data = site_data()
    del data["recipes"]["large"]
    path = write(tmp_path / "a", data)
    with running(path, state) as rig:
        edit(path)
        assert list(rig.reload()) == ["recipes.large"]
        rig.changeover.select_recipe("cap", "large", by=BY)
        assert rig.stations["cap"].identity.backend == "openvino"


def test_a_recipe_that_was_there_at_the_start_may_go_and_come_back(rig: Rig) -> None:
    edit(rig, recipes={})
    rig.reload()
    edit(rig)
    rig.reload()
    rig.changeover.select_recipe("cap", "large", by=BY)
    assert isinstance(rig.stations["cap"].setup.engine, Engine)


def test_a_reload_that_cannot_be_stored_changes_nothing(tmp_path: Path, site: Path) -> None:
    disk = tmpfs(tmp_path / "disk", "1m")
    try:
        with running(site, disk.path) as rig:
            rig.changeover.set_threshold("cap", "has-cap", 0.9, by=BY)
            disk.fill()
            edit(rig, stations=stations(cap={"rules": [NO_BOTTLE]}))
            before = [station.setup for station in rig.stations.values()]
            with pytest.raises(EdgeInferError, match="nothing was changed"):
                rig.reload()
            assert [station.setup for station in rig.stations.values()] == before
    finally:
        disk.close()


def test_a_reload_takes_up_what_was_commissioned_meanwhile(rig: Rig, state: Path) -> None:
    before = rig.stations["film"].setup
    frames = [replace(frame(seq), seq=seq) for seq in range(1, 7)]
    store(path_of(state, "cap"), commission(frames, (0, 0, 200, 100), frames[0].captured_at))
    rig.reload()
    assert rig.stations["cap"].setup.reference is not None
    # the others remember what they did
    assert rig.stations["film"].setup.health is before.health


def test_a_reload_takes_up_a_lens_that_was_calibrated_again(rig: Rig) -> None:
    path = rig.path.with_name("lens.yaml")

    def calibrate(k1: float) -> None:
        path.write_text(
            "image_width: 200\nimage_height: 100\ncamera_matrix: [100, 0, 100, 0, 100, 50, 0, 0, 1]\n"
            f"distortion_coefficients: [{k1}, 0, 0, 0]\n"
        )

    calibrate(-0.1)
    data = site_data()
    data["stations"]["cap"]["undistort"] = "lens.yaml"
    edit(rig, stations=data["stations"])
    rig.reload()
    first = rig.stations["cap"].setup
    rig.reload()
    assert rig.stations["cap"].setup.memory is first.memory
    calibrate(-0.2)
    rig.reload()
    lens = rig.stations["cap"].setup.lens
    assert lens is not None
    assert lens.coefficients[0] == -0.2
