"""What the stations handed over and the writer has not committed yet: bounded, never waits for the disk."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field

from edge_infer.outbox.ledger import OpenTrigger
from edge_infer.outbox.rollover import Follower
from edge_infer.outbox.row import rank
from edge_infer.result import Decision, Result

LIMIT = 5000
"""Results in hand, and as many triggers; reached only when the disk hangs for many seconds."""

GROUP_S = 0.02
"""How long the first of a group waits for others to share its commit."""
GROUP = 200
"""A group of so many does not wait."""
BATCH = 500
"""At most so many in one transaction."""


@dataclass(slots=True, eq=False)
class NewResult:
    """A result without a number yet; without a ``result`` it stands for ``lost`` that were given up here."""

    topic: str
    station: str
    decision: Decision
    result: Result | None
    committed: Callable[[Result], None] | None
    lost: Counter[Decision] = field(default_factory=Counter)
    lost_jobs: list[str] = field(default_factory=list)
    """Jobs whose answers were given up: they are answered all the same, not open."""


@dataclass(frozen=True, slots=True, eq=False)
class NewEvent:
    """A message without a number."""

    topic: str
    payload: bytes


@dataclass(frozen=True, slots=True, eq=False)
class NewTrigger:
    """Somebody waits until it is stored."""

    trigger: OpenTrigger
    done: threading.Event


@dataclass(frozen=True, slots=True, eq=False)
class ResetCounts:
    """Somebody waits until a station's counters are zero."""

    station: str
    renewed: Callable[[], None] | None
    done: threading.Event


@dataclass(frozen=True, slots=True, eq=False)
class FollowShifts:
    """Somebody wants to know of shifts."""

    follower: Follower
    done: threading.Event


@dataclass(frozen=True, slots=True, eq=False)
class Flush:
    """Somebody waits until all before it is committed."""

    done: threading.Event


Awaited = NewTrigger | ResetCounts | FollowShifts | Flush
Item = NewResult | NewEvent | Awaited


class Handover:
    """Many put, the writer takes."""

    def __init__(self, limit: int = LIMIT) -> None:
        self.events_lost = 0
        self._limit = limit
        self._items: deque[Item] = deque()
        self._working = 0
        """What the writer took and has not finished."""
        self._held = 0
        """Results and events in hand."""
        self._triggers = 0
        """In hand; they have their own bound, so that they push out no results."""
        self._changed = threading.Condition()
        self._nudged = False
        self._closing = False

    def put(self, item: Item) -> bool:
        """Hands over at once; False where it is closed or, for a trigger, too many wait."""
        with self._changed:
            if self._closing or (isinstance(item, NewTrigger) and self._triggers >= self._limit):
                return False
            self._triggers += isinstance(item, NewTrigger)
            self._items.append(item)
            self._held += isinstance(item, NewResult | NewEvent)
            if self._held > self._limit:
                self._give_up()
            self._changed.notify()
        return True

    def nudge(self) -> None:
        """The writer has something else to do."""
        with self._changed:
            self._nudged = True
            self._changed.notify()

    def close(self) -> None:
        """Nothing more is taken in."""
        with self._changed:
            self._closing = True
            self._changed.notify()

    def __len__(self) -> int:
        with self._changed:
            return len(self._items) + self._working

    def take(self, timeout_s: float) -> tuple[list[Item], bool]:
        """The oldest items, a group at a time, and whether these were the last ones."""
        with self._changed:
            self._changed.wait_for(lambda: self._items or self._nudged or self._closing, timeout_s)
            if self._items and not self._urgent():
                until = time.monotonic() + GROUP_S
                while not self._urgent() and (left := until - time.monotonic()) > 0:
                    self._changed.wait(left)
            self._nudged = False
            self._working = min(BATCH, len(self._items))
            batch = [self._items.popleft() for _ in range(self._working)]
            self._held -= sum(isinstance(item, NewResult | NewEvent) and _holds(item) for item in batch)
            self._triggers -= sum(isinstance(item, NewTrigger) for item in batch)
            return batch, self._closing and not self._items

    def finished(self) -> None:
        """What was taken is committed and counted."""
        with self._changed:
            self._working = 0

    def _urgent(self) -> bool:
        return self._closing or len(self._items) >= GROUP or isinstance(self._items[-1], Awaited)

    def _give_up(self) -> None:
        # a twentieth at once, so that one pass over the queue serves many puts
        wanted = max(1, self._limit // 20)
        by_rank = sorted((_rank(item), at) for at, item in enumerate(self._items) if _holds(item))
        chosen = {at for _, at in by_rank[:wanted]}
        kept: deque[Item] = deque()
        gone: dict[str, NewResult] = {}
        for at, item in enumerate(self._items):
            if at in chosen and isinstance(item, NewEvent):
                self.events_lost += 1
                continue
            if not isinstance(item, NewResult):
                kept.append(item)
                continue
            if at in chosen:
                if item.result is not None and item.result.job_id != item.result.result_id:
                    item.lost_jobs.append(item.result.job_id)
                item.result, item.committed = None, None
                item.lost[item.decision] += 1
            if item.result is not None:
                gone.pop(item.station, None)
            elif item.station in gone:
                # no result of the station lies between: their numbers follow each other
                gone[item.station].lost += item.lost
                gone[item.station].lost_jobs += item.lost_jobs
                continue
            else:
                gone[item.station] = item
            kept.append(item)
        self._items = kept
        self._held -= len(chosen)


def _holds(item: Item) -> bool:
    return isinstance(item, NewEvent) or (isinstance(item, NewResult) and item.result is not None)


def _rank(item: Item) -> int:
    return rank(item.decision if isinstance(item, NewResult) else "")
