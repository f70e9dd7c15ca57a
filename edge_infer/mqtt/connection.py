"""One connection to the broker, made once and thrown away: paho is the transport and keeps nothing.

paho is driven from the caller's own poll loop, not from its thread: its thread dies of an exception in a
callback without saying so, its select() is deaf for descriptors above 1023, and stopping it waits for the
broker. A new client for each connection means that nothing is sent again behind the outbox's back.
"""

from __future__ import annotations

import select
import socket
import ssl
import time
from collections import deque
from dataclasses import dataclass
from typing import Any

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode
from paho.mqtt.subscribeoptions import SubscribeOptions

from edge_infer import clock
from edge_infer.errors import DeliveryError
from edge_infer.mqtt.messages import Message, Publication
from edge_infer.mqtt.settings import MqttSettings, Tls

CONNECT_S = 5.0
"""For TCP and again for TLS."""
RECEIVE_MAXIMUM = 20
"""Commands that the broker may send before they are acknowledged."""

_TAKEN_OVER = 0x8E


@dataclass(frozen=True, slots=True)
class Connected:
    """The broker lets us in, on these terms."""

    client_id: str
    receive_maximum: int
    """QoS 1 messages that it takes before it acknowledged them."""
    maximum_packet: int | None
    """Bytes; None: no limit that it told."""
    retains: bool


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """PUBACK."""

    mid: int
    code: int
    reason: str


@dataclass(frozen=True, slots=True)
class SubscribeRefused:
    """SUBACK that refuses."""

    reason: str


@dataclass(frozen=True, slots=True)
class Arrived:
    """A message; ``mid`` is to be acknowledged once it is safe."""

    message: Message
    mid: int


@dataclass(frozen=True, slots=True)
class Lost:
    """The end, always the last event."""

    reason: str
    taken_over: bool = False


Event = Connected | Acknowledged | SubscribeRefused | Arrived | Lost


