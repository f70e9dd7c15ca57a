"""What unquoted text means: JSON's numbers, true, false and null; what else YAML makes of text is a trap.

YAML 1.1 (PyYAML, most tools) reads NO as false, 0123 as 83, 12:30 as 750 and 2024-05-01 as a date;
YAML 1.2 reads some of them otherwise. Whoever writes one of these did not mean any of it.
"""

from __future__ import annotations

import math
import re

import yaml

from edge_infer.yamlfile.tree import Reading

_NULL = {"", "~", "null", "Null", "NULL"}
_BOOL = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INT = re.compile(r"[-+]?(0|[1-9][0-9]{0,24})")
_FLOAT = re.compile(r"[-+]?((0|[1-9][0-9]*)\.[0-9]*|\.[0-9]+|(0|[1-9][0-9]*)(?=[eE]))([eE][-+]?[0-9]+)?")
_OTHER_NUMBER = re.compile(r"[-+]?(0o[0-7_]+|[0-9]+([eE][-+]?[0-9]+)?)")
_YES = {"yes", "on", "y", "true"}
_NO = {"no", "off", "n", "false"}


def read_plain(text: str) -> tuple[Reading, str | int | float | bool | None]:
    """What unquoted ``text`` is, and its value (the text itself for text and traps)."""
    if text in _NULL:
        return "null", None
    if text in _BOOL:
        return "bool", _BOOL[text]
    if _INT.fullmatch(text):
        return "number", int(text)
    if _FLOAT.fullmatch(text) and math.isfinite(float(text)):
        return "number", float(text)
    return ("trap" if _OTHER_NUMBER.fullmatch(text) or _resolved(text) else "text"), text


def _resolved(text: str) -> bool:
    """Whether PyYAML takes it for something other than text."""
    table = yaml.SafeLoader.yaml_implicit_resolvers
    return any(pattern.match(text) for _, pattern in (*table.get(text[0], ()), *table.get(None, ())))


def read_elsewhere(text: str) -> str:
    """What other YAML tools make of an unquoted text, in words."""
    if text in _NULL:
        return "as nothing"
    if text.lower() in _YES | _NO:
        return f"as {'true' if text.lower() in _YES else 'false'}"
    try:
        value = yaml.safe_load(text)
    except (ValueError, yaml.YAMLError):
        return "as something else"
    if isinstance(value, str):
        return "as a number"
    return f"as the number {value}" if isinstance(value, int | float) else "as a date"


def as_bool(text: str) -> str | None:
    """``true`` or ``false`` where the text says so in other words (yes, off), else None."""
    word = text.lower()
    return "true" if word in _YES else "false" if word in _NO else None


def quoted(text: str) -> str:
    """The text in double quotes, as it can stand in YAML."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
