"""What is another in a configuration that was read again, by key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any

from pydantic import BaseModel

from edge_infer.config.site import Site

_WHILE_RUNNING = {"cameras", "models", "stations", "recipes", "shifts", "commands"}
_EXCEPT = {"outbox": {"commit", "max_age_days"}, "evidence": {"max_age_days"}}
"""Sections whose keys change while it runs, and those of them that do not."""
_NO_SETTINGS = {
    "path",
    "sha256",
    "topic_prefix",
    "cards",
    "broken_models",
    "warnings",
    "document",
    "contents",
}
"""What of a `Site` is made from the file's other keys, or from other files."""


def needs_restart(running: Site, read: Site) -> list[str]:
    """The keys that changed and can change only with a restart."""
    found: list[str] = []
    for field in fields(Site):
        name = field.name
        if name in _WHILE_RUNNING | _NO_SETTINGS:
            continue
        keys = _keys(name, getattr(running, name), getattr(read, name))
        if name in _EXCEPT:
            # a section that comes or goes has no key behind its name
            keys = [key for key in keys if key.partition(".")[2] in {"", *_EXCEPT[name]}]
        found += keys
    return found


def changes(running: Site, read: Site) -> list[str]:
    """All keys that changed, and files behind them, as far as they change while it runs."""
    found: list[str] = []
    for name in ("cameras", "models", "stations", "recipes"):
        found += _entries(name, getattr(running, name), getattr(read, name))
        if name == "models":
            found += _files(running, read)
    for name in ("shifts", "commands", *_EXCEPT):
        found += _keys(name, getattr(running, name), getattr(read, name))
    return list(dict.fromkeys(found))


def _files(running: Site, read: Site) -> Iterator[str]:
    """Models whose settings are the same and whose files are not; calibrations likewise."""
    before, after = running.contents.models, read.contents.models
    for name in read.models:
        was, now = before.get(name), after.get(name)
        if name not in running.models or was == now:
            continue
        if was is None or now is None or was.network != now.network:
            yield f"models.{name}.network"
        if was is not None and now is not None and was.card != now.card:
            yield f"models.{name}.card"
        elif was is not None and now is not None and was.network == now.network:
            yield f"models.{name}.files"
    for name, station in read.stations.items():
        at = str(station.undistort)
        if name in running.stations and running.contents.lenses.get(at) != read.contents.lenses.get(at):
            yield f"stations.{name}.undistort"


def _entries(room: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    """Of a section of things by name: those that come and go whole, and the keys of those that stay."""
    for name in {**before, **after}:
        was, now = before.get(name), after.get(name)
        if was == now:
            continue
        if isinstance(was, Mapping) and isinstance(now, Mapping):
            yield from (f"{room}.{name}.{key}" for key in {**was, **now} if was.get(key) != now.get(key))
        else:
            yield from _keys(f"{room}.{name}", was, now)


def _keys(at: str, before: Any, after: Any) -> list[str]:
    """The keys that differ; the whole where it is another thing altogether."""
    if before == after:
        return []
    if isinstance(before, BaseModel) and type(before) is type(after):
        keys = type(before).model_fields
        return [f"{at}.{key}" for key in keys if getattr(before, key) != getattr(after, key)]
    return [at]
