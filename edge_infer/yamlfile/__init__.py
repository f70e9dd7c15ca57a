"""YAML files whose mistakes can be pointed at: the site's configuration and model cards."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from edge_infer.errors import ConfigError, Mistake
from edge_infer.yamlfile import tree
from edge_infer.yamlfile.explain import did_you_mean, explain
from edge_infer.yamlfile.reader import parse, read_bytes

__all__ = ["Document", "did_you_mean", "load"]

M = TypeVar("M", bound=BaseModel)


def load(path: Path, *, base: Path | None = None) -> Document:
    """Read a YAML file. ConfigError where it cannot be read at all: missing, not UTF-8, broken syntax.

    Mistakes that leave the rest readable (a key given twice) are told with all others by ``validate``.
    ``base``: the folder that paths in it are relative to, where that is not its own.
    """
    data = read_bytes(path)
    root, mistakes = parse(path, data)
    return Document(path, hashlib.sha256(data).hexdigest(), root, tuple(mistakes), data, base)


@dataclass(frozen=True, slots=True, eq=False)
class Document:
    """One YAML file that could be read."""

    path: Path
    sha256: str
    """Of the file's bytes."""
    root: tree.Node
    mistakes: tuple[Mistake, ...]
    """What was wrong already when reading."""
    written: bytes = b""
    """The file's bytes."""
    base: Path | None = None
    """The folder that paths in it are relative to; None: its own."""

    @property
    def data(self) -> Any:
        """Dicts, lists, text, numbers, true, false, None; unquoted ``NO`` or ``0123`` is the written text.

        ConfigError where a key is given twice or the like.
        """
        if self.mistakes:
            raise ConfigError(self.mistakes)
        return tree.plain_data(self.root)

    def validate(self, settings: type[M]) -> M:
        """The whole file as ``settings``; ConfigError with all mistakes at once, in the file's order."""
        value, mistakes = self.check(settings)
        mistakes = [*self.mistakes, *mistakes]
        if value is None or mistakes:
            raise ConfigError(in_order(mistakes))
        return value

    def check(self, wanted: type[M], at: tree.Path = ()) -> tuple[M | None, list[Mistake]]:
        """The part at a key path as ``wanted`` (a settings class or a union), or what is wrong there."""
        node = tree.find(self.root, at)
        if node is None:
            raise KeyError(at)
        text = json.dumps(tree.strict_data(node))
        try:
            value = TypeAdapter[M](wanted).validate_json(
                text, context={"base": self.base or self.path.parent}
            )
        except ValidationError as error:
            said = explain(wanted, self.root, at, error.errors(include_url=False, include_input=False))
            return None, [self.mistake(one.path, one.sentence, key=one.about_key) for one in said]
        return value, []

    def mistake(self, at: tree.Path, message: str, *, key: bool = False) -> Mistake:
        """A mistake at a key path: a scalar's own place, else its key's; ``key=True``: the key itself."""
        place = tree.place_of(self.root, at, key=key)
        return Mistake(str(self.path), place.line, place.column, tree.dotted(at), tree.one_line(message))


def in_order(mistakes: Iterable[Mistake]) -> list[Mistake]:
    """By file (as they come), line and column, each once."""
    each = dict.fromkeys(mistakes)
    position = {file: index for index, file in enumerate(dict.fromkeys(one.file for one in each))}
    return sorted(each, key=lambda one: (position[one.file], one.line, one.column))
