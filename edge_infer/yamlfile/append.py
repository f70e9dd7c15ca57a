"""Adds entries to a list in a YAML file's text and leaves everything else as it was written."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

import yaml

_SIMPLE = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*")
_WORDS = re.compile(r"(?i)(y|n|yes|no|on|off|true|false|null)")


def append(text: str, key: str, entries: Sequence[Mapping[str, str]]) -> str:
    """``text`` with ``entries`` at the end of the list at the top-level ``key``, made where it is missing.

    ValueError where it is written in a way that cannot be continued: an alias, text, several documents.
    """
    newline = "\r\n" if "\r\n" in text else "\n"
    root = _root(text)
    value = next((value for name, value in root.value if name.value == key), None)
    flows = [_flow(entry) for entry in entries]
    if value is None and root.flow_style:
        return _into_flow(text, root, f"{key}: [{', '.join(flows)}]")
    if value is None:
        end = _end_of_line(text, _last(root))
        lines = [f"{key}:", *(f"  - {flow}" for flow in flows)]
    elif not isinstance(value, yaml.SequenceNode):
        raise ValueError(f"{key} is not a list")
    elif value.flow_style:
        return _into_flow(text, value, ", ".join(flows))
    else:
        end = _end_of_line(text, _last(value))
        indent = " " * value.start_mark.column
        lines = [f"{indent}- {flow}" for flow in flows]
    before = text[:end]
    if not before.endswith("\n"):
        before += newline
    return before + "".join(line + newline for line in lines) + text[end:]


def _root(text: str) -> yaml.MappingNode:
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error
    if not isinstance(root, yaml.MappingNode):
        raise ValueError("the file is not a mapping")
    return root


def _flow(entry: Mapping[str, str]) -> str:
    return "{" + ", ".join(f"{key}: {_scalar(value)}" for key, value in entry.items()) + "}"


def _scalar(value: str) -> str:
    # JSON text is YAML text
    plain = _SIMPLE.fullmatch(value) and not _WORDS.fullmatch(value)
    return value if plain else json.dumps(value, ensure_ascii=False)


def _into_flow(text: str, node: yaml.CollectionNode, addition: str) -> str:
    if not node.value:
        start = node.start_mark.index + 1
        return text[:start] + addition + text[start:]
    # behind the last entry, so that a comma or a comment that follows it stays what it is
    last = node.value[-1]
    end = _last(last[1] if isinstance(last, tuple) else last)
    return f"{text[:end]}, {addition}{text[end:]}"


def _last(node: yaml.Node) -> int:
    """Where the last thing written in it ends: a block's own end lies behind the comments that follow it."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        key, value = last if isinstance(last, tuple) else (None, last)
        end = _last(value)
        return max(end, key.end_mark.index) if key is not None else end
    return int(node.end_mark.index)


def _end_of_line(text: str, position: int) -> int:
    # a block scalar ends behind its own line end
    if text[:position].endswith("\n"):
        return position
    end = text.find("\n", position)
    return len(text) if end < 0 else end + 1
