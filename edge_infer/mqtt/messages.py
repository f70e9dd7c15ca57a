"""What goes out and what comes in."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime

from edge_infer.messages.event import SCHEMA as EVENT_SCHEMA
from edge_infer.messages.gap import SCHEMA as GAP_SCHEMA
from edge_infer.messages.topics import JSON
from edge_infer.outbox import Row
from edge_infer.result import SCHEMA, Part

_HEADROOM = 64
"""Bytes that a packet costs beside its strings."""


@dataclass(frozen=True, slots=True)
class Publication:
    """One message to the broker; QoS 1 always, because only then a refusal is seen."""

    topic: str
    payload: bytes
    retain: bool = False
    expiry_s: int | None = None
    """MQTT 5: the broker forgets it after so many seconds."""
    content_type: str = JSON
    user: tuple[tuple[str, str], ...] = ()
    """MQTT 5 user properties."""
    correlation: bytes | None = None
    """MQTT 5: whose answer this is."""
    text: bool = True
    """MQTT 5: the payload is UTF-8, and says so."""

    @property
    def size(self) -> int:
        """Bytes of the packet, at most."""
        texts = (self.topic, self.content_type, *(text for pair in self.user for text in pair))
        own = sum(len(text.encode()) + 5 for text in texts)
        return _HEADROOM + own + len(self.payload) + len(self.correlation or b"")


@dataclass(frozen=True, slots=True)
class Message:
    """One message from the broker."""

    topic: str
    payload: bytes
    received_at: datetime
    """Wall clock, UTC."""
    received_s: float
    """time.monotonic()"""
    qos: int
    retained: bool = False
    """It was sent before we listened, who knows when."""
    response_topic: str | None = None
    """MQTT 5: where the sender wants the answer."""
    correlation: bytes | None = None
    """MQTT 5: to be sent back with the answer."""
    expiry_s: int | None = None
    """MQTT 5: how long it still holds."""
    user: tuple[tuple[str, str], ...] = ()
    """MQTT 5 user properties."""


def of_row(row: Row) -> Publication:
    """What the outbox holds, as it is sent."""
    if row.kind == "result":
        user = [("schema", SCHEMA), ("seq", str(row.seq)), ("streamId", row.stream_id)]
        if row.delayed:
            user.append(("delayed", "true"))
    elif row.kind == "gap":
        user = [("schema", GAP_SCHEMA), ("streamId", row.stream_id)]
    else:
        user = [("schema", EVENT_SCHEMA)]
    return Publication(row.topic, row.payload, user=tuple(user))


def encode(value: Part) -> bytes:
    """JSON as UTF-8, whatever the text; numbers that are not finite become null."""
    told = value.model_dump(by_alias=True, mode="json")
    text = json.dumps(told, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode(errors="replace")
