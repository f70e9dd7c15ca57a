"""Real networks, stations and a changeover of a site on disk, without cameras and a broker."""

from __future__ import annotations

import copy
import json
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

from edge_infer.changeover import Changeover, Configurations
from edge_infer.config.site import Site, load_site
from edge_infer.engine import Engine
from edge_infer.engines import Engines
from edge_infer.frame import Frame
from edge_infer.result import Result
from edge_infer.settings import Secrets
from edge_infer.station.setup import Setup
from edge_infer.station.station import Station
from tests.support.heat import heat

BOTTLES = Path(str(files("edge_infer.bundled").joinpath("bottles")))
HAS_CAP: dict[str, Any] = {"name": "has-cap", "count": {"labels": ["cap"], "min_score": 0.5, "at_least": 1}}
BY = "user:anna"
NO_BOTTLE: dict[str, Any] = {"name": "no-bottle", "count": {"labels": ["bottle"], "at_most": 0}}


def site_data(**more: Any) -> dict[str, Any]:
    """Two stations with the bundled network, one that finds anomalies, and recipes."""
    data: dict[str, Any] = {
        "format": 1,
        "site": "plant1",
        "line": "l3",
        "device": "ipc7",
        "mqtt": {"host": "127.0.0.1"},
        "cameras": {"scene": {"type": "synthetic", "fps": 20}},
        "models": {
            "bottles": {"path": str(BOTTLES)},
            "again": {"path": str(BOTTLES), "backend": {"type": "openvino"}},
            "heat": {"path": "heat.onnx"},
        },
        "stations": {
            "cap": {"camera": "scene", "model": "bottles", "rules": [HAS_CAP], "confirm": {"k": 1, "n": 1}},
            "other": {"camera": "scene", "model": "bottles", "rules": [HAS_CAP]},
            "film": {"camera": "scene", "model": "heat"},
        },
        "recipes": {
            "small": {"cap": {"rules": [NO_BOTTLE]}, "other": {"rules": [NO_BOTTLE]}},
            "large": {"cap": {"model": "again", "confirm": {"k": 2, "n": 2}}},
        },
    }
    return data | more


def write(folder: Path, data: Mapping[str, Any]) -> Path:
    """The YAML file and the network that it names beside the bundled one."""
    folder.mkdir(exist_ok=True)
    if not (folder / "heat.onnx").exists():
        heat(folder / "heat.onnx")
    path = folder / "site.yaml"
    path.write_text(yaml.safe_dump(dict(data), sort_keys=False))
    return path


class Rig:
    """Also what its stations hand on to."""

    def __init__(
        self, path: Path, state_dir: Path, *, live: Collection[str] = (), site: Site | None = None
    ) -> None:
        """``live``: the stations that look at the newest frame; the others miss none. ``site``: what runs,
        where it is not the file."""
        self.path = path
        self.results: dict[str, list[Result]] = defaultdict(list)
        self.events: list[tuple[str, str | None, dict[str, Any]]] = []
        site = site or load_site(path)
        self.engines = Engines()
        self._live = live
        assert self.engines.open(site, lambda _model: None, self.event, lambda: False)
        self.stations: dict[str, Station] = {}
        self.configurations = Configurations(
            site, state_dir, self.engines, self.event, secrets=Secrets({}), stopping=lambda: False
        )
        self.changeover = Changeover(
            site, self.engines, state_dir, self.event,
            boot_id="boot", floor=self, number=self.configurations.number,
        )  # fmt: skip
        self.configurations.run(self.changeover)
        for name in site.stations:
            self._open(name, self.changeover.setup(name))
        self.engines.start()

    def _open(self, name: str, setup: Setup) -> None:
        self.stations[name] = Station(setup, self, recorded=name not in self._live, max_age_s=1)
        self.stations[name].start()

    def reload(self) -> Sequence[str]:
        """As somebody asks for it."""
        return self.configurations.reload(by=BY)

    def change(self, _before: Site, after: Site, setups: Mapping[str, Setup]) -> None:
        """See Floor; without cameras."""
        for name in [one for one in self.stations if one not in after.stations]:
            self.stations.pop(name).stop("removed")
        for name, setup in setups.items():
            if name in self.stations:
                self.stations[name].configure(setup)
            else:
                self._open(name, setup)

    def uses(self, engine: Engine) -> bool:
        """See Floor."""
        return any(one.uses(engine) for one in list(self.stations.values()))

    def see(self, frame: Frame, *stations: str) -> None:
        """All stations, or these, judge it."""
        for name in stations or self.stations:
            self.stations[name].offer(frame)
            self.stations[name].end_recording()

    def last(self, station: str) -> Result:
        """The station's newest result."""
        return self.results[station][-1]

    def kinds(self) -> list[str]:
        """Of the events so far."""
        return [kind for kind, _, _ in self.events]

    def close(self) -> None:
        """Ends the threads."""
        for station in self.stations.values():
            station.stop()
        assert self.engines.stop(10) == []

    def publish(self, result: Result, _frame: object, _findings: object, _settings: object) -> None:
        self.results[result.station].append(result)

    def decide(self, result: Result) -> None:
        pass

    def line_stop(self, station: str, decision: object) -> None:
        pass

    def reference_unused(self, station: str, why: str) -> None:
        self.event("reference_unused", {"why": why}, station)

    def accept(self, station: str, trigger: object) -> None:
        pass

    def event(self, kind: str, data: Mapping[str, Any], station: str | None = None) -> None:
        self.events.append((kind, station, dict(data)))


@contextmanager
def running(
    path: Path, state_dir: Path, *, live: Collection[str] = (), site: Site | None = None
) -> Iterator[Rig]:
    """From the start to the end of a service, as far as changes of what it runs go."""
    rig = Rig(path, state_dir, live=live, site=site)
    try:
        yield rig
    finally:
        rig.close()


def edit(rig_or_path: Rig | Path, **more: Any) -> dict[str, Any]:
    """Writes the site again, with other top-level keys."""
    path = rig_or_path.path if isinstance(rig_or_path, Rig) else rig_or_path
    data = copy.deepcopy(site_data(**more))
    write(path.parent, data)
    return data


def stations(**changed: dict[str, Any]) -> dict[str, Any]:
    plain = copy.deepcopy(site_data()["stations"])
    for name, keys in changed.items():
        plain[name] |= keys
    return dict(plain)


def told(result: Result) -> tuple[str | None, str | None, str]:
    """Recipe, first rule, decision."""
    recipe = result.external_recipe_id.id if result.external_recipe_id else None
    return recipe, result.rules[0].name if result.rules else None, result.decision


def on_disk(state: Path) -> Any:
    return json.loads((state / "choices.json").read_text())["stations"]
