"""``ping``: are commands heard, and by whom."""

from __future__ import annotations

from edge_infer.messages.command import Ping
from edge_infer.remote.answer import Answer
from edge_infer.remote.command import Command
from edge_infer.remote.reach import Reach


def ping(_request: Ping, _command: Command, reach: Reach) -> Answer:
    """Always well."""
    return Answer("ok", "pong", "commands are heard", {"bootId": reach.boot_id, "version": reach.version})
