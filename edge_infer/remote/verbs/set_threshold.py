"""``set_threshold``: one number of the running settings."""

from __future__ import annotations

from edge_infer.messages.command import SetThreshold
from edge_infer.remote.answer import Answer
from edge_infer.remote.command import Command
from edge_infer.remote.reach import Reach


def set_threshold(request: SetThreshold, command: Command, reach: Reach) -> Answer:
    """Stored and in force when it is answered."""
    reach.control.set_threshold(command.at, request.rule, request.value, by=command.by)
    of = f"the rule {request.rule}" if request.rule is not None else "the anomaly model"
    return Answer("ok", "done", f"the threshold of {of} is {request.value:g}", {"value": request.value})
