"""One connection to the broker, made once and thrown away: paho is the transport and keeps nothing.

paho is driven from the caller's own poll loop, not from its thread: its thread dies of an exception in a
callback without saying so, its select() is deaf for descriptors above 1023, and stopping it waits for the
broker. A new client for each connection means that nothing is sent again behind the outbox's back.
"""

from __future__ import annotations

import select
import ssl
import time
from collections import deque
from dataclasses import dataclass
from typing import Any, cast

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode
from paho.mqtt.subscribeoptions import SubscribeOptions

from edge_infer import clock
from edge_infer.errors import DeliveryError
from edge_infer.mqtt.certificates import own_trouble
from edge_infer.mqtt.messages import Message, Publication
from edge_infer.mqtt.properties import PublishProperties
from edge_infer.mqtt.settings import MqttSettings
from edge_infer.sockets import no_delay, pending, tls_context

CONNECT_S = 5.0
"""For TCP and again for TLS."""
RECEIVE_MAXIMUM = 20
"""Commands that the broker may send before they are acknowledged."""
LARGEST_PACKET = 65_536
"""Bytes; the broker keeps larger ones from us (MQTT 5). Nothing that is listened to is nearly as large."""

_TAKEN_OVER = 0x8E
_MESSAGE_CODES = frozenset({0x87, 0x90, 0x95, 0x99, 0x9A, 0x9B})
"""Not authorized, topic name invalid, packet too large, payload format invalid, no retain, no such QoS."""
_NO_SUCH_PROTOCOL = 0x84
"""Also where the broker refused in the words of MQTT 3.1.1."""
_NO_SUCH_CLIENT_ID = 0x85


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
    """SUBACK that refuses, or grants less than was asked for."""

    topic: str
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
    news: str = ""
    """The same for each attempt that fails alike; empty: the reason is."""
    taken_over: bool = False
    by_broker: bool = False
    """It, or the network, closed the connection."""
    code: int = 0
    """MQTT 5: the DISCONNECT's reason code."""

    @property
    def blames_message(self) -> bool:
        """The broker said that it is because of a message."""
        return self.code in _MESSAGE_CODES


Event = Connected | Acknowledged | SubscribeRefused | Arrived | Lost


