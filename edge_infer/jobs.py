"""``{station}/cmd/start_single_job``: a message with a part id becomes a stored, answered trigger."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import ConfigDict, StringConstraints, ValidationError
from pydantic.alias_generators import to_camel

from edge_infer import clock
from edge_infer.errors import EdgeInferError
from edge_infer.frame import PartTrigger
from edge_infer.mqtt.publisher import Message, Publisher
from edge_infer.outbox import Outbox
from edge_infer.result import Result, new_result_id
from edge_infer.settings import Settings
from edge_infer.station.station import Station

log = logging.getLogger(__name__)

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
        self._name = station.identity.station
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
        try:
            self._answer(message, part_id)
        except EdgeInferError as error:
            log.error("station %s: part %s cannot be accepted: %s", self._name, part_id, error)
            self._reply(message, "error", "not_stored", str(error))

    def _answer(self, message: Message, part_id: str) -> None:
        if (job_id := self._station.waiting_job(part_id)) is not None:
            self._reply(message, "ok", "accepted", "this part waits already", jobId=job_id)
            return
        if (answer := self._recent_answer(part_id)) is not None:
            self._reply(
                message,
                "ok",
                "done",
                "this part was answered already",
                jobId=answer.job_id,
                resultId=answer.result_id,
                decision=answer.decision,
            )
            return
        job_id = new_result_id()
        self._outbox.accept_trigger(self._name, job_id, part_id, message.received_at)
        self._reply(message, "ok", "accepted", "the next frame answers it", jobId=job_id)
        self._station.ask(
            PartTrigger(message.received_s, message.received_at, part_id=part_id, job_id=job_id)
        )

    def _recent_answer(self, part_id: str) -> Result | None:
        answer = self._outbox.find_answer(self._name, part_id)
        within_s = self._station.settings.answer_within_s
        asked_at = answer.trigger.received_at if answer else None
        if asked_at is None or within_s is None:
            return None
        return answer if (clock.now() - asked_at).total_seconds() <= within_s else None

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
