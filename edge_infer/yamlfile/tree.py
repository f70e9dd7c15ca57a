"""A YAML file as a tree that remembers where everything is written."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Path = tuple[str | int, ...]
"""Keys and list positions from the top of the file."""

TRAP = "\0trap"
"""The only key of what validation sees in place of a trap; no file can hold it and no type accepts it."""

Reading = Literal["text", "number", "bool", "null", "trap"]
"""What a scalar is; a trap is unquoted text that YAML tools take for something else (NO, 0123, 12:30)."""


@dataclass(frozen=True, slots=True)
class Place:
    """Both from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Scalar:
    """A single value."""

    place: Place
    reading: Reading
    value: str | int | float | bool | None
    """For a trap the text as it is written."""
    written: str
    """Without quotes."""
    plain: bool
    """Written without quotes."""


@dataclass(frozen=True, slots=True, eq=False)
class Sequence:
    """A list."""

    place: Place
    items: list[Node] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Entry:
    """One key and its value."""

    key: Place
    value: Node


@dataclass(frozen=True, slots=True, eq=False)
class Map:
    """Keys and values, merged keys included. Aliases share the same object."""

    place: Place
    in_braces: bool
    entries: dict[str, Entry] = field(default_factory=dict)


Node = Scalar | Sequence | Map


def plain_data(node: Node) -> Any:
    """Dicts, lists and scalars; nothing shared between two aliases."""
    match node:
        case Map():
            return {key: plain_data(entry.value) for key, entry in node.entries.items()}
        case Sequence():
            return [plain_data(item) for item in node.items]
    return node.value


def strict_data(node: Node) -> Any:
    """As ``plain_data``, but a trap is something that no type accepts."""
    match node:
        case Map():
            return {key: strict_data(entry.value) for key, entry in node.entries.items()}
        case Sequence():
            return [strict_data(item) for item in node.items]
    return {TRAP: node.written} if node.reading == "trap" else node.value


def step(node: Node, part: str | int) -> Node | None:
    """The child behind a key or position, None where there is none."""
    if isinstance(node, Map):
        entry = node.entries.get(str(part))
        return entry.value if entry else None
    if isinstance(node, Sequence) and isinstance(part, int) and 0 <= part < len(node.items):
        return node.items[part]
    return None


def find(root: Node, path: Path) -> Node | None:
    """The node at a path, None where there is none."""
    node: Node | None = root
    for part in path:
        node = step(node, part) if node is not None else None
    return node


def place_of(root: Node, path: Path, *, key: bool = False) -> Place:
    """Where to point for a path: a scalar's own place, else its key; the nearest parent where it is missing.

    ``key=True``: always the key.
    """
    place, node = root.place, root
    for part in path:
        entry = node.entries.get(str(part)) if isinstance(node, Map) else None
        child = entry.value if entry else step(node, part)
        if child is None:
            break
        place = entry.key if entry and (key or not _inline(child, entry)) else child.place
        node = child
    return place


def _inline(node: Node, entry: Entry) -> bool:
    return isinstance(node, Scalar) and node.place.line >= entry.key.line


def walk(node: Node) -> Iterator[tuple[Path, Node]]:
    """Every node with its path, the top first."""
    yield (), node
    children: Mapping[str | int, Node] = {}
    if isinstance(node, Map):
        children = {key: entry.value for key, entry in node.entries.items()}
    elif isinstance(node, Sequence):
        children = dict(enumerate(node.items))
    for part, child in children.items():
        for path, below in walk(child):
            yield (part, *path), below


# one slash too: a path made of an address has lost the other
_USER_INFO = re.compile(r"(:/{1,2}).*@", re.DOTALL)
_QUERY = re.compile(r"\b(pass\w*|pwd|token|secret)=[^&\s]+", re.IGNORECASE)


def mask(text: str) -> str:
    """The text without the user and password of an address in it."""
    return _QUERY.sub(r"\1=***", _USER_INFO.sub(r"\1***@", text))


def one_line(text: str) -> str:
    """Text that came from a file, safe to print: nothing that moves a cursor or ends a line."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def dotted(path: Path) -> str:
    """``stations.cap.rules[0].count``; on one line and without an address's password."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return one_line(mask(text))
