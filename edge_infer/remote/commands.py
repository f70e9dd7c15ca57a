"""Requests from the broker, past every rule, to the verbs; and their answers."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar, get_args

from edge_infer import clock
from edge_infer.errors import DeliveryError, EdgeInferError, OutboxError
from edge_infer.messages.command import ACTUATING, AT_DEVICE, AT_STATION, REQUESTS, Reply, VerbName
from edge_infer.mqtt.messages import Message, encode
from edge_infer.mqtt.reply_space import RESPONSES, answerable
from edge_infer.remote.answer import Answer, RefusedError
from edge_infer.remote.audit import Audit
from edge_infer.remote.command import LONGEST_CORRELATION, Command, claimed
from edge_infer.remote.freshness import require_fresh
from edge_infer.remote.lane import Lane
from edge_infer.remote.memory import DiskMemory, Memory, PartMemory
from edge_infer.remote.payload import read_envelope, read_request
from edge_infer.remote.rate import Rates
from edge_infer.remote.reach import Reach
from edge_infer.remote.settings import CommandSettings
from edge_infer.remote.verbs import VERBS, Begun, Work

log = logging.getLogger(__name__)

T = TypeVar("T")

PART: VerbName = "start_single_job"
QUEUES: dict[Work, int] = {"parts": 256, "changes": 16, "pictures": 4, "questions": 32}
"""Requests of each kind that may wait; the next one is told `busy`."""
PARTS_PER_MINUTE = 12_000
"""No inspection line is as fast; a flood is."""
REFUSALS_PER_MINUTE = 600
"""Answered ones, all verbs and requesters together: answers pass results, and must not hold them up."""
TOLD = 200
"""Characters of a text in the audit."""
CLOSE_S = 0.3
"""For what is in hand at a stop."""


class Commands:
    """`listen` once the stations are there; `close` at the stop."""

    def __init__(self, reach: Reach, state_dir: Path) -> None:
        self._reach = reach
        self._closed = False
        self._per_minute = 0
        self._topics: set[str] = set()
        self._rates = Rates()
        self._audit = Audit(state_dir)
        self._parts = PartMemory()
        self._done = DiskMemory(state_dir, reach.boot_id)
        self._lanes = {work: Lane(work, QUEUES[work]) for work in get_args(Work)}

    def listen(self, settings: CommandSettings) -> None:
        """Ask the broker for what is allowed and for nothing else, at each connection anew.

        Once more where stations or settings are others now.
        """
        self._per_minute = settings.per_minute
        stations = self._reach.stations
        allowed: list[tuple[VerbName, str | None]] = [
            (PART, name) for name, one in stations.items() if one.settings.trigger.type == "mqtt"
        ]
        allowed += [
            (verb, name) for verb in settings.allow if verb in AT_STATION - {PART} for name in stations
        ]
        # behind the others: who is answered by the device is heard everywhere
        allowed += [(verb, None) for verb in settings.allow if verb in AT_DEVICE]
        topics = set()
        for verb, station in allowed:
            where = f"{self._reach.prefix}/{station}" if station is not None else self._reach.prefix
            topics.add(topic := f"{where}/cmd/{verb}")
            if topic not in self._topics:
                self._reach.publisher.subscribe(topic, partial(self._received, verb, station))
        for topic in self._topics - topics:
            self._reach.publisher.unsubscribe(topic)
        self._topics = topics

    def close(self) -> bool:
        """What is in hand is finished if it takes no longer than a moment; False where it does."""
        until_s = time.monotonic() + CLOSE_S
        self._closed = True
        ended = [lane.close(max(0.0, until_s - time.monotonic())) for lane in self._lanes.values()]
        self._done.close()
        self._audit.close(max(0.1, until_s - time.monotonic()))
        return all(ended)

    # -- on the thread that received it: everything here is quick

    def _received(self, verb: VerbName, station: str | None, message: Message) -> None:
        command = None
        try:
            command = Command(verb, station, message, read_request(message.payload, REQUESTS[verb]))
            self._admit(command)
            if verb == PART:
                self._begin_part(command)
            elif not self._lanes[VERBS[verb].work].put(partial(self._work, command)):
                raise _busy()
        except RefusedError as error:
            unread = Command(verb, station, message, read_envelope(message.payload))
            silent = not self._rates.allows("refusals", "", REFUSALS_PER_MINUTE, time.monotonic())
            self._answer(command or unread, error.answer, silent=silent)

    def _admit(self, command: Command) -> None:
        topic = command.response_topic
        if topic is not None and not answerable(topic):
            text = f"it wants its answer on {topic[:100]!a}: only topics below {RESPONSES} are answered"
            raise RefusedError("bad_response_topic", text)
        if command.correlation is not None and len(command.correlation) > LONGEST_CORRELATION:
            raise RefusedError("bad_request", f"more than {LONGEST_CORRELATION} bytes of correlation data")
        if self._closed:
            raise RefusedError("stopping", "the service stops; ask later", status="busy")
        if command.station is not None and command.station not in self._reach.stations:
            raise RefusedError("no_station", f"there is no station {command.station} any more")
        _require_fresh(command)
        who = topic or claimed(command.message) or ""
        per_minute = PARTS_PER_MINUTE if command.verb == PART else self._per_minute
        if not self._rates.allows(command.verb, who, per_minute, time.monotonic()):
            raise RefusedError("rate_limit", "too many requests; ask later", status="busy")

    def _begin_part(self, command: Command) -> None:
        """The station is told now; only the answer waits for the disk, behind no other kind of work."""
        lane, key = self._lanes["parts"], command.key
        if lane.full:
            raise _busy()
        if key is not None and not self._parts.begin(key, command.fingerprint):
            # behind the first one, which has its answer by then
            lane.put(lambda: self._answer_again(command, self._parts.answer(key)))
            return
        begun = self._carry_out(command)
        lane.put(lambda: self._finish(command, begun, self._parts))

    # -- on a worker's thread

    def _work(self, command: Command) -> None:
        try:
            # it may have waited
            _require_fresh(command)
            if command.verb not in ACTUATING or command.key is None:
                self._finish(command, self._carry_out(command), None)
                return
            known = self._done.begin(command.key, command.fingerprint)
        except RefusedError as error:
            self._answer(command, error.answer)
            return
        if known is not None:
            self._answer_again(command, known.answer)
        else:
            self._finish(command, self._carry_out(command), self._done)

    def _carry_out(self, command: Command) -> Begun:
        return _guarded(
            command.verb, lambda: VERBS[command.verb].carry_out(command.request, command, self._reach)
        )

    def _finish(self, command: Command, begun: Begun, memory: Memory | None) -> None:
        answer = begun if isinstance(begun, Answer) else _guarded(command.verb, begun)
        if memory is not None and command.key is not None:
            memory.finish(command.key, answer)
        self._answer(command, answer)

    # -- answers

    def _answer_again(self, command: Command, answer: Answer | None) -> None:
        text = "it came before and was interrupted: whether it was carried out is not known"
        self._answer(command, answer or Answer("error", "interrupted", text), dup=True)

    def _answer(self, command: Command, answer: Answer, *, dup: bool = False, silent: bool = False) -> None:
        self._audit.note(
            command.message.topic,
            answer.status,
            answer.code,
            claimed_by=claimed(command.message),
            part=command.verb == PART,
            detail={
                "request": command.parameters,
                "correlationId": (command.correlation_text or "")[:TOLD] or None,
                "message": answer.message[:TOLD],
                **({"dup": True} if dup else {}),
            },
        )
        topic = command.response_topic
        if topic is None or silent or not answerable(topic):
            return
        reply = Reply(
            status=answer.status,
            code=answer.code,
            message=answer.message,
            data=answer.data,
            correlation_id=command.correlation_text,
            ts=clock.now(),
            dup=True if dup else None,
        )
        self._reach.publisher.respond(
            replace(command.message, response_topic=topic),
            encode(reply),
        )


def _require_fresh(command: Command) -> None:
    require_fresh(
        command.message,
        command.request,
        actuating=command.verb in ACTUATING,
        now_s=time.monotonic(),
        now=clock.now(),
        synced=clock.synced,
    )


def _guarded(verb: VerbName, work: Callable[[], T]) -> T | Answer:
    """What it gives, or what went wrong."""
    try:
        return work()
    except EdgeInferError as error:
        return _failed(error)
    except Exception:
        # a bug in one verb must not end commands, and the asker must not wait for ever
        log.exception("the command %s failed", verb)
        return Answer("error", "internal", "a bug in edge-infer; its log says more")


def _failed(error: EdgeInferError) -> Answer:
    if isinstance(error, RefusedError):
        return error.answer
    if isinstance(error, DeliveryError):
        return Answer("error", "not_sent", str(error))
    # the disk's trouble, not the request's
    if isinstance(error, OutboxError) or isinstance(error.__cause__, OSError):
        return Answer("error", "not_stored", str(error))
    return Answer("rejected", "refused", str(error))


def _busy() -> RefusedError:
    return RefusedError("queue_full", "too many requests wait already; ask later", status="busy")
