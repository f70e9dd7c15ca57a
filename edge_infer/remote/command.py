"""One request on its way, past the checks of its text."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from edge_infer.messages.command import Request, VerbName
from edge_infer.mqtt.messages import Message

CLAIM = "user"
"""The user property in which a requester says who it is; anybody may write anything there."""
LONGEST_CLAIM = 64
LONGEST_CORRELATION = 256
"""Bytes."""


@dataclass(frozen=True, slots=True)
class Command:
    """Everything that the checks and the verbs know about a request."""

    verb: VerbName
    station: str | None
    """None: it is for the device."""
    message: Message
    request: Request

    @property
    def response_topic(self) -> str | None:
        """Where the answer is wanted."""
        return self.message.response_topic or self.request.reply_to

    @property
    def correlation(self) -> bytes | None:
        """What tells this request from others of the requester."""
        if self.message.correlation is not None:
            return self.message.correlation
        return self.request.correlation_id.encode() if self.request.correlation_id else None

    @property
    def correlation_text(self) -> str | None:
        """The same for people and JSON: as it is where it is text, else in hexadecimal digits."""
        given = self.correlation
        if given is None:
            return None
        try:
            text = given.decode()
        except UnicodeDecodeError:
            return given.hex()
        return text if text.isprintable() else given.hex()

    @property
    def key(self) -> tuple[str, bytes] | None:
        """Requester and correlation; None where a repetition cannot be told from a new request."""
        return (self.response_topic or "", self.correlation) if self.correlation is not None else None

    @property
    def at(self) -> str:
        """The station of a verb that only stations have."""
        if self.station is None:
            raise AssertionError(f"{self.verb} is asked of a station")
        return self.station

    @property
    def by(self) -> str:
        """Who asked, as far as it says, for logs and events."""
        who = claimed(self.message)
        return f"MQTT, claims to be {who!a}" if who is not None else "MQTT"

    @property
    def fingerprint(self) -> str:
        """Equal for a request and its repetition, which may hold longer."""
        own = self.request.model_dump_json(exclude={"reply_to", "correlation_id", "expires_at"})
        return hashlib.sha256(f"{self.message.topic}\n{own}".encode()).hexdigest()

    @property
    def parameters(self) -> dict[str, Any]:
        """What was asked for, checked."""
        envelope = {"reply_to", "correlation_id", "expires_at"}
        return self.request.model_dump(mode="json", by_alias=True, exclude=envelope, exclude_none=True)


def claimed(message: Message) -> str | None:
    """Who the sender says it is."""
    return next((value[:LONGEST_CLAIM] for key, value in message.user if key == CLAIM), None)
