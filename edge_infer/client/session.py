"""A connection to the broker that is made again for ever, on a thread of its own.

paho is only the transport: its own thread dies of an exception without a word, its select() is deaf for
descriptors above 1023, and after a reconnection it would acknowledge a message by the number that another one
has now.
"""

from __future__ import annotations

import logging
import random
import selectors
import socket
import ssl
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode
from paho.mqtt.subscribeoptions import SubscribeOptions

from edge_infer.client.broker import Broker, Tls
from edge_infer.errors import DeliveryError
from edge_infer.sockets import no_delay, pending, tls_context

log = logging.getLogger(__name__)

CONNECT_S = 5.0
"""For TCP and again for TLS."""
CONNACK_S = 10.0
RETRY_MIN_S, RETRY_MAX_S = 1.0, 30.0
STEADY_S = 30.0
"""A connection that lived so long makes the next wait short again."""
SHORT_S, SHORT_LIVES = 10.0, 3
"""So many connections in a row that live so short are suspicious."""
WINDOW = 100
"""Messages that the broker may send before they are acknowledged (MQTT 5)."""
LIMIT = 1000
"""Messages that wait for the caller; beyond it nothing is read, so that the broker keeps the rest."""
CLOSE_S = 5.0

_TAKEN_OVER = 0x8E


@dataclass(frozen=True, slots=True)
class Arrived:
    """One message; `Session.acknowledge` lets the broker forget it."""

    topic: str
    payload: bytes
    retained: bool
    user: Mapping[str, str]
    """MQTT 5 user properties."""
    expiry_s: int | None
    """MQTT 5: how long it still holds."""
    received_s: float
    """time.monotonic()"""
    connection: int
    mid: int
    """0: there is nothing to acknowledge (QoS 0)."""


