"""The one thread that talks to the broker: keeps a connection and owns everything that is on the wire."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from edge_infer import clock
from edge_infer.errors import EdgeInferError
from edge_infer.mqtt.connection import Acknowledged, Arrived, Connected, Connection, Lost, SubscribeRefused
from edge_infer.mqtt.images import Images
from edge_infer.mqtt.inbox import Inbox
from edge_infer.mqtt.messages import Publication, of_row
from edge_infer.mqtt.presence import Presence
from edge_infer.mqtt.refusals import Refusals
from edge_infer.mqtt.replies import Replies
from edge_infer.mqtt.retry import Retry, Timing
from edge_infer.mqtt.settings import MqttSettings
from edge_infer.mqtt.states import States
from edge_infer.mqtt.stats import PumpStats
from edge_infer.mqtt.suspects import Suspects
from edge_infer.mqtt.wake import Wake
from edge_infer.outbox import Outbox, Row
from edge_infer.progress import Loop
from edge_infer.settings import Secrets

log = logging.getLogger(__name__)

WINDOW = 20
"""Messages on the wire without PUBACK; the broker may allow fewer."""
FAREWELL_S = 0.5
"""Kept of the time for stopping, to say `stopped`."""
SLOW_LINK = 8000
"""Bytes a second that a link has at least: so long a large message may be on its way."""
HANG_S, PATIENCE_S = 30.0, 270.0
"""A silent name server takes so long; nothing is lost meanwhile, so a restart has time."""
UNSPECIFIED = 0x80
TOO_LARGE = 0x95


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
        self.loop = Loop("connection to the broker", limit_s=HANG_S, patience_s=PATIENCE_S)
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
        self._replies = Replies()
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
        self._trouble = ""
        """Told last, without what changes from attempt to attempt."""
        self._refusals = Refusals()
        """Of this connection."""
        self._acknowledged_any = False
        self._suspects = Suspects()
        self._retry = Retry(timing)

    def reply(self, publication: Publication) -> None:
        """Sent before anything else, and soon or not at all."""
        self._replies.put(publication)
        self._wake.set()

    def stop(self, timeout_s: float) -> None:
        """Deliver what can be delivered in that time, say `stopped`, end."""
        now = time.monotonic()
        self._drain_until = now + timeout_s - min(FAREWELL_S, timeout_s / 2)
        self._stop_at = now + timeout_s
        self._wake.set()

    def run(self) -> None:
        """Connect, talk, connect again, until stopped."""
        while self._stop_at is None:
            began, connections = time.monotonic(), self.stats.connections
            lost = self._session()
            was_in = self.stats.connections > connections
            if self._stop_at is not None or lost is None:
                break
            self._tell(lost, was_in=was_in)
            war = self._retry.ended(
                was_in=was_in,
                lived_s=time.monotonic() - began,
                # one that the broker closed for a message is no riddle
                explained=bool(self._refusals) or lost.blames_message or self._suspects.any,
                taken_over=lost.taken_over,
            )
            if war is not None:
                self._suspect(sure=war == "sure")
            self._pause()

    def _pause(self) -> None:
        until = time.monotonic() + self._retry.wait_s()
        while self._stop_at is None and (left := until - time.monotonic()) > 0:
            self.loop.passed(left)
            self._wake.wait(left)

    # -- one connection

    def _session(self) -> Lost | None:
        """Why it ended; None where we ended it."""
        self.loop.passed()
        connection = lost = None
        self._acknowledged_any = False
        try:
            password = self._settings.password
            connection = Connection(
                self._settings,
                client_id=self._client_id,
                password=self._secrets.read(password) if password is not None else None,
                will=self._presence.will(),
            )
            connection.open()
            self.stats.broker_certificate = connection.broker_certificate
            lost = self._talk(connection)
        except EdgeInferError as error:
            lost = Lost(str(error), news=error.message)
        except Exception as error:
            # a bug here or in paho costs one connection, not the delivery for good
            log.exception("the connection to the broker failed in an unexpected way")
            lost = Lost(f"{type(error).__name__}: {error}")
        finally:
            self.stats.connected, self.stats.connected_since = False, None
            if lost is not None and lost.by_broker:
                self._isolate(lost)
            # where the broker refused something, that is why it closed the connection
            explained = bool(self._refusals) or (lost is not None and lost.blames_message)
            self._outbox.disconnected(broken=not self._farewell and not explained)
            self._states.reconnected()
            self._images.disconnected()
            self._on_wire.clear()
            self._unacknowledged.clear()
            self.stats.in_flight = 0
            if connection is not None:
                connection.close(farewell=self._farewell)
        return lost

    def _isolate(self, lost: Lost) -> None:
        """One message for which the broker hangs up must not keep the others from being sent."""
        pictures = [mid for mid, sent in self._on_wire.items() if not isinstance(sent, Row) and not sent.text]
        on_wire = [sent for mid, sent in self._on_wire.items() if mid not in pictures]
        sent = self._suspects.closed(on_wire, named=lost.blames_message, worked=self._acknowledged_any)
        if sent is None or pictures:
            return
        why = lost.reason if lost.blames_message else "the broker closes the connection for it"
        self._refuse(sent, lost.code or UNSPECIFIED, why)
        self._retry.settled()
        for mid in [mid for mid, one in self._on_wire.items() if one is sent]:
            del self._on_wire[mid]

    def _talk(self, connection: Connection) -> Lost | None:
        answer_by = time.monotonic() + self._timing.connack_s
        while True:
            self.loop.passed()
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
            if self._on_wire and now - self._progress_s > self._patience_s:
                return Lost(f"the broker acknowledges nothing for {self._patience_s:g} s")
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
        allowed = 1 if self._suspects.any else self._allowed
        return min(WINDOW, self._terms.receive_maximum, allowed)

    @property
    def _patience_s(self) -> float:
        large = max(len(sent.payload) for sent in self._on_wire.values())
        return self._timing.ack_s + large // SLOW_LINK

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
            self._note_refused(event.topic, event.reason)
            log.error("no messages on %s: %s", event.topic, event.reason)

    def _begin(self, terms: Connected) -> None:
        self._terms = terms
        self._allowed = 1
        self._subscribed.clear()
        self._refusals.forget()
        self.stats.refused_topics = {}
        self.stats.connected = True
        self.stats.connected_since = clock.now()
        self.stats.connections += 1
        self.stats.trouble = None
        self._presence.say("online", self._states, self.stats.connected_since)
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
        self._allowed = 1 if refused else min(WINDOW, self._allowed + 1)
        if sent is None:
            return
        self._acknowledged_any = True
        self._suspects.acknowledged(sent)
        if refused:
            self._refuse(sent, answer.code, answer.reason)
        elif isinstance(sent, Row):
            self._outbox.delivered(sent)
            self.stats.delivered += 1
        elif sent.text:
            self._states.answered(sent.topic, self._progress_s)
        else:
            self._images.answered(refused=False)

    def _refuse(self, sent: Row | Publication, code: int, why: str) -> None:
        """The broker does not take it, or would not."""
        self.stats.refused += 1
        if isinstance(sent, Row):
            self._outbox.refused(sent, code, why)
        elif sent.text:
            self._states.refused(sent.topic, time.monotonic())
        else:
            self._images.answered(refused=True)
        if self._note_refused(sent.topic, why):
            log.error("the broker refuses %s: %s", sent.topic, why)

    def _note_refused(self, topic: str, why: str) -> bool:
        if not self._refusals.note(topic, why):
            return False
        self.stats.refused_topics = self._refusals.topics
        return True

    # -- out

    def _send(self, connection: Connection) -> None:
        self._presence.renew(self._states)
        while len(self._on_wire) < self._window:
            if (reply := self._replies.take()) is not None:
                self._put(connection, reply)
            elif (state := self._states.take(time.monotonic())) is not None:
                self._put(connection, state)
            elif self._draining() and (row := self._outbox.take()) is not None:
                self._put(connection, of_row(row), row)
            elif self._stop_at is None and (picture := self._images.take()) is not None:
                self._put(connection, picture)
            else:
                if not self._on_wire:
                    self._suspects.nothing_left()
                return

    def _put(self, connection: Connection, publication: Publication, row: Row | None = None) -> None:
        limit = self._terms.maximum_packet
        if limit is not None and publication.size > limit:
            # the broker would close the connection, again and again
            self._refuse(
                row or publication, TOO_LARGE, f"larger than the {limit} bytes that the broker takes"
            )
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
        old = self._subscribed.difference(self._inbox.topics)
        if old:
            connection.unsubscribe(list(old))
            self._subscribed -= old

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
            self._presence.say("stopped", self._states, clock.now())
            return False
        return self._states.told(self._presence.topic)

    def _tell(self, lost: Lost, *, was_in: bool) -> None:
        """One line a change, not one an attempt."""
        news = was_in or (lost.news or lost.reason) != self._trouble
        self._trouble = lost.news or lost.reason
        self.stats.trouble = lost.reason
        self.stats.last_trouble = (lost.reason, clock.now())
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
