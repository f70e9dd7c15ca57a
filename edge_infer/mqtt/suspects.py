"""Finds the message for which a broker closes the connection without a word.

MQTT 3.1.1 knows no refusal, and some MQTT 5 brokers hang up as well. Sent first after each connection, such a
message would keep all others from ever being sent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable

from edge_infer.mqtt.messages import Publication
from edge_infer.outbox import Row

TRIES = 3
"""So often in a row the connection ended with this message alone on the wire."""
LONGEST = 2500
"""After so many answers the others are no suspects any more, whatever became of them."""


class Suspects:
    """Belongs to the pump's thread."""

    def __init__(self) -> None:
        self._waiting: Counter[Hashable] = Counter()
        """On the wire when a connection was closed, and not heard of since: how often."""
        self._alone: dict[Hashable, int] = {}
        """How often alone on the wire when it was closed."""
        self._answers = 0

    @property
    def any(self) -> bool:
        """While there are some, one message at a time is on the wire, so that the next end names it.

        Once is no suspicion: connections break.
        """
        return any(times > 1 for times in self._waiting.values())

    def acknowledged(self, sent: Row | Publication) -> None:
        """The broker answered: it is none."""
        del self._waiting[_key(sent)]
        self._alone.pop(_key(sent), None)
        self._answers += 1
        if self._answers > LONGEST:
            self._waiting.clear()

    def nothing_left(self) -> None:
        """All that could be sent was answered: what is not among it was given up meanwhile."""
        self._waiting.clear()

    def closed(
        self, on_wire: Collection[Row | Publication], *, named: bool, worked: bool
    ) -> Row | Publication | None:
        """The broker closed the connection; the message to isolate, None where it is not proven.

        ``named``: it said that it did so because of a message. ``worked``: it acknowledged something on this
        connection, so it is no broker that acknowledges nothing.
        """
        self._answers = 0
        for one in on_wire:
            self._waiting[_key(one)] += 2 if named else 1
        if len(on_wire) != 1:
            return None
        (sent,) = on_wire
        if isinstance(sent, Row) and not worked:
            return None
        key = _key(sent)
        self._alone[key] = self._alone.get(key, 0) + 1
        if not named and self._alone[key] < TRIES:
            return None
        self.acknowledged(sent)
        return sent


def _key(sent: Row | Publication) -> Hashable:
    return (sent.kind, sent.place, sent.id, sent.topic) if isinstance(sent, Row) else sent.topic