class Session:
    """Subscribed to ``filters`` from `start` to `close`; a message stays the broker's until acknowledged."""

    def __init__(
        self,
        broker: Broker,
        filters: Sequence[str],
        *,
        client_id: str | None,
        keep_s: int,
        newest_of: Callable[[Arrived], Hashable] | None = None,
    ) -> None:
        """``keep_s``: so long the broker keeps messages while we are away; 0: not at all.

        ``newest_of``: of the messages that it gives the same key only the newest waits for the caller,
        acknowledged already; on the session's thread.
        """
        if keep_s and not client_id:
            raise ValueError("messages are kept for a client id: give client_id, or keep_s=0")
        self.connected = False
        self.trouble: str | None = None
        """Why there is no connection, None while there is one."""
        self.taken_over = False
        """Another client uses our id, or an identity that the broker makes into it, or seems to: not every
        broker says so, but then connections live short, again and again."""
        self.subscriptions = 0
        """How often the broker took our subscription."""
        self._broker = broker
        self._filters = list(filters)
        self._client_id = client_id or f"edge-infer-client-{uuid.uuid4().hex[:16]}"
        self._keep_s = keep_s
        self._newest_of = newest_of
        self._arrived: dict[Hashable, Arrived] = {}
        """In order; by key where only the newest counts."""
        self._something = threading.Condition()
        self._acks: deque[Arrived] = deque()
        self._connection = 0
        self._number = 0
        """Of the message."""
        self._lost: str | None = None
        self._refused: str | None = None
        self._closed = threading.Event()
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)
        self._thread = threading.Thread(target=self._run, name="edge-infer-client", daemon=True)

    def start(self) -> None:
        """Connect in the background. DeliveryError where the certificates cannot be used."""
        if self._broker.tls is not None:
            _context(self._broker.tls)
        self._thread.start()

    def take(self, timeout_s: float | None) -> Arrived | None:
        """The next message; None after ``timeout_s`` (None: wait for ever) or when it is closed."""
        with self._something:
            self._something.wait_for(lambda: self._arrived or self._closed.is_set(), timeout_s)
            if not self._arrived or self._closed.is_set():
                return None
            full = not self._room()
            arrived = self._arrived.pop(next(iter(self._arrived)))
        if full:
            self._wake()
        return arrived

    def acknowledge(self, arrived: Arrived) -> None:
        """It is safe: the broker may forget it."""
        self._acks.append(arrived)
        self._wake()

    def close(self) -> None:
        """Send what was acknowledged, disconnect. Bounded; safe to call twice."""
        self._closed.set()
        with self._something:
            self._something.notify_all()
        self._wake()
        if self._thread.is_alive():
            self._thread.join(CLOSE_S)
        if not self._thread.is_alive():
            self._reader.close()
            self._writer.close()

    def _wake(self) -> None:
        # full: it will wake anyhow; closed: nobody waits any more
        with suppress(OSError):
            self._writer.send(b"\0")

    # -- the thread

    def _run(self) -> None:
        failures = short_lives = 0
        while not self._closed.is_set():
            began_s = time.monotonic()
            try:
                lost = self._live()
            except DeliveryError as error:
                lost = str(error)
            except Exception as error:
                # a bug here or in paho costs one connection, not the subscriber for good
                log.exception("the connection to the broker failed in an unexpected way")
                lost = f"{type(error).__name__}: {error}"
            was_in, self.connected = self.connected, False
            if self._closed.is_set():
                return
            if was_in or lost != self.trouble:
                log.warning("no connection to the broker %s: %s", self._broker.address, lost)
            self.trouble = lost
            lived_s = time.monotonic() - began_s
            failures += 1
            if was_in and lived_s >= STEADY_S:
                failures, self.taken_over = 0, False
            short_lives = short_lives + 1 if was_in and lived_s < SHORT_S else 0
            if short_lives == SHORT_LIVES and not self.taken_over:
                self.taken_over = True
                log.error("another client seems to use the client id %s", self._client_id)
            longest_s = min(RETRY_MAX_S, RETRY_MIN_S * 2 ** max(0, failures - 1))
            if self.taken_over:
                longest_s = RETRY_MAX_S
            # many subscribers lose the same broker at the same instant
            self._closed.wait(longest_s * random.uniform(0.5, 1.0))  # noqa: S311 - not a secret

    def _live(self) -> str:
        """One connection; why it ended."""
        self._connection += 1
        self._lost = self._refused = None
        client = self._client()
        try:
            self._open(client)
            with selectors.DefaultSelector() as selector:
                return self._talk(client, selector)
        finally:
            if (sock := client.socket()) is not None:
                sock.close()

    def _talk(self, client: paho.Client, selector: selectors.BaseSelector) -> str:
        sock: Any = client.socket()
        if sock is None:
            return self._lost or "the connection broke"
        selector.register(self._reader, selectors.EVENT_READ)
        selector.register(sock, selectors.EVENT_READ)
        answer_by = time.monotonic() + CONNACK_S
        while self._lost is None:
            if not self.connected and time.monotonic() > answer_by:
                return "the broker takes the connection and does not answer"
            self._send_acks(client)
            if self._closed.is_set():
                client.disconnect()
                return "closed"
            if client.socket() is None:
                # whatever is written may be what finds out that the connection has broken
                break
            room = self._room()
            wanted = (selectors.EVENT_READ if room else 0) | (
                selectors.EVENT_WRITE if client.want_write() else 0
            )
            readable = self._wait(selector, sock, wanted, room=room)
            if room and (readable & selectors.EVENT_READ or pending(sock)):
                client.loop_read()
            if readable & selectors.EVENT_WRITE:
                client.loop_write()
            client.loop_misc()
        return self._lost or "the connection broke"

    def _wait(self, selector: selectors.BaseSelector, sock: Any, wanted: int, *, room: bool) -> int:
        registered = sock in selector.get_map()
        if wanted and registered:
            selector.modify(sock, wanted)
        elif wanted:
            selector.register(sock, wanted)
        elif registered:
            selector.unregister(sock)
        happened = 0
        for key, events in selector.select(0 if room and pending(sock) else 1.0):
            if key.fileobj is self._reader:
                _drain(self._reader)
            else:
                happened = events
        return happened

    def _room(self) -> bool:
        return self._newest_of is not None or len(self._arrived) < LIMIT

    def _send_acks(self, client: paho.Client) -> None:
        while self._acks:
            arrived = self._acks.popleft()
            # on another connection its number means another message; the broker sends it again there
            if arrived.connection == self._connection and arrived.mid:
                client.ack(arrived.mid, 1)

    def _client(self) -> paho.Client:
        broker = self._broker
        v5 = broker.protocol == "5"
        client = paho.Client(
            CallbackAPIVersion.VERSION2,
            client_id=self._client_id,
            clean_session=None if v5 else not self._keep_s,
            protocol=paho.MQTTv5 if v5 else paho.MQTTv311,
            reconnect_on_failure=False,
            manual_ack=True,
        )
        client.connect_timeout = CONNECT_S
        if broker.user is not None or broker.password is not None:
            client.username_pw_set(broker.user, broker.password)
        if broker.tls is not None:
            client.tls_set_context(_context(broker.tls))
        client.on_socket_open = no_delay
        client.on_connect = self._on_connect
        client.on_subscribe = self._on_subscribe
        client.on_message = self._on_message
        client.on_disconnect = self._on_disconnect
        return client

    def _open(self, client: paho.Client) -> None:
        broker = self._broker
        properties = None
        if broker.protocol == "5":
            properties = Properties(PacketTypes.CONNECT)
            properties.ReceiveMaximum = WINDOW
            properties.SessionExpiryInterval = self._keep_s
        host, _, port = broker.address.rpartition(":")
        clean = not self._keep_s if broker.protocol == "5" else paho.MQTT_CLEAN_START_FIRST_ONLY
        try:
            client.connect(host, int(port), broker.keepalive_s, clean_start=clean, properties=properties)
        except ssl.SSLCertVerificationError as error:
            raise DeliveryError(
                f"the broker's certificate is not accepted: {error.verify_message}",
                hint="check the authority (ca), the broker's name and this machine's clock",
            ) from error
        except TimeoutError as error:
            raise DeliveryError(f"the broker does not answer within {CONNECT_S:g} s") from error
        except OSError as error:
            raise DeliveryError(f"no connection: {error.strerror or error}") from error

    # -- paho's callbacks, on our thread

    def _on_connect(
        self, client: paho.Client, _data: object, flags: paho.ConnectFlags, code: ReasonCode, _props: object
    ) -> None:
        if code.is_failure:
            self._refused = f"the broker refuses: {code}"
            return
        if self._keep_s and self.subscriptions and not flags.session_present:
            log.warning("the broker has forgotten our session; what came meanwhile may be missing")
        # each time: a broker may have forgotten it
        if self._broker.protocol == "5":
            client.subscribe([(one, SubscribeOptions(qos=1)) for one in self._filters])
        else:
            client.subscribe([(one, 1) for one in self._filters])

    def _on_subscribe(
        self, _client: paho.Client, _data: object, _mid: int, codes: list[ReasonCode], _props: object
    ) -> None:
        refused = [str(code) for code in codes if code.is_failure]
        if refused:
            self._lost = f"the broker refuses the subscription: {refused[0]}"
            return
        self.connected, self.trouble = True, None
        self.subscriptions += 1

    def _on_message(self, _client: paho.Client, _data: object, message: paho.MQTTMessage) -> None:
        properties: Any = message.properties
        arrived = Arrived(
            topic=message.topic,
            payload=bytes(message.payload),
            retained=message.retain,
            user=dict(getattr(properties, "UserProperty", ())),
            expiry_s=getattr(properties, "MessageExpiryInterval", None),
            received_s=time.monotonic(),
            connection=self._connection,
            mid=message.mid if message.qos else 0,
        )
        self._number += 1
        key = self._newest_of(arrived) if self._newest_of is not None else self._number
        with self._something:
            self._arrived.pop(key, None)
            self._arrived[key] = arrived
            self._something.notify_all()
        if self._newest_of is not None:
            self._acks.append(arrived)

    def _guess(self) -> str:
        own = self._broker.tls is not None and self._broker.tls.cert is not None
        certificate = "was our certificate revoked" if own else "does it want a certificate"
        if self._broker.protocol != "5":
            return f"; {certificate}?"
        return f'; {certificate}, does it speak MQTT 5 (else protocol "3.1.1")?'

    def _on_disconnect(
        self,
        _client: paho.Client,
        _data: object,
        flags: paho.DisconnectFlags,
        code: ReasonCode,
        _props: object,
    ) -> None:
        if self._lost is not None:
            # paho tells the end of the socket after what the broker said
            return
        if self._refused is not None:
            self._lost = self._refused
        elif flags.is_disconnect_packet_from_server:
            self.taken_over |= code.value == _TAKEN_OVER
            self._lost = f"the broker closed it: {code}"
        elif not self.connected:
            self._lost = f"the broker closed the connection without a word{self._guess()}"
        else:
            self._lost = "the connection broke"


def _context(tls: Tls) -> ssl.SSLContext:
    return tls_context(tls.ca, tls.cert, tls.key)


def _drain(reader: socket.socket) -> None:
    with suppress(BlockingIOError):
        while reader.recv(4096):
            pass
