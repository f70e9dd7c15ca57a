"""Bytes -> tree. Collects what is wrong but readable; raises what makes the file unreadable."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NoReturn

import yaml

from edge_infer.errors import ConfigError, Mistake
from edge_infer.yamlfile.scalars import quoted, read_elsewhere, read_plain
from edge_infer.yamlfile.tree import Entry, Map, Node, Place, Scalar, Sequence, dotted, one_line
from edge_infer.yamlfile.tree import Path as KeyPath

MAX_BYTES = 1024 * 1024
"""A larger file is not a configuration."""
MAX_DEPTH = 40
"""Nested levels."""
MAX_VALUES = 100_000
"""Values once every alias is written out."""

_TAG = "tag:yaml.org,2002:"
_PLAIN = "plain"
_UNPRINTABLE = re.compile("[^\x09\x0a\x0d\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_NO_TEXT = re.compile("[\0\ud800-\udfff]")


def read_bytes(path: Path) -> bytes:
    """The file; ConfigError says why it cannot be read."""
    try:
        # a pipe would never end, a device neither
        if not (path.is_file() or path.is_dir()) and path.exists():
            raise _whole(path, "is not a regular file")
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError as error:
        raise _whole(path, "there is no such file") from error
    except IsADirectoryError as error:
        raise _whole(path, "is a folder; name the YAML file in it") from error
    except PermissionError as error:
        raise _whole(path, "may not be read by this user; check its owner and mode (ls -l)") from error
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise _whole(path, f"cannot be read: {reason}") from error
    if len(data) > MAX_BYTES:
        raise _whole(path, f"is larger than {MAX_BYTES} bytes; this is not a configuration file")
    return data


def parse(path: Path, data: bytes) -> tuple[Node, list[Mistake]]:
    """The tree, and the mistakes that leave the rest readable (duplicate keys, tags, odd keys)."""
    text = _decode(path, data)
    odd = _UNPRINTABLE.search(text)
    if odd:
        name = "a NUL character" if odd[0] == "\0" else f"the control character U+{ord(odd[0]):04X}"
        before = text[: odd.start()]
        place = Place(before.count("\n") + 1, odd.start() - before.rfind("\n"))
        raise _at(path, place, f"{name} cannot stand in a YAML file; delete it (is this a text file?)")
    loader = _Loader(text)
    try:
        top = loader.get_single_node()
    except _TooDeepError as error:
        raise _at(path, error.place, f"nested deeper than {MAX_DEPTH} levels") from error
    except yaml.MarkedYAMLError as error:
        place, problem = _syntax(error, text)
        raise _at(path, place, problem) from error
    except (ValueError, OverflowError) as error:
        # the scanner hands an escape like "\\UFFFFFFFF" to chr() as it is
        place = Place(loader.line + 1, loader.column + 1)
        raise _at(path, place, "an escape in double quotes is not a character; use single quotes") from error
    finally:
        loader.dispose()
    if top is None or (isinstance(top, yaml.ScalarNode) and top.tag == _PLAIN and not top.value):
        raise _whole(path, "the file is empty")
    builder = _Builder(path)
    root = builder.node(top, ())
    return root, builder.mistakes


class _TooDeepError(Exception):
    def __init__(self, place: Place) -> None:
        super().__init__()
        self.place = place


class _Loader(yaml.SafeLoader):
    """Composes only; says of every scalar whether it is unquoted instead of guessing what it means."""

    depth = 0

    def resolve(self, kind: Any, value: Any, implicit: Any) -> str:  # noqa: ARG002 - PyYAML calls it so
        if kind is yaml.ScalarNode:
            return _PLAIN if implicit[0] else f"{_TAG}str"
        return f"{_TAG}seq" if kind is yaml.SequenceNode else f"{_TAG}map"

    def compose_node(self, parent: Any, index: Any) -> Any:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise _TooDeepError(_place(self.peek_event().start_mark))  # type: ignore[no-untyped-call]
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node


class _Builder:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._done: dict[int, tuple[Node, int]] = {}
        self._open: set[int] = set()
        self.mistakes: list[Mistake] = []

    def node(self, node: yaml.Node, path: KeyPath) -> Node:
        return self._build(node, path)[0]

    def _build(self, node: yaml.Node, path: KeyPath) -> tuple[Node, int]:
        """The node and how many values it is once its aliases are written out."""
        if id(node) in self._done:
            return self._done[id(node)]
        if id(node) in self._open:
            self._fail(node, "an alias stands inside the value that it names")
        self._open.add(id(node))
        built, size = self._build_new(node, path)
        self._open.remove(id(node))
        if size > MAX_VALUES:
            self._fail(node, f"more than {MAX_VALUES} values once its aliases are written out")
        self._done[id(node)] = built, size
        return built, size

    def _build_new(self, node: yaml.Node, path: KeyPath) -> tuple[Node, int]:
        place = _place(node.start_mark)
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, place, path), 1
        if node.tag not in (f"{_TAG}seq", f"{_TAG}map"):
            self._tag(node, path)
        if isinstance(node, yaml.SequenceNode):
            children = [self._build(child, (*path, index)) for index, child in enumerate(node.value)]
            return Sequence(place, [child for child, _ in children]), 1 + sum(size for _, size in children)
        if isinstance(node, yaml.MappingNode):
            return self._map(node, place, path)
        raise TypeError(type(node))

    def _scalar(self, node: yaml.ScalarNode, place: Place, path: KeyPath) -> Scalar:
        if node.tag == _PLAIN:
            reading, value = read_plain(node.value)
            return Scalar(place, reading, value, node.value, plain=True)
        if node.tag != f"{_TAG}str":
            self._tag(node, path)
        if _NO_TEXT.search(node.value):
            self._say(
                place, path, "an escape in double quotes gives a character that is no text (NUL, half a pair)"
            )
            return Scalar(place, "text", "", "", plain=False)
        return Scalar(place, "text", node.value, node.value, plain=False)

    def _map(self, node: yaml.MappingNode, place: Place, path: KeyPath) -> tuple[Map, int]:
        result = Map(place, in_braces=bool(node.flow_style))
        merged: dict[str, Entry] = {}
        seen: dict[str, Place] = {}
        size = 1
        for key_node, value_node in node.value:
            key = self._key(key_node, path)
            if key is None:
                continue
            where = _place(key_node.start_mark)
            if key in seen:
                first = seen[key].line
                message = f"the key is given twice, in line {first} and in line {where.line}; delete one"
                self._say(where, (*path, key), message)
                continue
            seen[key] = where
            value, below = self._build(value_node, (*path, key))
            size += below
            if key == "<<" and key_node.tag == _PLAIN:
                merged = self._merge(value, where, path)
            else:
                result.entries[key] = Entry(where, value)
        for key, entry in merged.items():
            result.entries.setdefault(key, entry)
        return result, size

    def _merge(self, value: Node, where: Place, path: KeyPath) -> dict[str, Entry]:
        sources = value.items if isinstance(value, Sequence) else [value]
        merged: dict[str, Entry] = {}
        for source in sources:
            if not isinstance(source, Map):
                self._say(where, (*path, "<<"), "wants a mapping to merge, like <<: *name")
                continue
            for key, entry in source.entries.items():
                merged.setdefault(key, entry)
        return merged

    def _key(self, node: yaml.Node, path: KeyPath) -> str | None:
        place = _place(node.start_mark)
        if not isinstance(node, yaml.ScalarNode):
            self._say(place, path, "a key must be text, not a list or a mapping")
            return None
        scalar = self._scalar(node, place, path)
        if scalar.plain and scalar.written != "<<" and scalar.reading not in ("text", "number"):
            self._say(
                place, (*path, scalar.written),
                f"the key {scalar.written or '(nothing)'} is read {read_elsewhere(scalar.written)}; "
                f"write it in quotes: {quoted(scalar.written)}",
            )  # fmt: skip
        return scalar.written

    def _tag(self, node: yaml.Node, path: KeyPath) -> None:
        self._say(_place(node.start_mark), path, f"the tag {_tag_name(node.tag)} is not used here; delete it")

    def _say(self, place: Place, path: KeyPath, message: str) -> None:
        self.mistakes.append(Mistake(str(self._path), place.line, place.column, dotted(path), message))

    def _fail(self, node: yaml.Node, message: str) -> NoReturn:
        raise _at(self._path, _place(node.start_mark), message)


def _decode(path: Path, data: bytes) -> str:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise _whole(path, "is UTF-16 text; save it as UTF-8")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # with utf-8-sig the position counts from behind the byte order mark
        start = error.start + len(data) - len(error.object)
        before = data[:start]
        line_start = before.rfind(b"\n") + 1
        column = len(before[line_start:].decode("utf-8-sig", errors="replace")) + 1
        place = Place(before.count(b"\n") + 1, column)
        message = f"the file is not UTF-8: byte 0x{data[start]:02X} at position {start}; save it as UTF-8"
        raise _at(path, place, message) from error


def _syntax(error: yaml.MarkedYAMLError, text: str) -> tuple[Place, str]:
    mark = error.problem_mark or error.context_mark
    if mark is None:
        return Place(1, 1), f"not valid YAML: {error.problem}"
    place = _place(mark)
    lines = text.splitlines()
    line = lines[mark.line] if mark.line < len(lines) else ""
    indent = line[: len(line) - len(line.lstrip())]
    if "\t" in indent:
        return Place(place.line, indent.index("\t") + 1), "a tab cannot indent in YAML; use spaces"
    problem, context = error.problem or "", error.context or ""
    opened = f" (begun in line {error.context_mark.line + 1})" if error.context_mark else ""
    return place, _in_words(problem, context, opened, line)


def _in_words(problem: str, context: str, opened: str, line: str) -> str:  # noqa: PLR0911 - one return a sentence
    if "single document" in context:
        return "a second document begins here (---); only one may stand in a file"
    if "quoted scalar" in context:
        if "end of stream" in problem or "document separator" in problem:
            return f"a quote is not closed{opened}"
        return f"inside double quotes a backslash begins an escape ({problem}); use single quotes"
    if "flow mapping" in context or "flow sequence" in context:
        bracket = "{" if "mapping" in context else "["
        return f"the bracket {bracket}{opened} is not closed, or a comma is missing before this"
    if "mapping values are not allowed" in problem:
        return "a colon cannot stand here: is the line indented wrongly, or does the text need quotes?"
    if "could not find expected ':'" in problem:
        return "a key without a colon and a space behind it (key: value)"
    if "undefined alias" in problem:
        return f"{problem.replace('found undefined', 'no anchor (&name) stands before this')}"
    if "duplicate anchor" in context:
        return f"this anchor is given twice{opened}; each name behind & may stand once"
    if re.search(r"found '?[\]}]'?", problem):
        return "a closing bracket without its opening one"
    if "cannot start any token" in problem:
        return f"{problem.removeprefix('found ')}; put the text in quotes"
    if "expected <block end>" in problem:
        if re.search(r":\s+[\[{\"'].*\S$", line):
            return "text behind a closing bracket or quote; put the whole value in quotes"
        return "this does not fit the lines before it: is it indented differently?"
    return one_line(f"not valid YAML: {context + ': ' if context else ''}{problem}")


def _tag_name(tag: str) -> str:
    return one_line(tag.replace(_TAG, "!!"))


def _place(mark: Any) -> Place:
    return Place(mark.line + 1, mark.column + 1)


def _at(path: Path, place: Place, message: str) -> ConfigError:
    return ConfigError([Mistake(str(path), place.line, place.column, "", message)])


def _whole(path: Path, message: str) -> ConfigError:
    return ConfigError([Mistake(str(path), 0, 0, "", message)])
