"""``get_result``: a result once more, for those who missed it."""

from __future__ import annotations

import json

from edge_infer.messages.command import GetResult
from edge_infer.remote.answer import Answer
from edge_infer.remote.command import Command
from edge_infer.remote.reach import Reach
from edge_infer.remote.recent import KEPT


def get_result(request: GetResult, command: Command, reach: Reach) -> Answer:
    """Only committed ones: they have their number."""
    found = reach.recent.result(command.at, result_id=request.result_id, part_id=request.part_id)
    if found is None:
        return Answer("rejected", "not_found", f"it is not among the newest {KEPT} results since the start")
    return Answer("ok", "done", f"result {found.seq}", {"result": json.loads(found.as_json())})
