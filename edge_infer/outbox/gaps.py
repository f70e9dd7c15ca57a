"""Results that were given up, told to the subscriber as ranges of their numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from edge_infer.messages.gap import SCHEMA, GapMessage, GapReason, NumberRange
from edge_infer.outbox.row import GapKey, Range, Row
from edge_infer.outbox.store import Store

__all__ = ["SCHEMA", "gap_topic", "messages", "tell"]

PER_MESSAGE = 500
"""Ranges in one message."""


def gap_topic(result_topic: str) -> str:
    """``…/{station}/result`` -> ``…/{station}/gap``."""
    return result_topic.rpartition("/")[0] + "/gap"


def tell(store: Store, rows: Iterable[Row], reason: GapReason) -> None:
    """Notes the numbers of results that were given up, to be told when the broker can be reached."""
    numbers: dict[GapKey, list[int]] = {}
    for row in rows:
        if row.seq:
            key = GapKey(gap_topic(row.topic), row.station, row.stream_id, reason)
            numbers.setdefault(key, []).append(row.seq)
    for key, given_up in numbers.items():
        for one in _ranges(sorted(given_up)):
            store.add_gap(key, one.first, one.last)


def messages(store: Store, now: datetime) -> list[Row]:
    """What is to be told, one row a stream and reason."""
    return [_row(store, now, key, ranges) for key, ranges in store.gaps(PER_MESSAGE).items()]


def _row(store: Store, now: datetime, key: GapKey, ranges: Sequence[Range]) -> Row:
    told = GapMessage(
        station=key.station,
        stream_id=key.stream_id,
        reason=key.reason,
        ranges=tuple(NumberRange(from_seq=one.first, to_seq=one.last) for one in ranges),
        time=now,
    )
    return Row(
        "gap",
        key.topic,
        told.as_json(),
        now.timestamp(),
        key.station,
        key.stream_id,
        place=store.place,
        reason=key.reason,
        ranges=tuple(ranges),
    )


def _ranges(numbers: Sequence[int]) -> Iterator[Range]:
    first = last = numbers[0]
    for number in numbers[1:]:
        if number != last + 1:
            yield Range(first, last)
            first = number
        last = number
    yield Range(first, last)
