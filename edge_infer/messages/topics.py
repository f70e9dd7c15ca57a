"""Every topic, once: what is said there and how. Documents and tests are made from this table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from edge_infer.messages.camera import CameraMessage
from edge_infer.messages.command import AT_DEVICE, AT_STATION, REQUESTS, VERBS, Reply
from edge_infer.messages.counts import CountsMessage
from edge_infer.messages.event import EventMessage
from edge_infer.messages.gap import GapMessage
from edge_infer.messages.info import InfoMessage
from edge_infer.messages.stats import StatsMessage
from edge_infer.messages.status import StatusMessage
from edge_infer.result import Part, Result

JSON = "application/json"
TEXT = "text/plain"

Retained = Literal["no", "yes", "expiring"]
"""``expiring``: with MQTT 5 only, where a message expiry removes it when it is no longer true."""


@dataclass(frozen=True, slots=True)
class Topic:
    """QoS 1 always: only then a refusal is seen."""

    name: str
    below: str | None
    """The prefix; None: where the request asks for it."""
    payload: type[Part] | Literal["decision", "picture"]
    """Text and pictures have no model."""
    says: str
    """One line for people."""
    sent: bool = True
    """By the device; False: it listens there."""
    retained: Retained = "no"
    expires: Literal["no", "yes", "sometimes"] = "no"
    """With a message expiry (MQTT 5)."""
    outbox: bool = False
    """Kept on disk until the broker has acknowledged it."""
    content_type: str = JSON
    user: tuple[str, ...] = ()
    """User properties that it always has."""
    maybe: tuple[str, ...] = ()
    """Those that it sometimes has."""


def _commands() -> tuple[Topic, ...]:
    return tuple(
        Topic(verb, below, REQUESTS[verb], (REQUESTS[verb].__doc__ or "").splitlines()[0], sent=False)
        for verbs, below in ((AT_STATION, "{station}/cmd/{verb}"), (AT_DEVICE, "cmd/{verb}"))
        for verb in VERBS
        if verb in verbs
    )


TOPICS: tuple[Topic, ...] = (
    Topic(
        "status",
        "status",
        StatusMessage,
        "is the device there",
        retained="yes",
        expires="sometimes",
        user=("schema",),
        maybe=("validUntil",),
    ),
    Topic("info", "info", InfoMessage, "what the device is", retained="yes", user=("schema",)),
    Topic(
        "stats",
        "stats",
        StatsMessage,
        "how the device is doing",
        expires="yes",
        user=("schema",),
    ),
    Topic("camera", "camera/{camera}", CameraMessage, "how a camera is", retained="yes", user=("schema",)),
    Topic("event", "event", EventMessage, "something happened", outbox=True, user=("schema",)),
    Topic(
        "result",
        "{station}/result",
        Result,
        "one inspection",
        outbox=True,
        user=("schema", "seq", "streamId"),
        maybe=("delayed",),
    ),
    Topic(
        "gap",
        "{station}/gap",
        GapMessage,
        "results that were given up",
        outbox=True,
        user=("schema", "streamId"),
    ),
    Topic(
        "decision",
        "{station}/decision",
        "decision",
        "the bare word `OK`, `NOK` or `UNDEFINED`",
        retained="expiring",
        expires="yes",
        content_type=TEXT,
        user=("validUntil",),
    ),
    Topic(
        "last",
        "{station}/last",
        Result,
        "the newest result",
        retained="expiring",
        expires="yes",
        user=("schema", "seq", "streamId", "validUntil"),
    ),
    Topic("counts", "{station}/counts", CountsMessage, "how many of each", retained="yes", user=("schema",)),
    Topic(
        "image",
        "{station}/image/{kind}",
        "picture",
        "a picture, binary",
        content_type="image/jpeg",
        maybe=("resultId", "schema", "kind", "capturedAt"),
    ),
    Topic("reply", None, Reply, "the answer to a command", user=("schema",)),
    *_commands(),
)
