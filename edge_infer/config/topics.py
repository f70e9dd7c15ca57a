"""``topic_prefix``: a template that becomes the first levels of every topic."""

from __future__ import annotations

from string import Formatter

from edge_infer.errors import EdgeInferError
from edge_infer.yamlfile import did_you_mean

FIELDS = ("site", "line", "device")
MAX_BYTES = 65_535 - 100
"""MQTT's limit for a topic, less what the longest topic adds: a station's name and a command."""


def fill_in(template: str, *, site: str, line: str, device: str) -> str:
    """The prefix without a slash at its end; EdgeInferError says what is wrong with the template."""
    prefix = _fill_in(template, {"site": site, "line": line, "device": device})
    for character in "+#$":
        if character in prefix:
            raise EdgeInferError(f"{character} has a meaning of its own in MQTT and cannot stand in a topic")
    if not prefix.isprintable():
        raise EdgeInferError("a control character cannot stand in a topic")
    if "" in prefix.split("/"):
        raise EdgeInferError(
            "a topic has no empty level; remove the slash at its start or end, or the double one"
        )
    if len(prefix.encode("utf-8", errors="replace")) > MAX_BYTES:
        raise EdgeInferError(f"longer than {MAX_BYTES} bytes; MQTT takes no longer topics")
    return prefix


def _fill_in(template: str, values: dict[str, str]) -> str:
    filled = []
    try:
        parts = list(Formatter().parse(template))
    except ValueError as error:
        raise EdgeInferError("a brace without its partner; fields are {site}, {line} and {device}") from error
    for text, name, form, conversion in parts:
        filled.append(text)
        if name is None:
            continue
        if name not in values or form or conversion:
            raise EdgeInferError(f"{{{name}}} is not a field of the template{did_you_mean(name, FIELDS)}")
        filled.append(values[name])
    return "".join(filled)
