"""Going back to an earlier configuration, and what the operator's file has to do with it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from edge_infer.changeover.history import KEPT, site_to_run
from edge_infer.errors import ConfigError, EdgeInferError
from edge_infer.frame import Frame
from edge_infer.messages.kinds import KINDS
from tests.changeover.test_models import ONE, write_site
from tests.support.changeovers import BY, Rig, running
from tests.support.filesystems import tmpfs
from tests.support.reloads import edited, write_network
from tests.support.sites import CARD


@pytest.fixture
def site(tmp_path: Path) -> Path:
    return write_site(tmp_path / "a")


def rule(rig: Rig, name: str) -> None:
    """Write a configuration that can be told by its rule."""
    stations = edited(rig.path)["stations"]
    stations["cap"]["rules"] = [{**ONE, "name": name}]
    edited(rig.path, stations=stations)


def runs(rig: Rig) -> str:
    """The rule by which the next inspection is judged."""
    return rig.stations["cap"].settings.rules[0].name


def restarted(rig: Rig, state: Path) -> Any:
    """The site that a service started now would run."""
    return site_to_run(rig.path, state)


def test_one_command_goes_back_to_what_ran_before(rig: Rig, bottle: Frame) -> None:
    rig.see(bottle, "cap")
    rule(rig, "new")
    rig.reload()
    rig.see(bottle, "cap")
    assert list(rig.configurations.rollback(by=BY)) == ["stations.cap.rules"]
    rig.see(bottle, "cap")
    first, second, third = (one.internal_configuration_id for one in rig.results["cap"])
    assert (first.version, second.version) == ("1", "2")
    assert third == first, "the same configuration has the same number and hash again"
    kind, _, data = rig.events[-1]
    assert (kind, data["number"], data["by"]) == ("configuration_loaded", 1, BY)
    assert data["rolledBack"]["number"] == 2
    assert data["rolledBack"]["sha256"] == hashlib.sha256(rig.path.read_bytes()).hexdigest()
    for kind, _, data in rig.events:
        KINDS[kind].model_validate_json(json.dumps(data))


def test_a_file_that_was_rolled_back_from_does_not_come_back_by_itself(rig: Rig, state: Path) -> None:
    rule(rig, "bad")
    rig.reload()
    rig.configurations.rollback(by=BY)
    text = rig.path.read_bytes()
    with pytest.raises(
        EdgeInferError, match=r"rolled back from .* configuration 1 goes on; .*ctl reload --again"
    ):
        rig.reload()
    assert runs(rig) == "one"
    assert restarted(rig, state).stations["cap"].rules[0].name == "one", "nor after a restart"
    assert rig.path.read_bytes() == text, "the operator's file is his"
    rule(rig, "good")
    assert restarted(rig, state).stations["cap"].rules[0].name == "good", "the file was changed"
    rig.reload()
    assert (runs(rig), rig.configurations.number, rig.configurations.rolled_back) == ("good", 3, None)
    rig.configurations.rollback(by=BY)
    assert runs(rig) == "one", "what was left is not what to go back to"


def test_the_file_runs_as_it_is_where_somebody_says_so(rig: Rig, state: Path) -> None:
    rule(rig, "bad")
    rig.reload()
    rig.configurations.rollback(by=BY)
    rig.configurations.reload(by=BY, again=True)
    assert (runs(rig), rig.configurations.rolled_back) == ("bad", None)
    assert restarted(rig, state).stations["cap"].rules[0].name == "bad"
    rig.reload()


@pytest.mark.parametrize("away", ["edited", "broken", "gone"])
def test_going_back_holds_over_a_restart_whatever_state_the_file_was_in(
    rig: Rig, state: Path, away: str
) -> None:
    rule(rig, "bad")
    rig.reload()
    if away == "edited":
        rule(rig, "half done")
    elif away == "broken":
        rig.path.write_text("format: [")
    else:
        rig.path.unlink()
    rig.configurations.rollback(by=BY)
    site = restarted(rig, state)
    assert site.stations["cap"].rules[0].name == "one"
    assert (site.path, site.is_stored) == (rig.path, True)
    if away == "broken":
        rig.path.write_text("format: {")
        with pytest.raises(ConfigError):
            restarted(rig, state)


def test_a_service_that_starts_rolled_back_says_so_and_counts_no_new_configuration(
    site: Path, state: Path
) -> None:
    with running(site, state) as rig:
        rule(rig, "bad")
        rig.reload()
        rig.configurations.rollback(by=BY)
    # as `edge-infer run` does
    stored = site_to_run(site, state)
    with running(site, state, site=stored) as rig:
        assert (rig.configurations.number, runs(rig)) == (1, "one")
        assert rig.configurations.rolled_back is not None
        rig.configurations.loaded()
        assert rig.events[-1][2]["rolledBack"]["by"] == BY
        with pytest.raises(EdgeInferError, match="rolled back from"):
            rig.reload()
        rule(rig, "good")
        rig.reload()
        assert runs(rig) == "good"


def test_a_network_or_card_that_was_replaced_cannot_come_back_and_is_named(rig: Rig) -> None:
    good = (rig.path.parent / "a" / "model.onnx").read_bytes()
    write_network(rig.path.parent / "a", 1)
    rig.reload()
    setups = {name: one.setup for name, one in rig.stations.items()}
    with pytest.raises(
        EdgeInferError, match=r"configuration 1 cannot come back: .*: models\.a; put them back"
    ):
        rig.configurations.rollback(by=BY)
    assert {name: one.setup for name, one in rig.stations.items()} == setups
    (rig.path.parent / "a" / "model.onnx").write_bytes(good)
    rig.configurations.rollback(by=BY)
    assert rig.configurations.number == 1
    assert rig.configurations.rolled_back is None, "what lies there is what runs"
    (rig.path.parent / "b" / "model.yaml").write_text(CARD.replace("labels", "lables"))
    rule(rig, "new")
    with pytest.raises(ConfigError):
        rig.configurations.rollback(by=BY, number=2)


def test_any_configuration_that_is_kept_can_be_named(rig: Rig) -> None:
    for name in ("two", "three", "four"):
        rule(rig, name)
        rig.reload()
    rig.configurations.rollback(by=BY, number=2)
    assert runs(rig) == "two"
    for number, words in ((2, "runs already"), (9, "is not kept; kept are 4, 3, 2, 1")):
        with pytest.raises(EdgeInferError, match=words):
            rig.configurations.rollback(by=BY, number=number)
    rig.configurations.rollback(by=BY, number=3)
    assert runs(rig) == "three"


def test_what_needs_a_restart_comes_back_with_the_next_start(site: Path, state: Path) -> None:
    with running(site, state):
        pass
    edited(site, mqtt={"host": "127.0.0.2"})
    with running(site, state) as rig:
        with pytest.raises(
            EdgeInferError, match=r"restart: mqtt\.host; edge-infer ctl rollback --at-restart 1"
        ):
            rig.configurations.rollback(by=BY)
        assert restarted(rig, state).mqtt.host == "127.0.0.2"
        assert list(rig.configurations.rollback(by=BY, at_restart=True)) == []
        assert (rig.configurations.number, rig.configurations.next_start) == (2, 1)
        assert rig.kinds() == ["configuration_refused"], "nothing is another yet"
        rig.reload()
        assert restarted(rig, state).mqtt.host == "127.0.0.1", (
            "a reload that changes nothing takes it not back"
        )
        rule(rig, "good")
        rig.reload()
        assert rig.configurations.next_start is None
        assert restarted(rig, state).mqtt.host == "127.0.0.2", "a new configuration does"


def test_there_is_nothing_to_go_back_to_at_first(rig: Rig) -> None:
    with pytest.raises(EdgeInferError, match="no earlier configuration"):
        rig.configurations.rollback(by=BY)
    assert rig.kinds() == ["configuration_refused"]


def test_what_ran_before_a_restart_can_come_back(site: Path, state: Path) -> None:
    with running(site, state) as rig:
        rule(rig, "new")
    with running(site, state) as rig:
        assert rig.configurations.number == 2
        rig.configurations.rollback(by=BY)
        assert runs(rig) == "one"
    with running(site, state, site=site_to_run(site, state)) as rig:
        assert rig.configurations.number == 1


def test_configurations_are_kept_as_they_were_with_who_when_and_hash(rig: Rig, state: Path) -> None:
    first = rig.path.read_bytes()
    rule(rig, "new")
    rig.reload()
    newest, oldest = rig.configurations.history.entries()
    assert (state / "configurations" / "1.yaml").read_bytes() == first
    assert (oldest.by, newest.by) == (None, BY)
    assert newest.owner == rig.path.owner()
    assert newest.sha256 == hashlib.sha256(rig.path.read_bytes()).hexdigest()
    network = rig.path.parent / "a" / "model.onnx"
    card = rig.path.parent / "a" / "model.yaml"
    assert newest.contents.models["a"].network == hashlib.sha256(network.read_bytes()).hexdigest()
    assert newest.contents.models["a"].card == hashlib.sha256(card.read_bytes()).hexdigest()
    assert (state / "configurations").stat().st_mode & 0o077 == 0


def test_only_so_many_are_kept(rig: Rig, state: Path) -> None:
    for number in range(KEPT + 3):
        rule(rig, f"r{number}")
        rig.reload()
    assert len(rig.configurations.history.entries()) == KEPT
    assert len(list((state / "configurations").iterdir())) == 2 * KEPT + 1


def test_a_kept_file_that_was_changed_is_refused(rig: Rig, state: Path) -> None:
    rule(rig, "new")
    rig.reload()
    with (state / "configurations" / "1.yaml").open("a") as file:
        file.write("# tried\n")
    with pytest.raises(ConfigError, match=r"1\.yaml: is not what was loaded"):
        rig.configurations.rollback(by=BY)
    assert runs(rig) == "new"


def test_a_disk_that_takes_nothing_lets_nothing_change_and_lets_the_service_start(
    tmp_path: Path, site: Path, bottle: Frame
) -> None:
    disk = tmpfs(tmp_path / "disk", "1m")
    try:
        with running(site, disk.path) as rig:
            rule(rig, "new")
            rig.reload()
            disk.fill()
            setups = {name: one.setup for name, one in rig.stations.items()}
            with pytest.raises(EdgeInferError, match="nothing was changed"):
                rig.configurations.rollback(by=BY)
            rule(rig, "x")
            with pytest.raises(EdgeInferError, match="nothing was changed"):
                rig.reload()
            assert {name: one.setup for name, one in rig.stations.items()} == setups
        with running(site, disk.path) as rig:
            rig.see(bottle, "cap")
            assert rig.last("cap").internal_configuration_id.version is None
            assert (rig.last("cap").decision, runs(rig)) == ("NOK", "x")
    finally:
        disk.close()


def test_what_needs_a_secret_that_is_gone_neither_runs_nor_comes_back(rig: Rig) -> None:
    plain = edited(rig.path)["cameras"]
    guarded = {
        "scene": {
            "type": "http",
            "url": "http://127.0.0.1:9/x",
            "user": "u",
            "password": {"file": "password"},
        }
    }
    password = rig.path.parent / "password"
    password.write_text("hunter2")
    edited(rig.path, cameras=guarded)
    rig.reload()
    edited(rig.path, cameras=plain)
    rig.reload()
    password.unlink()
    for at_restart in (False, True):
        with pytest.raises(ConfigError, match=r"cameras\.scene\.password"):
            rig.configurations.rollback(by=BY, at_restart=at_restart)
    edited(rig.path, cameras=guarded)
    with pytest.raises(ConfigError, match=r"cameras\.scene\.password"):
        rig.reload()
    assert (rig.configurations.number, rig.changeover.number) == (3, 3)
    assert (rig.configurations.next_start, rig.configurations.rolled_back) == (None, None)
    state = rig.configurations.history.state()
    assert state is not None
    assert state.running == 3


def test_what_the_disk_did_not_take_whole_is_not_kept_as_one_that_ran(rig: Rig, state: Path) -> None:
    in_the_way = state / "configurations" / ".state.json.part"
    in_the_way.mkdir()
    rule(rig, "new")
    with pytest.raises(EdgeInferError, match="nothing was changed"):
        rig.reload()
    assert [one.number for one in rig.configurations.history.entries()] == [1]
    assert not (state / "configurations" / "2.yaml").exists()
    in_the_way.rmdir()
    rig.reload()
    assert rig.configurations.number == 2


def test_a_state_file_that_cannot_be_read_loses_no_configuration(site: Path, state: Path) -> None:
    with running(site, state) as rig:
        rule(rig, "new")
        rig.reload()
    (state / "configurations" / "state.json").write_text("{")
    with running(site, state, site=site_to_run(site, state)) as rig:
        assert [one.number for one in rig.configurations.history.entries()] == [2, 1]
        rig.configurations.rollback(by=BY)
        assert runs(rig) == "one"


def test_a_state_file_that_cannot_be_read_is_told_with_what_runs_instead_and_made_anew(
    site: Path, state: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with running(site, state) as rig:
        rule(rig, "new")
        rig.reload()
        rig.configurations.rollback(by=BY)
    (state / "configurations" / "state.json").write_text("{")
    with running(site, state, site=site_to_run(site, state)) as rig:
        assert runs(rig) == "new"
    assert "site.yaml runs, even if it was rolled back from; edge-infer ctl status" in caplog.text
    caplog.clear()
    with running(site, state, site=site_to_run(site, state)) as rig:
        assert rig.configurations.number == 2
    assert "state.json" not in caplog.text
