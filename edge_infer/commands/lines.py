"""A published result as a person reads it: one line, whatever a stranger wrote into it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import click

COLOURS = {"OK": "green", "NOK": "red"}


def coloured(decision: str) -> str:
    """Ten columns."""
    return click.style(f"{decision:10}", fg=COLOURS.get(decision, "yellow"))


def why(result: Mapping[str, Any]) -> str:
    """The reasons where it is UNDEFINED, else the rules that are broken."""
    reasons = [str(one.get("code")) for one in _objects(result, "reasons")]
    broken = [
        f"{rule.get('name')} ({rule.get('seen')} seen)"
        for rule in _objects(result, "rules")
        if rule.get("decision") == "NOK"
    ]
    return plain(", ".join(reasons or broken) or "all rules hold")


def plain(text: object) -> str:
    """What a terminal would obey is shown as a question mark."""
    return "".join(sign if sign.isprintable() else "?" for sign in str(text))


def _objects(result: Mapping[str, Any], key: str) -> Iterator[Mapping[str, Any]]:
    values = result.get(key)
    for one in values if isinstance(values, list) else ():
        if isinstance(one, Mapping):
            yield one
