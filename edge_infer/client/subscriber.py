"""Results, gaps, events and the status of devices, each once, none lost while the reader restarts."""

from __future__ import annotations

import hashlib
import time
from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType

from edge_infer.client.broker import Broker
from edge_infer.client.messages import Event, Gap, Message, Result, Status, prefix_of, read
from edge_infer.client.numbers import Missing, Numbers, Stream
from edge_infer.client.session import Arrived, Session

WEEK_S = 7 * 86400
RECENT = 1000
"""Gaps and events that are recognised when they come again; they have no number."""


class Subscriber:
    """Iterate over it, or call `next`; use it as a context manager, by one thread.

    A message is acknowledged to the broker when the next one is asked for, that is, when the caller has
    handled it. A caller that dies before gets it again; one that lives gets each result once.
    """

    def __init__(
        self,
        broker: Broker,
        prefixes: str | Sequence[str],
        *,
        client_id: str | None = None,
        keep_s: int = WEEK_S,
        stations: Sequence[str] = (),
        position: str | Path | None = None,
    ) -> None:
        """Connects in the background.

        ``prefixes``: topic prefixes of devices; ``+`` stands for any level, as in ``vision/v1/plant1/+/+``.
        ``client_id``: must be this reader's own. ``keep_s``: so long the broker keeps messages while it is
        away; 0: not at all (then ``client_id`` may be left out). ``stations``: only these. ``position``: a
        file that tells repeated results from new ones after a restart.

        EdgeInferError where the position file or the certificates cannot be used.
        """
        self.duplicates = 0
        """Repetitions that were dropped."""
        self.counts: Counter[str] = Counter()
        """Results handed out, by decision."""
        self._numbers = Numbers(Path(position) if position is not None else None)
        self._statuses: dict[str, Status] = {}
        self._recent: OrderedDict[bytes, None] = OrderedDict()
        self._in_hand: tuple[Arrived, Message] | None = None
        filters = list(_filters([prefixes] if isinstance(prefixes, str) else prefixes, stations))
        self._session = Session(broker, filters, client_id=client_id, keep_s=keep_s)
        try:
            self._session.start()
        except BaseException:
            self.close()
            raise

    def next(self, timeout_s: float | None = None) -> Message | None:
        """Acknowledge the last one and wait for the next; None after ``timeout_s``, or when it is closed."""
        self.acknowledge()
        end_s = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            arrived = self._session.take(None if end_s is None else max(0.0, end_s - time.monotonic()))
            if arrived is None:
                return None
            message = read(arrived.topic, arrived.payload, arrived.user)
            if self._is_new(message, arrived):
                self._in_hand = arrived, message
                self._note(message)
                return message
            self._session.acknowledge(arrived)

    def __iter__(self) -> Iterator[Message]:
        """For ever."""
        while (message := self.next()) is not None:
            yield message

    def acknowledge(self) -> None:
        """What was handed out last is handled; `next` does it too."""
        if self._in_hand is None:
            return
        arrived, message = self._in_hand
        # the other way round a crash in between would make it a missing number
        if isinstance(message, Result):
            self._numbers.came(_stream(message), message.seq)
            self.counts[message.decision] += 1
        elif isinstance(message, Gap | Event):
            self._remember(arrived)
        self._in_hand = None
        self._session.acknowledge(arrived)

    def missing(self) -> list[Missing]:
        """Numbers that came neither as results nor as given up or refused: late, or lost at a broker."""
        return self._numbers.missing()

    def status(self, prefix: str) -> Status | None:
        """The newest of a device; None where none is known."""
        return self._statuses.get(prefix)

    @property
    def connected(self) -> bool:
        """The broker took our subscription and the connection is not known to be lost."""
        return self._session.connected

    @property
    def trouble(self) -> str | None:
        """Why there is no connection; it is tried again for ever."""
        return self._session.trouble

    @property
    def taken_over(self) -> bool:
        """Another client has (or seems to have) our id and throws us out."""
        return self._session.taken_over

    def close(self) -> None:
        """Disconnect. What was handed out last and not acknowledged comes again."""
        self._session.close()
        self._numbers.close()

    def __enter__(self) -> Subscriber:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _is_new(self, message: Message, arrived: Arrived) -> bool:
        if isinstance(message, Result):
            known = self._numbers.came_before(_stream(message), message.seq)
            self.duplicates += known
            return not known
        if isinstance(message, Gap | Event):
            return _digest(arrived) not in self._recent
        if isinstance(message, Status):
            # the device tells it again while it is true, the broker after each connection
            before = self._statuses.get(prefix_of(message))
            self._statuses[prefix_of(message)] = message
            return before is None or not message.same_as(before)
        return True

    def _note(self, message: Message) -> None:
        """What is true from the moment that it is told."""
        prefix = prefix_of(message)
        if isinstance(message, Gap):
            self._numbers.given_up(prefix, message.station, message.stream_id, message.ranges)
        elif isinstance(message, Event) and message.kind == "result_refused":
            topic, stream_id, seq = (message.data.get(key) for key in ("topic", "streamId", "seq"))
            if isinstance(topic, str) and isinstance(stream_id, str) and isinstance(seq, int):
                self._numbers.given_up(prefix, topic.rsplit("/", 2)[-2], stream_id, [(seq, seq)])

    def _remember(self, arrived: Arrived) -> None:
        self._recent[_digest(arrived)] = None
        while len(self._recent) > RECENT:
            self._recent.popitem(last=False)


def _filters(prefixes: Iterable[str], stations: Sequence[str]) -> Iterator[str]:
    for prefix in prefixes:
        for station in stations or ("+",):
            yield f"{prefix}/{station}/result"
            yield f"{prefix}/{station}/gap"
        yield f"{prefix}/event"
        yield f"{prefix}/status"


def _stream(result: Result) -> Stream:
    return Stream(prefix_of(result), result.device, result.station, result.stream_id)


def _digest(arrived: Arrived) -> bytes:
    return hashlib.sha256(arrived.topic.encode() + b"\0" + arrived.payload).digest()
