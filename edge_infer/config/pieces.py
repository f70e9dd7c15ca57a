"""A site in pieces, so that one wrong piece does not hide what is wrong between the others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from edge_infer.config.recipes import Place, settings_of, unknown_stations, written
from edge_infer.config.schema import AnyCamera, ModelUse
from edge_infer.errors import Mistake
from edge_infer.metrics.settings import MetricsSettings
from edge_infer.mqtt.settings import MqttSettings
from edge_infer.settings import Settings
from edge_infer.sources import SourceSettings
from edge_infer.station import StationSettings
from edge_infer.yamlfile import Document, tree

S = TypeVar("S", bound=Settings)


@dataclass(slots=True)
class Pieces:
    """What of a site is right in itself, and what was found wrong so far."""

    document: Document
    mqtt: MqttSettings | None
    cameras: dict[str, SourceSettings]
    models: dict[str, ModelUse]
    stations: dict[str, StationSettings]
    recipes: dict[str, dict[str, StationSettings]]
    """By recipe and station: the station's settings with the recipe's keys put in."""
    metrics: MetricsSettings | None
    mistakes: list[Mistake] = field(default_factory=list)
    warnings: list[Mistake] = field(default_factory=list)
    broken_models: list[Mistake] = field(default_factory=list)
    """Networks that cannot be used: the trouble of their stations only."""

    def wrong(self, at: tree.Path, message: str, *, key: bool = False) -> None:
        """Add a mistake at a key path."""
        self.mistakes.append(self.document.mistake(at, message, key=key))

    def warn(self, at: tree.Path, message: str, *, key: bool = False) -> None:
        """Add what runs but is probably not meant."""
        self.warnings.append(self.document.mistake(at, message, key=key))

    def judged(self) -> Iterator[tuple[Place, StationSettings]]:
        """All that a station may be told to run, with where it is written."""
        for name, station in self.stations.items():
            yield Place(("stations", name)), station
        for part in written(self.document):
            settings = self.recipes.get(part.recipe, {}).get(part.station)
            if settings is not None:
                yield part.place, settings

    def names(self, room: str) -> list[str]:
        """The names under cameras, models or stations, right or wrong in themselves."""
        node = tree.find(self.document.root, (room,))
        return list(node.entries) if isinstance(node, tree.Map) else []

    def text(self, at: tree.Path) -> str | None:
        """The text at a key path, None where there is none."""
        node = tree.find(self.document.root, at)
        return node.written if isinstance(node, tree.Scalar) and node.reading == "text" else None


def take_apart(document: Document) -> Pieces:
    """Every piece that is right in itself; what is wrong in a recipe because of its station is told."""
    recipes: dict[str, dict[str, StationSettings]] = {}
    mistakes = unknown_stations(document)
    for part in written(document):
        settings, wrong = settings_of(document, part)
        mistakes += wrong
        if settings is not None:
            recipes.setdefault(part.recipe, {})[part.station] = settings
    return Pieces(
        document,
        _piece(document, MqttSettings, ("mqtt",)),
        _right(document, AnyCamera, "cameras"),
        _right(document, ModelUse, "models"),
        _right(document, StationSettings, "stations"),
        recipes,
        _piece(document, MetricsSettings, ("metrics",)),
        mistakes,
    )


def _right(document: Document, wanted: type[S], room: str) -> dict[str, S]:
    node = tree.find(document.root, (room,))
    names = list(node.entries) if isinstance(node, tree.Map) else []
    pieces = {name: _piece(document, wanted, (room, name)) for name in names}
    return {name: piece for name, piece in pieces.items() if piece is not None}


def _piece(document: Document, wanted: type[S], at: tree.Path) -> S | None:
    if tree.find(document.root, at) is None:
        return None
    return document.check(wanted, at)[0]
