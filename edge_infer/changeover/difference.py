"""What is another in a configuration that was read again, by key."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import fields
from typing import Any

from edge_infer.config.recipes import KEPT
from edge_infer.config.site import Site
from edge_infer.station import StationSettings

_WHILE_RUNNING = {"stations", "recipes"}
_NO_SETTINGS = {"path", "sha256", "topic_prefix", "cards", "broken_models", "warnings", "document"}
"""What of a `Site` is made from the file's other keys, or from other files."""


def needs_restart(running: Site, read: Site, opened: Collection[str]) -> list[str]:
    """The keys that changed and can change only with a restart; ``opened``: the models that were."""
    keys: dict[str, None] = {}
    for field in fields(Site):
        if field.name not in _WHILE_RUNNING | _NO_SETTINGS:
            keys.update(dict.fromkeys(_different(field.name, running, read)))
    for name in {**running.models, **read.models}:
        # a card or network file that is another now runs after a restart only
        if running.cards.get(name) != read.cards.get(name):
            keys[f"models.{name}"] = None
    keys.update(dict.fromkeys(f"stations.{name}" for name in running.stations.keys() ^ read.stations.keys()))
    for name, before, after in _both(running.stations, read.stations):
        keys.update(dict.fromkeys(f"stations.{name}.{key}" for key in _keys(before, after) if key in KEPT))
    for at, settings in _judged(read):
        if settings.model not in opened:
            keys[f"{at}.model"] = None
    return list(keys)


def changes(running: Site, read: Site) -> list[str]:
    """The keys under ``stations:`` and ``recipes:`` that changed."""
    found = [
        f"stations.{name}.{key}"
        for name, before, after in _both(running.stations, read.stations)
        for key in _keys(before, after)
    ]
    for recipe in {**running.recipes, **read.recipes}:
        before, after = running.recipes.get(recipe), read.recipes.get(recipe)
        if before is None or after is None:
            found.append(f"recipes.{recipe}")
        elif before != after:
            found += [
                f"recipes.{recipe}.{name}"
                for name in {**before, **after}
                if before.get(name) != after.get(name)
            ]
    return found


def _different(name: str, running: Site, read: Site) -> Iterator[str]:
    before, after = getattr(running, name), getattr(read, name)
    if before == after:
        return
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        yield from (f"{name}.{key}" for key in {**before, **after} if before.get(key) != after.get(key))
    else:
        yield name


def _both(
    running: Mapping[str, StationSettings], read: Mapping[str, StationSettings]
) -> Iterator[tuple[str, StationSettings, StationSettings]]:
    return ((name, running[name], read[name]) for name in running if name in read)


def _keys(before: StationSettings, after: StationSettings) -> list[str]:
    values: Any = (before, after)
    return [key for key in StationSettings.model_fields if getattr(values[0], key) != getattr(values[1], key)]


def _judged(site: Site) -> Iterator[tuple[str, StationSettings]]:
    for name, settings in site.stations.items():
        yield f"stations.{name}", settings
    for recipe, stations in site.recipes.items():
        for name, settings in stations.items():
            yield f"recipes.{recipe}.{name}", settings
