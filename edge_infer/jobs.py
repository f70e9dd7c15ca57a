"""``{station}/cmd/start_single_job``: a message with a part id becomes a stored, answered trigger."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import ConfigDict, StringConstraints, ValidationError
from pydantic.alias_generators import to_camel

from edge_infer import clock
from edge_infer.frame import PartTrigger
from edge_infer.mqtt.publisher import Message, Publisher
from edge_infer.outbox import Outbox
from edge_infer.result import new_result_id
from edge_infer.settings import Settings
from edge_infer.station.station import Known, Station

log = logging.getLogger(__name__)

STORED_S = 1.0
"""How long a request waits for the disk; the requests behind it wait too."""
LARGEST = 4096
"""Bytes of a request; a part id needs a few."""


class Request(Settings):
    """What may stand in the message."""

    model_config = ConfigDict(alias_generator=to_camel, extra="ignore")

    part_id: Annotated[str, StringConstraints(pattern=r"^[^\x00-\x1f\x7f]{1,128}$")]


class Jobs:
    """One part-triggered station's requests. A trigger is on disk before it is acknowledged."""

    def __init__(self, station: Station, outbox: Outbox, publisher: Publisher, prefix: str) -> None:
        self._station = station
        self._name = station.name
        self._outbox = outbox
        self._publisher = publisher
        self._topic = f"{prefix}/{self._name}/cmd/start_single_job"

    def listen(self) -> None:
        """Ask the broker for the requests, at each connect anew."""
        self._publisher.subscribe(self._topic, self._handle)

    def _handle(self, message: Message) -> None:
        try:
            if len(message.payload) > LARGEST:
                raise ValueError(f"{len(message.payload)} bytes, at most {LARGEST}")
            part_id = Request.model_validate_json(message.payload).part_id
        except (ValidationError, ValueError) as error:
            text = 'the payload must be JSON like {"partId": "A-1"}, the id 1 to 128 characters'
            log.warning(
                "station %s: a request for an inspection was refused: %s", self._name, _error_line(error)
            )
            self._reply(message, "rejected", "bad_request", text)
            return
        if (known := self._station.known(part_id)) is not None:
            self._reply_known(message, known)
            return
        job_id = new_result_id()
        trigger = PartTrigger(message.received_s, message.received_at, part_id=part_id, job_id=job_id)
        stored = self._outbox.accept_trigger(self._name, job_id, part_id, message.received_at)
        # before the disk has it: the very next frame answers
        self._station.ask(trigger)
        if stored.wait(STORED_S):
            self._reply(message, "ok", "accepted", "the next frame answers it", jobId=job_id)
        else:
            log.error("station %s: part %s is not on disk after %g s", self._name, part_id, STORED_S)
            text = "the disk hangs: the part is inspected, but would be forgotten by a crash"
            self._reply(message, "error", "not_stored", text, jobId=job_id)

    def _reply_known(self, message: Message, known: Known) -> None:
        if known.result is None:
            self._reply(message, "ok", "accepted", "this part waits already", jobId=known.job_id or "")
            return
        self._reply(
            message,
            "ok",
            "done",
            "this part was answered already",
            jobId=known.result.job_id,
            resultId=known.result.result_id,
            decision=known.result.decision,
        )

    def _reply(self, message: Message, status: str, code: str, text: str, **data: str) -> None:
        reply: Mapping[str, Any] = {
            "status": status,
            "code": code,
            "message": text,
            "data": data,
            "ts": clock.now().isoformat(),
        }
        self._publisher.respond(message, json.dumps(reply).encode())


def _error_line(error: ValueError) -> str:
    """The first sentence of a validation error, without the input."""
    if isinstance(error, ValidationError):
        return "; ".join(one["msg"] for one in error.errors(include_url=False, include_input=False))
    return str(error)