class Connection:
    """Used by one thread. ``open``, then `step` until it returns `Lost`, then `close`."""

    def __init__(
        self, settings: MqttSettings, *, client_id: str, password: str | None, will: Publication
    ) -> None:
        self._settings = settings
        self._client_id = client_id
        self._v5 = settings.protocol == "5"
        self._events: deque[Event] = deque()
        self._refused: str | None = None
        self._let_in = False
        client = paho.Client(
            CallbackAPIVersion.VERSION2,
            client_id=client_id,
            clean_session=None if self._v5 else True,
            protocol=paho.MQTTv5 if self._v5 else paho.MQTTv311,
            reconnect_on_failure=False,
            manual_ack=True,
        )
        client.connect_timeout = CONNECT_S
        if settings.user is not None or password is not None:
            client.username_pw_set(settings.user, password)
        if settings.tls is not None:
            client.tls_set_context(_tls_context(settings.tls))
        client.will_set(
            will.topic,
            will.payload,
            qos=1,
            retain=will.retain,
            properties=self._properties(will, PacketTypes.WILLMESSAGE),
        )
        client.on_socket_open = _no_delay
        client.on_connect = self._on_connect
        client.on_publish = self._on_publish
        client.on_subscribe = self._on_subscribe
        client.on_message = self._on_message
        client.on_disconnect = self._on_disconnect
        self._client = client

    def open(self) -> None:
        """TCP, TLS and CONNECT; the broker's answer comes from `step`. DeliveryError after some seconds."""
        settings = self._settings
        properties = None
        if self._v5:
            properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
            properties.ReceiveMaximum = RECEIVE_MAXIMUM
        try:
            self._client.connect(
                settings.host,
                settings.broker_port,
                settings.keepalive_s,
                clean_start=True if self._v5 else paho.MQTT_CLEAN_START_FIRST_ONLY,
                properties=properties,
            )
        except ssl.SSLCertVerificationError as error:
            raise DeliveryError(
                f"the broker's certificate is not accepted: {error.verify_message}",
                hint="check tls.ca, the broker's name and the clock; "
                f"here it is {clock.now():%Y-%m-%d %H:%M} UTC",
            ) from error
        except ssl.SSLError as error:
            raise DeliveryError(
                f"no TLS with the broker: {error.reason or error}",
                hint="check the port, and whether the broker wants a certificate (tls.cert, tls.key)",
            ) from error
        except TimeoutError as error:
            raise DeliveryError(f"the broker does not answer within {CONNECT_S:g} s") from error
        except OSError as error:
            raise DeliveryError(f"no connection: {error.strerror or error}") from error

    def step(self, wake: int, timeout_s: float) -> list[Event]:
        """Wait until something happens, the descriptor ``wake`` can be read, or the time is over."""
        sock = self._client.socket()
        if sock is None:
            self._lose("the connection broke")
            return self._take()
        poll = select.poll()
        poll.register(sock.fileno(), select.POLLIN | (select.POLLOUT if self._client.want_write() else 0))
        poll.register(wake, select.POLLIN)
        if self._events or _pending(sock):
            timeout_s = 0
        ready = dict(poll.poll(max(0.0, timeout_s) * 1000))
        state = ready.get(sock.fileno(), 0)
        if state & ~select.POLLOUT or _pending(sock):
            self._client.loop_read()
        if state & select.POLLOUT:
            self._client.loop_write()
        self._client.loop_misc()
        return self._take()

    def send(self, publication: Publication) -> int:
        """The id that its `Acknowledged` will have."""
        info = self._client.publish(
            publication.topic,
            publication.payload,
            qos=1,
            retain=publication.retain,
            properties=self._properties(publication, PacketTypes.PUBLISH),
        )
        return info.mid

    def subscribe(self, topics: list[str]) -> None:
        """QoS 1; retained messages are not asked for."""
        if self._v5:
            options = SubscribeOptions(qos=1, retainHandling=SubscribeOptions.RETAIN_DO_NOT_SEND)
            self._client.subscribe([(topic, options) for topic in topics])
        else:
            self._client.subscribe([(topic, 1) for topic in topics])

    def acknowledge(self, arrived: Arrived) -> None:
        """The broker may forget the message."""
        if arrived.message.qos == 1:
            self._client.ack(arrived.mid, 1)

    def close(self, *, farewell: bool) -> None:
        """With ``farewell`` the broker does not publish the will. Waits for nothing."""
        if farewell:
            self._client.disconnect()
        sock = self._client.socket()
        if sock is not None:
            sock.close()

    def _guess(self) -> str:
        tls = self._settings.tls
        if tls is not None and tls.cert is None:
            return "; does it want a certificate (tls.cert, tls.key)?"
        return '; does it speak MQTT 5? else set protocol: "3.1.1"' if self._v5 else ""

    def _take(self) -> list[Event]:
        events = list(self._events)
        self._events.clear()
        return events

    def _lose(self, reason: str, *, taken_over: bool = False) -> None:
        if not any(isinstance(event, Lost) for event in self._events):
            self._events.append(Lost(reason, taken_over))

    def _properties(self, publication: Publication, packet: int) -> Properties | None:
        if not self._v5:
            return None
        properties = Properties(packet)  # type: ignore[no-untyped-call]
        properties.PayloadFormatIndicator = 1 if publication.text else 0
        properties.ContentType = publication.content_type
        if publication.user:
            properties.UserProperty = list(publication.user)
        if publication.expiry_s is not None:
            properties.MessageExpiryInterval = publication.expiry_s
        if publication.correlation is not None:
            properties.CorrelationData = publication.correlation
        return properties

    # -- paho's callbacks; paho holds locks while it calls them, so they only append

    def _on_connect(
        self,
        _client: paho.Client,
        _data: object,
        _flags: object,
        code: ReasonCode,
        properties: Properties | None,
    ) -> None:
        if code.is_failure:
            self._refused = str(code)
            return
        self._let_in = True
        self._events.append(
            Connected(
                client_id=getattr(properties, "AssignedClientIdentifier", self._client_id),
                receive_maximum=getattr(properties, "ReceiveMaximum", 65535),
                maximum_packet=getattr(properties, "MaximumPacketSize", None),
                retains=bool(getattr(properties, "RetainAvailable", 1)),
            )
        )

    def _on_publish(
        self, _client: paho.Client, _data: object, mid: int, code: ReasonCode, _properties: object
    ) -> None:
        self._events.append(Acknowledged(mid, code.value, str(code)))

    def _on_subscribe(
        self, _client: paho.Client, _data: object, _mid: int, codes: list[ReasonCode], _properties: object
    ) -> None:
        for code in codes:
            if code.is_failure:
                self._events.append(SubscribeRefused(str(code)))

    def _on_message(self, _client: paho.Client, _data: object, message: paho.MQTTMessage) -> None:
        self._events.append(Arrived(_message(message), message.mid))

    def _on_disconnect(
        self,
        _client: paho.Client,
        _data: object,
        flags: paho.DisconnectFlags,
        code: ReasonCode,
        _properties: object,
    ) -> None:
        if self._refused is not None:
            self._lose(f"the broker refuses: {self._refused}")
        elif flags.is_disconnect_packet_from_server:
            self._lose(f"the broker closed it: {code}", taken_over=code.value == _TAKEN_OVER)
        elif not self._let_in:
            self._lose("the broker closed the connection without a word" + self._guess())
        elif code.getName() == "Keep alive timeout":
            self._lose("the broker does not answer")
        else:
            self._lose("the connection broke")


def _message(message: paho.MQTTMessage) -> Message:
    properties: Any = message.properties
    return Message(
        topic=message.topic,
        payload=bytes(message.payload),
        received_at=clock.now(),
        received_s=time.monotonic(),
        qos=message.qos,
        retained=message.retain,
        response_topic=getattr(properties, "ResponseTopic", None),
        correlation=getattr(properties, "CorrelationData", None),
        expiry_s=getattr(properties, "MessageExpiryInterval", None),
        user=tuple(getattr(properties, "UserProperty", ())),
    )


def _no_delay(_client: paho.Client, _data: object, sock: Any) -> None:
    # Nagle's algorithm waits up to 40 ms for company
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def _pending(sock: Any) -> bool:
    # TLS may hold decrypted bytes that poll() cannot see
    return isinstance(sock, ssl.SSLSocket) and sock.fileno() >= 0 and sock.pending() > 0


class _Socket(ssl.SSLSocket):
    """Closes itself when the handshake fails; paho only forgets it."""

    def do_handshake(self, block: bool = False) -> None:
        try:
            super().do_handshake(block)
        except OSError:
            self.close()
            raise


def _tls_context(tls: Tls) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=str(tls.ca) if tls.ca else None)
    except (OSError, ssl.SSLError) as error:
        raise DeliveryError(f"cannot use the certificate authority {tls.ca}: {error}") from error
    context.sslsocket_class = _Socket
    if tls.cert is not None and tls.key is not None:
        try:
            context.load_cert_chain(tls.cert, tls.key)
        except (OSError, ssl.SSLError) as error:
            raise DeliveryError(f"cannot use the certificate {tls.cert} with {tls.key}: {error}") from error
    return context
