"""``start_single_job``: a part id becomes a stored, answered trigger."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from edge_infer.errors import OutboxError
from edge_infer.frame import PartTrigger
from edge_infer.messages.command import StartSingleJob
from edge_infer.messages.reply_data import JobAccepted, JobDone
from edge_infer.remote.answer import Answer, RefusedError
from edge_infer.remote.command import Command
from edge_infer.remote.reach import Reach
from edge_infer.result import new_result_id
from edge_infer.station.inspection import Known

log = logging.getLogger(__name__)

STORED_S = 1.0
"""How long the answer waits for the disk."""


def start_single_job(
    request: StartSingleJob, command: Command, reach: Reach
) -> Answer | Callable[[], Answer]:
    """At once: the very next frame answers it. What is returned waits until the trigger is on disk."""
    station = reach.stations[command.at]
    runs = station.identity.external_recipe
    if request.recipe_id is not None and (runs is None or runs.id != request.recipe_id):
        raise RefusedError("other_recipe", f"the recipe {request.recipe_id} does not run: no inspection")
    if (known := station.known(request.part_id)) is not None:
        return _known(known)
    job_id = new_result_id()
    message = command.message
    trigger = PartTrigger(message.received_s, message.received_at, part_id=request.part_id, job_id=job_id)
    try:
        stored = reach.outbox.accept_trigger(command.at, job_id, request.part_id, message.received_at)
    except OutboxError as error:
        text = "too many parts wait for the disk, or the service stops; ask later"
        raise RefusedError("queue_full", text, status="busy") from error
    # before the disk has it, which takes longer than a frame
    station.ask(trigger)
    until_s = time.monotonic() + STORED_S

    def answer() -> Answer:
        data = JobAccepted(job_id=job_id).model_dump(mode="json", by_alias=True)
        if stored.wait(max(0.0, until_s - time.monotonic())):
            return Answer("ok", "accepted", "the next frame answers it", data)
        log.error("station %s: part %s is not on disk after %g s", command.at, request.part_id, STORED_S)
        text = "the disk hangs: the part is inspected, but would be forgotten by a crash"
        return Answer("error", "not_stored", text, data)

    return answer


def _known(known: Known) -> Answer:
    if known.result is None:
        data = JobAccepted(job_id=known.job_id or "").model_dump(mode="json", by_alias=True)
        return Answer("ok", "accepted", "this part waits already", data)
    done = JobDone(
        job_id=known.result.job_id, result_id=known.result.result_id, decision=known.result.decision
    )
    return Answer("ok", "done", "this part was answered already", done.model_dump(mode="json", by_alias=True))
