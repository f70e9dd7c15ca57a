"""``reset_counts``: a station's counters start from zero."""

from __future__ import annotations

from edge_infer.messages.command import ResetCounts
from edge_infer.remote.answer import Answer
from edge_infer.remote.command import Command
from edge_infer.remote.reach import Reach


def reset_counts(_request: ResetCounts, command: Command, reach: Reach) -> Answer:
    """Durable when it is answered."""
    reach.outbox.reset_counts(command.at)
    reach.publisher.counts(command.at, reach.outbox.counts(command.at))
    return Answer("ok", "done", "the counts start from zero")
