"""What a subscriber is told, read from JSON. Keys that are not known are ignored; they stay in ``raw``."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

Word = Literal["OK", "NOK", "UNDEFINED"]
WORDS: tuple[Word, ...] = ("OK", "NOK", "UNDEFINED")


@dataclass(frozen=True, slots=True)
class Result:
    """One inspection; the only one with this (device, streamId, seq)."""

    topic: str
    device: str
    station: str
    stream_id: str
    seq: int
    decision: Word
    reasons: tuple[tuple[str, str], ...]
    """Code and text of each."""
    part_id: str | None
    created_at: datetime
    captured_at: datetime | None
    """None where no frame was judged."""
    delayed: bool
    """Sent after an outage (MQTT 5 only)."""
    raw: Mapping[str, Any]
    """The whole object as published."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Results that the device gave up and that will not come."""

    topic: str
    station: str
    stream_id: str
    reason: str
    ranges: tuple[tuple[int, int], ...]
    """First and last number of each, both included."""
    raw: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Event:
    """Something happened on a device."""

    topic: str
    kind: str
    station: str | None
    data: Mapping[str, Any]
    raw: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Status:
    """A device is there (``online``), was stopped, or is not heard of (``offline``)."""

    topic: str
    state: str
    valid_until: datetime | None
    """Where nothing newer comes, ``online`` is over then: broker and device lost their power together."""
    raw: Mapping[str, Any]

    @property
    def online(self) -> bool:
        """Every other state means that its decisions are not to be believed."""
        return self.state == "online"

    def same_as(self, other: Status) -> bool:
        """It was only told again."""
        keys = ("bootId", "since")
        return self.state == other.state and all(self.raw.get(key) == other.raw.get(key) for key in keys)


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A message of a newer schema, or no message of ours at all. Not taken for a verdict, not dropped."""

    topic: str
    payload: bytes
    why: str


Message = Result | Gap | Event | Status | Unreadable


def read(topic: str, payload: bytes, user: Mapping[str, str]) -> Message:
    """By the last level of the topic. Never raises for what came from outside."""
    try:
        raw = json.loads(payload, parse_constant=_not_a_number)
        _known_schema(raw)
        return _READERS[topic.rpartition("/")[2]](topic, raw, user)
    except (KeyError, TypeError, AttributeError) as error:
        return Unreadable(topic, payload, f"has not what it must have: {error}")
    except (ValueError, RecursionError) as error:
        return Unreadable(topic, payload, str(error))


def prefix_of(message: Message) -> str:
    """The topic prefix of its device."""
    levels = 1 if isinstance(message, Event | Status) else 2
    return message.topic.rsplit("/", levels)[0]


def time_of(text: str | None) -> datetime | None:
    """RFC 3339 with an offset; ValueError for anything else."""
    if text is None:
        return None
    time = datetime.fromisoformat(text)
    if time.tzinfo is None:
        raise ValueError(f"the time {text} has no offset")
    return time


def _not_a_number(text: str) -> None:
    raise ValueError(f"{text} is no JSON")


def _known_schema(raw: Mapping[str, Any]) -> None:
    schema = raw.get("schema")
    if schema is not None and str(schema).rpartition("/")[2] != "1":
        # its words may mean something else: a verdict is never guessed
        raise ValueError(f"schema {schema} is newer than this edge_infer.client; update it")


def _result(topic: str, raw: Mapping[str, Any], user: Mapping[str, str]) -> Result:
    created_at = time_of(raw["creationTime"])
    if created_at is None or raw["decision"] not in WORDS:
        raise ValueError(f"decision {raw['decision']!r} of {created_at} is none")
    return Result(
        topic=topic,
        device=_text(raw["source"]["device"]),
        station=_text(raw["station"]),
        stream_id=_text(raw["streamId"]),
        seq=_number(raw["seq"]),
        decision=raw["decision"],
        reasons=tuple((_text(one["code"]), _text(one["text"])) for one in raw["reasons"]),
        part_id=raw.get("partId"),
        created_at=created_at,
        captured_at=time_of(raw["capturedAt"]),
        delayed=user.get("delayed") == "true",
        raw=raw,
    )


def _gap(topic: str, raw: Mapping[str, Any], _user: Mapping[str, str]) -> Gap:
    ranges = tuple((_number(one["fromSeq"]), _number(one["toSeq"])) for one in raw["ranges"])
    return Gap(topic, _text(raw["station"]), _text(raw["streamId"]), _text(raw["reason"]), ranges, raw)


def _event(topic: str, raw: Mapping[str, Any], _user: Mapping[str, str]) -> Event:
    data = raw["data"]
    if not isinstance(data, Mapping):
        raise TypeError("data is no object")
    return Event(topic, _text(raw["kind"]), raw["station"], data, raw)


def _status(topic: str, raw: Mapping[str, Any], _user: Mapping[str, str]) -> Status:
    return Status(topic, _text(raw["state"]), time_of(raw.get("validUntil")), raw)


_READERS: dict[str, Callable[[str, Mapping[str, Any], Mapping[str, str]], Message]] = {
    "result": _result,
    "gap": _gap,
    "event": _event,
    "status": _status,
}


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _number(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise TypeError(f"{value!r} is no number of a result")
    return value
