"""``reload``: the configuration file is read again."""

from __future__ import annotations

from edge_infer.errors import ConfigError
from edge_infer.messages.command import Reload
from edge_infer.remote.answer import Answer
from edge_infer.remote.command import Command
from edge_infer.remote.reach import Reach

TOLD = 20
"""Mistakes in an answer; the log has all."""


def reload(_request: Reload, command: Command, reach: Reach) -> Answer:
    """What changed, or every mistake and nothing changed."""
    try:
        changes = list(reach.control.reload(by=command.by))
    except ConfigError as error:
        mistakes = [str(mistake)[:300] for mistake in error.mistakes]
        text = f"{len(mistakes)} mistake(s) in the configuration; nothing changed"
        return Answer("rejected", "bad_configuration", text, {"mistakes": mistakes[:TOLD]})
    return Answer("ok", "done", "the configuration runs", {"changes": changes})
