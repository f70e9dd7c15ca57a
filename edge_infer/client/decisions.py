"""The newest decision of each station for as long as it may be believed; in all other cases UNDEFINED."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from types import TracebackType

from edge_infer.client.broker import Broker
from edge_infer.client.messages import WORDS, Status, Word, read, time_of
from edge_infer.client.session import Arrived, Session

VALID_S = 5.0

_WORDS: dict[str, Word] = {word: word for word in WORDS}
_TOO_OLD = "the last decision was over when it came; do the clocks of the device and of this machine agree?"


@dataclass(frozen=True, slots=True)
class Decision:
    """What a PLC may be told right now."""

    word: Word
    why: str
    """Why it is UNDEFINED where the device did not say so itself, else empty."""
    valid_s: float
    """So long it may be believed without asking again; 0 where it is UNDEFINED for another reason."""


@dataclass(frozen=True, slots=True)
class _Said:
    word: Word
    until_s: float
    """Monotonic seconds."""
    held: bool
    """It was not over when it came."""


class Decisions:
    """Ask `of` whenever the PLC is written. A connection of its own, so that nothing waits behind results."""

    def __init__(
        self,
        broker: Broker,
        prefixes: str | Sequence[str],
        *,
        valid_s: float = VALID_S,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Connects in the background. ``valid_s``: the device's ``mqtt.valid_s`` or less.

        EdgeInferError where the certificates cannot be used.
        """
        given = [prefixes] if isinstance(prefixes, str) else prefixes
        # without user properties only `last` says until when it holds
        self._unproved = broker.protocol != "5"
        topics = ["status", "+/decision", *(["+/last"] if self._unproved else [])]
        filters = [f"{prefix}/{topic}" for prefix in given for topic in topics]
        self._valid_s = valid_s
        self._now = now
        self._statuses: dict[str, tuple[str, float]] = {}
        """State and until when (monotonic) it may be believed, by prefix."""
        self._said: dict[str, _Said] = {}
        """What `decision` and, over MQTT 3.1.1, `last` hold, by topic."""
        # a clean session: what was said while we were away is not true any more
        self._session = Session(broker, filters, client_id=None, keep_s=0, newest_of=_newest_of)
        self._session.start()

    def of(self, prefix: str, station: str) -> Decision:
        """Right now; never waits."""
        while (arrived := self._session.take(0)) is not None:
            self._take_in(arrived)
        return self._decision(prefix, station)

    def wait(self, prefix: str, station: str, timeout_s: float) -> Decision:
        """The same once something was told or the decision has expired, at the latest after ``timeout_s``."""
        left_s = self.of(prefix, station).valid_s
        arrived = self._session.take(min(timeout_s, left_s) if left_s else timeout_s)
        if arrived is not None:
            self._take_in(arrived)
        return self.of(prefix, station)

    @property
    def trouble(self) -> str | None:
        """Why there is no connection; it is tried again for ever."""
        return self._session.trouble

    def close(self) -> None:
        """Disconnect."""
        self._session.close()

    def __enter__(self) -> Decisions:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _decision(self, prefix: str, station: str) -> Decision:
        state, until_s = self._statuses.get(prefix, (None, 0.0))
        if state != "online":
            return _undefined(f"the device is {state}" if state else "the status of the device is not known")
        if until_s <= time.monotonic():
            return _undefined("nothing is heard of the device")
        said = self._said.get(f"{prefix}/{station}/decision")
        if said is None:
            return _undefined("nothing was said yet")
        until_s = min(until_s, said.until_s)
        if self._unproved:
            last = self._said.get(f"{prefix}/{station}/last")
            if last is None or last.word != said.word:
                return _undefined("`last` does not say the same yet")
            until_s = min(until_s, last.until_s)
        left_s = until_s - time.monotonic()
        if left_s <= 0:
            return _undefined("the last decision has expired" if said.held else _TOO_OLD)
        return Decision(said.word, "", left_s)

    def _take_in(self, arrived: Arrived) -> None:
        if arrived.topic.endswith("/status"):
            self._take_in_status(arrived)
            return
        word, until = _word_and_until(arrived)
        left_s = self._left_s(arrived, until)
        self._said[arrived.topic] = _Said(word, arrived.received_s + left_s, held=left_s > 0)

    def _take_in_status(self, arrived: Arrived) -> None:
        message = read(arrived.topic, arrived.payload, arrived.user)
        prefix = arrived.topic.rpartition("/")[0]
        if isinstance(message, Status):
            limits = [] if arrived.expiry_s is None else [float(arrived.expiry_s)]
            if message.valid_until is not None:
                limits.append((message.valid_until - self._now()).total_seconds())
            self._statuses[prefix] = message.state, arrived.received_s + min(limits, default=math.inf)
        else:
            # one that cannot be read is not `online`
            self._statuses[prefix] = "unreadable", math.inf
        if self._statuses[prefix][0] != "online":
            for topic in [topic for topic in self._said if topic.rsplit("/", 2)[0] == prefix]:
                del self._said[topic]

    def _left_s(self, arrived: Arrived, until: datetime | None) -> float:
        """From its arrival, whichever ends first: clocks that differ may shorten it, never make it longer."""
        limits = [self._valid_s]
        if arrived.expiry_s is not None:
            limits.append(float(arrived.expiry_s))
        if until is not None:
            limits.append((until - self._now()).total_seconds())
        elif arrived.retained:
            # kept by somebody who does not know when it ends
            return 0.0
        return min(limits)


def _newest_of(arrived: Arrived) -> tuple[str, bool]:
    """By topic; that a device was away ends its decisions, also where it is back before anybody asks."""
    if not arrived.topic.endswith("/status"):
        return arrived.topic, True
    message = read(arrived.topic, arrived.payload, arrived.user)
    return arrived.topic, isinstance(message, Status) and message.state == "online"


def _undefined(why: str) -> Decision:
    return Decision("UNDEFINED", why, 0.0)


def _word_and_until(arrived: Arrived) -> tuple[Word, datetime | None]:
    """What cannot be understood is UNDEFINED: it is newer than whatever was understood before."""
    try:
        if arrived.topic.endswith("/last"):
            raw = json.loads(arrived.payload)
            return _WORDS[raw["decision"]], time_of(raw["validUntil"])
        return _WORDS[arrived.payload.decode()], time_of(arrived.user.get("validUntil"))
    except (ValueError, KeyError, TypeError):
        return "UNDEFINED", None
