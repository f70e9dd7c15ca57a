"""Recipes: named sets of station settings. Each is checked as the station's settings with its keys put in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, create_model

from edge_infer.errors import Mistake
from edge_infer.settings import Settings
from edge_infer.station import StationSettings
from edge_infer.yamlfile import Document, did_you_mean, tree

KEPT = ("camera", "trigger")
"""What a station keeps whatever recipe it runs."""


def _keys_of_a_recipe() -> type[Settings]:
    """The keys of a station but those that it keeps, all of them optional."""
    keys: dict[str, Any] = {
        name: (
            Annotated[(field.annotation, *field.metadata, Field(description=field.description))],
            Field(default=None, json_schema_extra=_without_default),
        )
        for name, field in StationSettings.model_fields.items()
        if name not in KEPT
    }
    doc = "What a recipe changes at one station; each key replaces the station's own one whole."
    return create_model("RecipeSettings", __base__=Settings, __doc__=doc, **keys)


def _without_default(schema: dict[str, Any]) -> None:
    # left out is the station's own value, not null
    del schema["default"]


if TYPE_CHECKING:
    RecipeSettings = Settings
else:
    RecipeSettings = _keys_of_a_recipe()


@dataclass(frozen=True, slots=True)
class Place:
    """Where a station's settings are written: under ``stations:``, or in part in a recipe."""

    at: tree.Path
    own: frozenset[str] | None = None
    """The keys that a recipe replaces; None: these are the station's own settings."""

    def of(self, path: tree.Path, *causes: str) -> tree.Path | None:
        """Where to tell what is wrong at ``path`` of the settings: there, else at the recipe's key that is
        the cause; None where the recipe has no part in it."""
        if self.own is None or (path and path[0] in self.own):
            return (*self.at, *path)
        return next(((*self.at, cause) for cause in causes if cause in self.own), None)


@dataclass(frozen=True, slots=True)
class Written:
    """One station's part of one recipe, as it is written."""

    recipe: str
    station: str
    keys: tree.Map

    @property
    def place(self) -> Place:
        """Where it is written."""
        return Place(("recipes", self.recipe, self.station), frozenset(self.keys.entries))


def written(document: Document) -> Iterator[Written]:
    """Every part of every recipe, right or wrong in itself."""
    recipes = tree.find(document.root, ("recipes",))
    for recipe, stations in _maps(recipes):
        for station, keys in _maps(stations):
            yield Written(recipe, station, keys)


def kept_keys(document: Document) -> list[Mistake]:
    """Recipes that would move a station to another camera or trigger."""
    return [
        document.mistake((*part.place.at, key), f"a recipe keeps the station's {key}; remove it", key=True)
        for part in written(document)
        for key in KEPT
        if key in part.keys.entries
    ]


def unknown_stations(document: Document) -> list[Mistake]:
    """Recipes for stations that are not there."""
    stations = [name for name, _ in _entries(tree.find(document.root, ("stations",)))]
    return [
        document.mistake(
            part.place.at,
            f"there is no station {part.station} under stations:{did_you_mean(part.station, stations)}",
            key=True,
        )
        for part in written(document)
        if part.station not in stations
    ]


def settings_of(document: Document, part: Written) -> tuple[StationSettings | None, list[Mistake]]:
    """The station's settings with the recipe's keys put in; what is wrong only because of the recipe."""
    station = tree.find(document.root, ("stations", part.station))
    if not isinstance(station, tree.Map):
        return None, []
    keys = {key: entry for key, entry in part.keys.entries.items() if key not in KEPT}
    whole = tree.Map(part.keys.place, part.keys.in_braces, {**station.entries, **keys})
    at = part.place.at
    settings, mistakes = replace(document, root=_with(document.root, at, whole)).check(StationSettings, at)
    # the station's own mistakes are told where the station is written
    own = tuple(f"{tree.dotted((*at, key))}{end}" for key in keys for end in ("$", ".", "["))
    return settings, [one for one in mistakes if f"{one.key}$".startswith(own)]


def _with(root: tree.Node, at: tree.Path, node: tree.Node) -> tree.Node:
    """The tree with another node at a path of keys that is there."""
    if not at:
        return node
    if not isinstance(root, tree.Map):
        raise KeyError(at)
    entry = root.entries[str(at[0])]
    below = replace(entry, value=_with(entry.value, at[1:], node))
    return replace(root, entries={**root.entries, str(at[0]): below})


def _entries(node: tree.Node | None) -> Iterator[tuple[str, tree.Node]]:
    for name, entry in node.entries.items() if isinstance(node, tree.Map) else ():
        yield name, entry.value


def _maps(node: tree.Node | None) -> Iterator[tuple[str, tree.Map]]:
    for name, value in _entries(node):
        if isinstance(value, tree.Map):
            yield name, value
