"""The one thread that talks to the broker: keeps a connection and owns everything that is on the wire."""

from __future__ import annotations

import logging
import random
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from edge_infer import clock
from edge_infer.errors import EdgeInferError
from edge_infer.mqtt import presence
from edge_infer.mqtt.connection import Acknowledged, Arrived, Connected, Connection, Lost, SubscribeRefused
from edge_infer.mqtt.images import Images
from edge_infer.mqtt.inbox import Inbox
from edge_infer.mqtt.messages import EVENT_SCHEMA, Publication
from edge_infer.mqtt.presence import Presence
from edge_infer.mqtt.settings import MqttSettings
from edge_infer.mqtt.states import States
from edge_infer.mqtt.wake import Wake
from edge_infer.outbox import Outbox, Row
from edge_infer.outbox.gaps import SCHEMA as GAP_SCHEMA
from edge_infer.result import SCHEMA
from edge_infer.settings import Secrets

log = logging.getLogger(__name__)

WINDOW = 20
"""Messages on the wire without PUBACK; the broker may allow fewer."""
REPLIES = 100
"""Answers to commands that may wait; the oldest is dropped."""
FAREWELL_S = 0.5
"""Kept of the time for stopping, to say `stopped`."""
SHORT_S, SHORT_LIVES = 10.0, 3
"""So many connections in a row that live so short are suspicious."""
LONG_FAILURES = 6
"""As after so many failures: no war about a client id."""
TOO_LARGE = 0x95


@dataclass(frozen=True, slots=True)
class Timing:
    """How patient the pump is."""

    connack_s: float = 10.0
    """For the broker's answer to CONNECT."""
    ack_s: float = 20.0
    """Without any PUBACK the connection is made anew."""
    retry_min_s: float = 1.0
    """Before the second attempt; doubled each time, less a random part."""
    retry_max_s: float = 30.0
    steady_s: float = 30.0
    """A connection that lived so long makes the next wait short again."""


@dataclass(slots=True)
class PumpStats:
    """Since the start of the process."""

    connected: bool = False
    connections: int = 0
    delivered: int = 0
    """Results, events and gaps that the broker took."""
    refused: int = 0
    """Messages of any kind that it refused."""
    images: int = 0
    """Pictures that the broker took."""
    images_dropped: int = 0
    """Pictures that were not sent or not taken."""
    in_flight: int = 0
    taken_over: int = 0
    """How often another client used our id, or seemed to."""
    trouble: str | None = None
    """Why there is no connection, None while there is one."""


