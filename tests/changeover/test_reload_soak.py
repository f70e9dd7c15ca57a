"""Good and bad reloads one after the other under frames: every result is one configuration's, whole."""

from __future__ import annotations

import json
import random
import signal
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.changeover.test_service import PREFIX
from tests.support.mosquitto import Mosquitto
from tests.support.reloads import ctl, edited, write_network
from tests.support.running import Arrived
from tests.support.runs import Run, Subscribe, site, whole
from tests.support.sites import CARD

RELOADS = 30
GOOD = ("files", "camera")
KINDS = (*GOOD, *GOOD, "rules", "network", "card", "both")


def station(bottles: int, name: str) -> dict[str, Any]:
    """OK where the network finds so many bottles; ``name`` tells its rule apart."""
    return {
        "camera": "scene",
        "model": "m",
        "rules": [{"name": name, "count": {"labels": ["bottle"], "at_least": bottles}}],
    }


class Operator:
    """Edits, well or badly, and knows what each configuration that ran must decide."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.kept: dict[str, tuple[str, str, Any]] = {}
        """By number: the file's hash, the network's, and what is written."""
        self._draw = random.Random(7)  # noqa: S311 - no secret
        self._model = path.parent / "model"
        self.bottles = {write_network(self._model, number): number for number in (1, 2, 0)}
        """By network: what it finds."""

    def edit(self, number: int) -> str:
        """What it did."""
        draw, kind = self._draw, self._draw.choice(KINDS)
        stations = {"cap": station(draw.choice([1, 2]), f"r{number}")}
        if draw.random() < 0.7:
            stations["other"] = station(draw.choice([1, 2]), f"o{number}")
        if kind in (*GOOD, "both"):
            write_network(self._model, draw.choice([0, 1, 2]))
        if kind == "camera":
            edited(self.path, cameras={"scene": {"type": "synthetic", "fps": 100, "seed": number}})
        if kind in ("rules", "both"):
            stations["cap"]["rules"][0]["count"] = {"labels": ["botle"], "at_least": 1}
        if kind == "network":
            whole = (self._model / "model.onnx").read_bytes()
            (self._model / "model.onnx").write_bytes(whole[: len(whole) // 2])
        if kind == "card":
            (self._model / "model.yaml").write_text(CARD.replace("labels:", "lables:"))
        edited(self.path, stations=stations)
        return kind

    def mend(self) -> None:
        """After something that was refused."""
        write_network(self._model, 1)
        (self._model / "model.yaml").write_text(CARD)

    def note(self) -> None:
        """What ran so far, before it is forgotten."""
        folder = self.path.parent / "state" / "configurations"
        for meta in folder.glob("*.json"):
            if meta.stem.isdecimal() and meta.stem not in self.kept:
                about = json.loads(meta.read_text())
                written = yaml.safe_load((folder / f"{meta.stem}.yaml").read_text())
                network = about["contents"]["models"]["m"]["network"]
                self.kept[meta.stem] = about["sha256"], network, written

    def check(self, result: Any) -> None:
        """All that the result says is one configuration's, its decision too."""
        identity = result["internalConfigurationId"]
        file_hash, network, written = self.kept[identity["version"]]
        assert identity["hash"] == file_hash
        if result["decision"] == "UNDEFINED":
            # in hand when its camera was closed
            assert result["reasons"][0]["code"] == "restarted", result["reasons"]
            return
        assert result["model"]["sha256"] == network
        (rule,), (wanted,) = result["rules"], written["stations"][result["station"]]["rules"]
        assert rule["name"] == wanted["name"]
        assert rule["seen"] == len(result["resultContent"]) == self.bottles[network]
        assert (result["decision"] == "OK") == (rule["seen"] >= wanted["count"]["at_least"])


def judges_by(number: int, got: Sequence[Arrived]) -> bool:
    """Whether the newest result is by that configuration, or by a later one."""
    return bool(got) and int(got[-1].json["internalConfigurationId"]["version"]) >= number


@pytest.mark.slow
def test_no_result_of_many_reloads_is_lost_doubled_or_of_two_configurations(
    tmp_path: Path, mosquitto: Mosquitto, run: Run, subscribe: Subscribe
) -> None:
    heard = subscribe(mosquitto, PREFIX)
    path = site(tmp_path / "a", mosquitto, fps=100, stations={"cap": station(1, "r0")})
    operator = Operator(path)
    running = run(path)
    heard.wait(lambda got: len(got) > 5, "/cap/result")
    for number in range(1, RELOADS + 1):
        kind = operator.edit(number)
        if number % 3 == 0:
            # somebody else asks too
            running.process.send_signal(signal.SIGHUP)
        done = ctl(path, "reload", "--json")
        assert (done.returncode == 0) == (kind in GOOD), (kind, done)
        operator.note()
        runs = json.loads(done.stdout)["number"]
        for name in operator.kept[str(runs)][2]["stations"]:
            # all of it is in force everywhere
            heard.wait(partial(judges_by, runs), f"/{name}/result")
        if kind not in GOOD:
            operator.mend()
    assert running.stop() == 0, running.log
    operator.note()
    results = [one for name in ("cap", "other") for one in heard.messages(f"/{name}/result")]
    assert sum(whole(results).values()) == len(results), "none twice"
    newest: dict[str, int] = {}
    for result in (one.json for one in results):
        operator.check(result)
        number = int(result["internalConfigurationId"]["version"])
        assert number >= newest.get(result["station"], 0), "never back to an older one"
        newest[result["station"]] = number
    # a signal that comes late may apply what was mended just before the end
    assert newest["cap"] >= runs
