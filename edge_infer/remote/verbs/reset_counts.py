"""``reset_counts``: a station's counters start from zero."""

from __future__ import annotations

from edge_infer.messages.command import ResetCounts
from edge_infer.remote.answer import Answer
from edge_infer.remote.command import Command
from edge_infer.remote.reach import Reach


def reset_counts(_request: ResetCounts, command: Command, reach: Reach) -> Answer:
    """Durable when it is answered."""
    station, outbox = command.at, reach.outbox
    outbox.reset_counts(station, lambda: reach.publisher.counts(station, outbox.counts(station)))
    return Answer("ok", "done", "the counts start from zero")