class Connection:
    """Used by one thread. ``open``, then `step` until it returns `Lost`, then `close`."""

    def __init__(
        self, settings: MqttSettings, *, client_id: str, password: str | None, will: Publication | None
    ) -> None:
        """``will``: what the broker publishes where we end without a farewell; None: nothing."""
        self._settings = settings
        self._client_id = client_id
        self._v5 = settings.protocol == "5"
        self._events: deque[Event] = deque()
        self._refused: str | None = None
        self._let_in = False
        self._asked: dict[int, list[str]] = {}
        """Topics by the id of their SUBSCRIBE."""
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
            tls = settings.tls
            client.tls_set_context(tls_context(tls.ca, tls.cert, tls.key))
        if will is not None:
            client.will_set(
                will.topic,
                will.payload,
                qos=1,
                retain=will.retain,
                properties=self._will_properties(will),
            )
        client.on_socket_open = no_delay
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
            properties = Properties(PacketTypes.CONNECT)
            properties.ReceiveMaximum = RECEIVE_MAXIMUM
            properties.MaximumPacketSize = LARGEST_PACKET
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
                hint=f"check tls.ca, the broker's name and the clock; here it is {_local_time()}",
            ) from error
        except ssl.SSLError as error:
            raise DeliveryError(
                f"no TLS with the broker: {error.reason or error}",
                hint=self._own_certificate()
                or "check the port, and whether the broker wants a certificate (tls.cert, tls.key)",
            ) from error
        except TimeoutError as error:
            raise DeliveryError(f"the broker does not answer within {CONNECT_S:g} s") from error
        except OSError as error:
            raise DeliveryError(f"no connection: {error.strerror or error}") from error

    @property
    def broker_certificate(self) -> bytes | None:
        """As the broker showed it (DER); None without TLS."""
        sock = self._client.socket()
        return sock.getpeercert(binary_form=True) if isinstance(sock, ssl.SSLSocket) else None

    def step(self, wake: int, timeout_s: float) -> list[Event]:
        """Wait until something happens, the descriptor ``wake`` can be read, or the time is over."""
        sock = self._client.socket()
        if sock is None:
            self._lose("the connection broke")
            return self._take()
        poll = select.poll()
        poll.register(sock.fileno(), select.POLLIN | (select.POLLOUT if self._client.want_write() else 0))
        poll.register(wake, select.POLLIN)
        if self._events or pending(sock):
            timeout_s = 0
        ready = dict(poll.poll(max(0.0, timeout_s) * 1000))
        state = ready.get(sock.fileno(), 0)
        if state & ~select.POLLOUT or pending(sock):
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
            # it stands where paho's own class stands
            properties=cast(Properties, PublishProperties(publication)) if self._v5 else None,
        )
        return info.mid

    def subscribe(self, topics: list[str]) -> None:
        """QoS 1; retained messages are not asked for."""
        if self._v5:
            options = SubscribeOptions(qos=1, retainHandling=SubscribeOptions.RETAIN_DO_NOT_SEND)
            _, mid = self._client.subscribe([(topic, options) for topic in topics])
        else:
            _, mid = self._client.subscribe([(topic, 1) for topic in topics])
        if mid is not None:
            self._asked[mid] = topics

    def unsubscribe(self, topics: list[str]) -> None:
        """They are not sent any more, a moment later."""
        self._client.unsubscribe(topics)

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
        if own := self._own_certificate():
            return f"; {own}"
        other = "3.1.1" if self._v5 else "5"
        revoked = "was the device's certificate revoked? " if tls is not None else ""
        return f'; {revoked}does it speak MQTT {self._settings.protocol}? else set protocol: "{other}"'

    def _own_certificate(self) -> str | None:
        tls = self._settings.tls
        return own_trouble(tls, clock.now()) if tls is not None else None

    def _other_protocol(self) -> str:
        other = "3.1.1" if self._v5 else "5"
        return f'it does not speak MQTT {self._settings.protocol}: set protocol: "{other}" under mqtt'

    def _take(self) -> list[Event]:
        events = list(self._events)
        self._events.clear()
        return events

    def _lose(self, reason: str, *, taken_over: bool = False, by_broker: bool = False, code: int = 0) -> None:
        if not any(isinstance(event, Lost) for event in self._events):
            self._events.append(Lost(reason, "", taken_over, by_broker, code))

    def _will_properties(self, will: Publication) -> Properties | None:
        if not self._v5:
            return None
        properties = Properties(PacketTypes.WILLMESSAGE)
        properties.PayloadFormatIndicator = 1
        properties.ContentType = will.content_type
        properties.UserProperty = list(will.user)
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
            self._refused = _said(code, properties)
            if code.value == _NO_SUCH_PROTOCOL:
                self._refused += "; " + self._other_protocol()
            elif code.value == _NO_SUCH_CLIENT_ID:
                self._refused += "; set client_id under mqtt (some brokers take 23 letters and digits)"
            elif server := getattr(properties, "ServerReference", None):
                self._refused += f"; it names {server} as the broker to use (host)"
            return
        if self._let_in:
            self._lose("the broker talks nonsense: it answers CONNECT twice")
            return
        if getattr(properties, "MaximumQoS", 1) < 1:
            self._lose("the broker acknowledges nothing (it takes QoS 0 only), so nothing can be delivered")
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
        self, _client: paho.Client, _data: object, mid: int, code: ReasonCode, properties: object
    ) -> None:
        self._events.append(Acknowledged(mid, code.value, _said(code, properties)))

    def _on_subscribe(
        self, _client: paho.Client, _data: object, mid: int, codes: list[ReasonCode], properties: object
    ) -> None:
        for topic, code in zip(self._asked.pop(mid, ()), codes, strict=False):
            if code.is_failure:
                self._events.append(SubscribeRefused(topic, _said(code, properties)))
            elif code.value == 0:
                self._events.append(
                    SubscribeRefused(topic, "the broker sends them with QoS 0: some may be lost")
                )

    def _on_message(self, _client: paho.Client, _data: object, message: paho.MQTTMessage) -> None:
        self._events.append(Arrived(_message(message), message.mid))

    def _on_disconnect(
        self,
        _client: paho.Client,
        _data: object,
        flags: paho.DisconnectFlags,
        code: ReasonCode,
        properties: object,
    ) -> None:
        if self._refused is not None:
            self._lose(f"the broker refuses: {self._refused}")
        elif flags.is_disconnect_packet_from_server:
            self._lose(
                f"the broker closed it: {_said(code, properties)}",
                taken_over=code.value == _TAKEN_OVER,
                by_broker=True,
                code=code.value,
            )
        elif not self._let_in:
            self._lose("the broker closed the connection without a word" + self._guess())
        elif code.getName() == "Keep alive timeout":
            self._lose("the broker does not answer")
        else:
            self._lose("the connection broke", by_broker=True)


def _said(code: ReasonCode, properties: object) -> str:
    """The broker's reason, in its own words too where it gives any."""
    words = getattr(properties, "ReasonString", None)
    return f"{code} ({words})" if words else str(code)


def _local_time() -> str:
    now = clock.now()
    return f"{now.astimezone():%Y-%m-%d %H:%M %Z} ({now:%H:%M} UTC)"


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
