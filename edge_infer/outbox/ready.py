"""The next rows, in memory: the writer fills them in, the pump takes them and says what became of them."""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass

from edge_infer.outbox.row import Place, Row

ROWS = 256
BYTES = 4_000_000
LOW = 128
"""With so few rows left the writer is asked for more."""
ENOUGH = 200
"""With so many rows done the writer need not wait for company."""
FRESH_S = 3.0
"""A broker that dies so soon after it acknowledged a row may have forgotten it: the row is sent again. One
that saves once a second forgets up to two, and what it took while it saved."""
FRESH = 2000
"""Rows kept for that."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the broker said of a row."""

    row: Row
    code: int = 0
    """The PUBACK's reason code; 0x80 and above is a refusal."""
    refusal: str = ""

    @property
    def refused(self) -> bool:
        """It must not be sent again by itself."""
        return self.code >= 0x80


class Ready:
    """A row here is waiting, taken (on the wire), or done with and not deleted yet."""

    def __init__(self, nudge: Callable[[], None]) -> None:
        self.online = False
        """Somebody sends."""
        self.wake: Callable[[], None] = lambda: None
        """There may be something to take."""
        self._nudge = nudge
        self._lock = threading.Lock()
        self._waiting: deque[Row] = deque()
        self._bytes = 0
        self._taken: dict[int, Row] = {}
        self._fresh: deque[tuple[float, Outcome]] = deque()
        """Delivered a moment ago, oldest first."""
        self._outcomes: list[Outcome] = []
        self._more = False
        """Rows wait behind these."""
        self._last: dict[Place, int] = {"disk": 0, "ram": 0}
        """The highest id committed in each place."""
        self._late = dict(self._last)
        """The same when the connection was made: up to here everything is delayed."""
        self._highest: dict[Place, int] = {"disk": 0, "ram": 0}
        """No row here has a higher id."""
        self._closed = False

    # -- the pump's side

    def take(self) -> Row | None:
        """The oldest row; it stays where it is stored until it is done with."""
        with self._lock:
            if self._closed or not self._waiting:
                return None
            row = self._waiting.popleft()
            self._bytes -= len(row.payload)
            self._taken[id(row)] = row
            short = self._more and len(self._waiting) in (0, LOW)
        if short:
            self._nudge()
        return row

    def finish(self, outcome: Outcome) -> None:
        """The broker answered."""
        with self._lock:
            self._taken.pop(id(outcome.row), None)
            if outcome.refused or outcome.row.kind == "gap":
                self._outcomes.append(outcome)
            else:
                self._fresh.append((time.monotonic(), outcome))
            self._ripen()
            enough = len(self._outcomes) >= ENOUGH
        if enough:
            self._nudge()

    def _ripen(self) -> None:
        before_s = time.monotonic() - FRESH_S
        while self._fresh and (self._fresh[0][0] <= before_s or len(self._fresh) > FRESH):
            self._outcomes.append(self._fresh.popleft()[1])

    def connected(self) -> None:
        """Everything that waits now is late."""
        with self._lock:
            self.online = True
            self._late = dict(self._last)
            for row in self._waiting:
                row.delayed = True
        self._nudge()

    def disconnected(self, *, broken: bool) -> None:
        """What was taken waits again, in front; ranges that were given up are asked for afresh.

        ``broken``: the broker may have died, so what it acknowledged last waits again too.
        """
        with self._lock:
            self.online = False
            self._ripen()
            fresh = [outcome for _, outcome in self._fresh]
            self._fresh.clear()
            if not broken:
                self._outcomes += fresh
                fresh = []
            back = [*(outcome.row for outcome in fresh), *self._taken.values(), *self._waiting]
            self._taken.clear()
            self._waiting = deque(row for row in back if row.kind != "gap")
            self._bytes = sum(len(row.payload) for row in self._waiting)

    # -- the writer's side

    def committed(self, place: Place, last_id: int, *, late: bool = False) -> None:
        """Rows up to this id are stored; ``late``: they are old already."""
        with self._lock:
            self._last[place] = last_id
            if late:
                self._late[place] = last_id

    def add(self, rows: Collection[Row], *, more: bool) -> None:
        """In order, behind the others; ``more`` wait behind them."""
        with self._lock:
            self._more = more
            for row in rows:
                self._highest[row.place] = max(self._highest[row.place], row.id)
                row.delayed = row.kind != "gap" and row.id <= self._late[row.place]
            self._waiting.extend(rows)
            self._bytes += sum(len(row.payload) for row in rows)
        if rows:
            self.wake()

    def room(self) -> tuple[int, int]:
        """How many rows and bytes may be added."""
        with self._lock:
            return max(0, ROWS - len(self._waiting)), max(0, BYTES - self._bytes)

    def offers_gap(self) -> bool:
        """A gap waits to be told, or was told and the writer does not know yet."""
        with self._lock:
            return any(row.kind == "gap" for row in (*self._waiting, *self._sent()))

    def has_outcomes(self) -> bool:
        """Something is to be deleted."""
        with self._lock:
            self._ripen()
            return bool(self._outcomes)

    def done_rows(self) -> int:
        """Rows that are still stored and need not be sent any more."""
        with self._lock:
            return len(self._fresh) + sum(one.row.kind != "gap" for one in self._outcomes)

    def done_with(self, place: Place | None = None) -> tuple[int, int]:
        """The same of one place, and their bytes."""
        with self._lock:
            done = [one.row for _, one in self._fresh] + [one.row for one in self._outcomes]
        done = [row for row in done if row.kind != "gap" and place in (None, row.place)]
        return len(done), sum(row.size for row in done)

    def outcomes(self) -> list[Outcome]:
        """Since the last call."""
        with self._lock:
            self._ripen()
            outcomes, self._outcomes = self._outcomes, []
            return outcomes

    def snapshot(self) -> tuple[list[Row], list[Outcome]]:
        """The rows that wait or are taken (older first) and all outcomes so far, at one instant."""
        with self._lock:
            outcomes = [*self._outcomes, *(outcome for _, outcome in self._fresh)]
            self._outcomes = []
            self._fresh.clear()
            # who asks gives the rows new places and ids
            self._highest = dict.fromkeys(self._highest, sys.maxsize)
            return [*self._taken.values(), *self._waiting], outcomes

    def known(self, place: Place, first: int) -> set[int]:
        """Ids from ``first`` on of the rows that are here in any way."""
        with self._lock:
            if first > self._highest[place]:
                # the usual case, and there may be thousands of rows here
                return set()
            known = {row.id for row in (*self._waiting, *self._sent()) if row.place == place}
            self._highest[place] = max(known, default=0)
            return known

    def sent(self, place: Place) -> set[int]:
        """Ids that must not be given up: on the wire, or told to the broker already."""
        with self._lock:
            return {row.id for row in self._sent() if row.place == place}

    def _sent(self) -> list[Row]:
        fresh = (outcome.row for _, outcome in self._fresh)
        return [*self._taken.values(), *fresh, *(outcome.row for outcome in self._outcomes)]

    def withdraw(self, place: Place, ids: Collection[int]) -> list[Row]:
        """Rows that shall not be sent; those that were taken meanwhile stay."""
        wanted = set(ids)
        with self._lock:
            going = [row for row in self._waiting if row.place == place and row.id in wanted]
            if going:
                gone = {id(row) for row in going}
                self._waiting = deque(row for row in self._waiting if id(row) not in gone)
                self._bytes -= sum(len(row.payload) for row in going)
        return going

    def put_back(self, rows: Collection[Row]) -> None:
        """What was withdrawn in vain."""
        if not rows:
            return
        with self._lock:
            both = [*rows, *self._waiting]
            both.sort(key=lambda row: (row.kind == "gap", row.place == "ram", row.id))
            self._waiting = deque(both)
            self._bytes += sum(len(row.payload) for row in rows)

    def close(self) -> None:
        """Nothing more is taken; what was delivered is done with."""
        with self._lock:
            self._closed = True
            self._outcomes += [outcome for _, outcome in self._fresh]
            self._fresh.clear()