class Pump:
    """`run` is the thread's life; `stop`, `reply` and ``wake`` are for others."""

    def __init__(
        self,
        settings: MqttSettings,
        *,
        outbox: Outbox,
        states: States,
        inbox: Inbox,
        images: Images,
        presence: Presence,
        wake: Wake,
        secrets: Secrets,
        client_id: str,
        timing: Timing,
        alarm: Callable[[str, Mapping[str, Any]], None],
    ) -> None:
        self.stats = PumpStats()
        self._settings = settings
        self._outbox = outbox
        self._states = states
        self._inbox = inbox
        self._images = images
        self._presence = presence
        self._wake = wake
        self._secrets = secrets
        self._client_id = client_id
        self._timing = timing
        self._alarm = alarm
        self._replies: deque[Publication] = deque(maxlen=REPLIES)
        self._on_wire: dict[int, Row | Publication] = {}
        """By message id; nobody else knows them."""
        self._terms = Connected(client_id, WINDOW, None, retains=True)
        self._allowed = 1
        """Grows with each PUBACK, so that a message that the broker does not like is on the wire alone: if it
        closes the connection, its PUBACK is not lost among what it did not read."""
        self._subscribed: set[str] = set()
        self._unacknowledged: dict[int, Arrived] = {}
        self._progress_s = 0.0
        """When the wire last moved: a PUBACK, or the first message on an empty one."""
        self._stop_at: float | None = None
        self._drain_until = 0.0
        self._stopped_said = False
        self._farewell = False
        self._told_refusals: set[tuple[str, str]] = set()

    def reply(self, publication: Publication) -> None:
        """Sent before anything else."""
        self._replies.append(publication)
        self._wake.set()

    def stop(self, timeout_s: float) -> None:
        """Deliver what can be delivered in that time, say `stopped`, end."""
        now = time.monotonic()
        self._drain_until = now + timeout_s - min(FAREWELL_S, timeout_s / 2)
        self._stop_at = now + timeout_s
        self._wake.set()

    def run(self) -> None:
        """Connect, talk, connect again, until stopped."""
        failures = short_lives = 0
        while self._stop_at is None:
            began, connections = time.monotonic(), self.stats.connections
            lost = self._session()
            lived_s = time.monotonic() - began
            was_in = self.stats.connections > connections
            if self._stop_at is not None or lost is None:
                break
            self._tell(lost, was_in=was_in)
            failures = 0 if was_in and lived_s >= self._timing.steady_s else failures + 1
            # one that the broker closed for a refused message is no riddle
            riddle = was_in and lived_s < SHORT_S and not self._told_refusals
            short_lives = short_lives + 1 if riddle else 0
            if lost.taken_over or short_lives == SHORT_LIVES:
                self._suspect(sure=lost.taken_over)
            if lost.taken_over or short_lives >= SHORT_LIVES:
                failures = max(failures, LONG_FAILURES)
            self._pause(failures)

    def _pause(self, failures: int) -> None:
        longest = min(self._timing.retry_max_s, self._timing.retry_min_s * 2 ** max(0, failures - 1))
        # many devices lose the same broker at the same instant
        until = time.monotonic() + longest * random.uniform(0.5, 1.0)  # noqa: S311 - not a secret
        while self._stop_at is None and (left := until - time.monotonic()) > 0:
            self._wake.wait(left)

    # -- one connection

    def _session(self) -> Lost | None:
        """Why it ended; None where we ended it."""
        connection = None
        try:
            password = self._settings.password
            connection = Connection(
                self._settings,
                client_id=self._client_id,
                password=self._secrets.read(password) if password is not None else None,
                will=self._presence.will(),
            )
            connection.open()
            return self._talk(connection)
        except EdgeInferError as error:
            return Lost(str(error))
        except Exception as error:
            # a bug here or in paho costs one connection, not the delivery for good
            log.exception("the connection to the broker failed in an unexpected way")
            return Lost(f"{type(error).__name__}: {error}")
        finally:
            self.stats.connected = False
            # where the broker refused something, that is why it closed the connection
            self._outbox.disconnected(broken=not self._farewell and not self._told_refusals)
            self._states.reconnected()
            self._images.disconnected()
            self._on_wire.clear()
            self._unacknowledged.clear()
            self.stats.in_flight = 0
            if connection is not None:
                connection.close(farewell=self._farewell)

    def _talk(self, connection: Connection) -> Lost | None:
        answer_by = time.monotonic() + self._timing.connack_s
        while True:
            for event in connection.step(self._wake.fd, self._wait_s()):
                if isinstance(event, Lost):
                    return event
                self._happened(event, connection)
            self._wake.clear()
            now = time.monotonic()
            if not self.stats.connected:
                if self._stop_at is not None:
                    return None
                if now > answer_by:
                    return Lost("the broker takes the connection and says nothing")
                continue
            if self._on_wire and now - self._progress_s > self._timing.ack_s:
                return Lost(f"the broker acknowledges nothing for {self._timing.ack_s:g} s")
            if self._stop_at is not None and self._may_leave(now, self._stop_at):
                # unless `stopped` arrived, the broker shall say `offline`
                self._farewell = self._stopped_said and self._states.told(self._presence.topic)
                return None
            self._serve_commands(connection)
            self._send(connection)

    def _wait_s(self) -> float:
        if not self.stats.connected:
            return min(0.2, self._timing.connack_s)
        if self._stop_at is not None:
            return 0.02
        due = self._states.wait_s(time.monotonic())
        return 1.0 if due is None or len(self._on_wire) >= self._window else min(1.0, due)

    @property
    def _window(self) -> int:
        return min(WINDOW, self._terms.receive_maximum, self._allowed)

    def _happened(
        self, event: Connected | Acknowledged | SubscribeRefused | Arrived, connection: Connection
    ) -> None:
        if isinstance(event, Connected):
            self._begin(event)
        elif isinstance(event, Acknowledged):
            self._acknowledged(event)
        elif isinstance(event, Arrived) and event.message.retained:
            log.warning("a retained message on %s is ignored", event.message.topic)
            connection.acknowledge(event)
        elif isinstance(event, Arrived):
            if self._inbox.put(event):
                self._unacknowledged[event.mid] = event
            else:
                # without an answer the broker would soon send nothing more; the sender misses its own
                connection.acknowledge(event)
        else:
            log.error("the broker refuses a subscription: %s; commands do not arrive", event.reason)

    def _begin(self, terms: Connected) -> None:
        self._terms = terms
        self._allowed = 1
        self._subscribed.clear()
        self._told_refusals.clear()
        self.stats.connected = True
        self.stats.connections += 1
        self.stats.trouble = None
        now = clock.now()
        self._states.put(
            self._presence.topic,
            self._presence.payload("online", now),
            now_s=time.monotonic(),
            user=presence.USER,
        )
        self._outbox.connected()
        self._images.connected(terms.maximum_packet)
        log.info(
            "connected to the broker %s:%d as %s",
            self._settings.host,
            self._settings.broker_port,
            terms.client_id,
        )

    def _acknowledged(self, answer: Acknowledged) -> None:
        sent = self._on_wire.pop(answer.mid, None)
        self._progress_s = time.monotonic()
        self.stats.in_flight = len(self._on_wire)
        refused = answer.code >= 0x80
        self.stats.refused += refused
        self._allowed = 1 if refused else min(WINDOW, self._allowed + 1)
        if isinstance(sent, Row):
            if refused:
                self._outbox.refused(sent, answer.code, answer.reason)
            else:
                self._outbox.delivered(sent)
                self.stats.delivered += 1
        elif sent is not None and not sent.text:
            self._images.answered(refused=refused)
        elif sent is not None and refused:
            self._states.refused(sent.topic, time.monotonic())
        elif sent is not None:
            self._states.answered(sent.topic)
        if sent is not None and refused and (sent.topic, answer.reason) not in self._told_refusals:
            self._told_refusals.add((sent.topic, answer.reason))
            log.error("the broker refuses %s: %s", sent.topic, answer.reason)

    # -- out

    def _send(self, connection: Connection) -> None:
        while len(self._on_wire) < self._window:
            if self._replies:
                self._put(connection, self._replies.popleft())
            elif (state := self._states.take(time.monotonic())) is not None:
                self._put(connection, state)
            elif self._draining() and (row := self._outbox.take()) is not None:
                self._put(connection, _publication(row), row)
            elif self._stop_at is None and (picture := self._images.take()) is not None:
                self._put(connection, picture)
            else:
                return

    def _put(self, connection: Connection, publication: Publication, row: Row | None = None) -> None:
        limit = self._terms.maximum_packet
        if limit is not None and publication.size > limit:
            # the broker would close the connection, again and again
            self.stats.refused += 1
            why = f"larger than the {limit} bytes that the broker takes"
            if row is not None:
                self._outbox.refused(row, TOO_LARGE, why)
            elif not publication.text:
                self._images.answered(refused=True)
            else:
                self._states.refused(publication.topic, time.monotonic())
                log.error("%s is not sent: %s", publication.topic, why)
            return
        if not self._on_wire:
            self._progress_s = time.monotonic()
        if publication.retain and not self._terms.retains:
            publication = replace(publication, retain=False)
        self._on_wire[connection.send(publication)] = row or publication
        self.stats.in_flight = len(self._on_wire)

    def _serve_commands(self, connection: Connection) -> None:
        for arrived in self._inbox.handled():
            if self._unacknowledged.get(arrived.mid) is arrived:
                del self._unacknowledged[arrived.mid]
                connection.acknowledge(arrived)
        new = [topic for topic in self._inbox.topics if topic not in self._subscribed]
        if new:
            connection.subscribe(new)
            self._subscribed.update(new)

    # -- the end

    def _draining(self) -> bool:
        """Whether messages of the outbox are still sent."""
        return self._stop_at is None or time.monotonic() < self._drain_until

    def _may_leave(self, now: float, stop_at: float) -> bool:
        """Says `stopped` once the outbox is empty or the time is nearly over."""
        if now >= stop_at:
            return True
        if self._draining() and (self._on_wire or not self._outbox.idle):
            return False
        if not self._stopped_said:
            # `stopped` is the last word: the last counts come before it
            if self._states.hurry(now):
                return False
            self._stopped_said = True
            self._states.put(
                self._presence.topic,
                self._presence.payload("stopped", clock.now()),
                now_s=now,
                user=presence.USER,
            )
            return False
        return self._states.told(self._presence.topic)

    def _tell(self, lost: Lost, *, was_in: bool) -> None:
        """One line a change, not one an attempt."""
        news = was_in or lost.reason != self.stats.trouble
        self.stats.trouble = lost.reason
        where = f"{self._settings.host}:{self._settings.broker_port}"
        log.log(
            logging.WARNING if news else logging.DEBUG,
            "%s the broker %s: %s; results are kept",
            "lost" if was_in else "cannot reach",
            where,
            lost.reason,
        )

    def _suspect(self, *, sure: bool) -> None:
        """Two clients with one id throw each other out, for ever."""
        self.stats.taken_over += 1
        said = "uses" if sure else "probably uses (the connection is lost each time soon after it is made)"
        log.error(
            "another client %s our id %s at the broker; give each its own client_id", said, self._client_id
        )
        self._alarm("client_id_taken_over", {"clientId": self._client_id, "sure": sure})


def _publication(row: Row) -> Publication:
    if row.kind == "result":
        user = [("schema", SCHEMA), ("seq", str(row.seq)), ("streamId", row.stream_id)]
        if row.delayed:
            user.append(("delayed", "true"))
    elif row.kind == "gap":
        user = [("schema", GAP_SCHEMA), ("streamId", row.stream_id)]
    else:
        user = [("schema", EVENT_SCHEMA)]
    return Publication(row.topic, row.payload, user=tuple(user))
