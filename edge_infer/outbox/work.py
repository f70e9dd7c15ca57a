"""A wish on its way, in parts that fit between results."""

from __future__ import annotations

from collections.abc import Callable

from edge_infer.outbox import gaps
from edge_infer.outbox.row import Row
from edge_infer.outbox.store import Store
from edge_infer.outbox.wish import Wish

BATCH = 2000
"""Rows in one transaction."""
PATIENCE_S = 60.0
"""A wish that was begun is kept so long for whoever waits for its answer."""


class Work:
    """One wish on its way."""

    def __init__(self, wish: Wish, id_: int = 0) -> None:
        self.id = id_
        self.done = 0
        """Messages."""
        self.on_wire = 0
        """Messages that the broker may have already: they stay."""
        self._wish = wish
        self._refused_to = 0 if wish.refused else wish.last
        self._waiting_to = 0 if wish.waiting and wish.verb == "purge" else wish.last

    @property
    def finished(self) -> bool:
        """Nothing is left to do."""
        return self._refused_to >= self._wish.last and self._waiting_to >= self._wish.last

    def step(self, store: Store, take_back: Callable[[list[Row]], list[Row]]) -> Work:
        """The next part, inside a transaction; the work as it is once that is committed.

        ``take_back`` gets rows and returns those that the pump does not hold.
        """
        after = Work(self._wish, self.id)
        after.done, after.on_wire = self.done, self.on_wire
        after._refused_to, after._waiting_to = self._refused_to, self._waiting_to
        if self._refused_to < self._wish.last:
            after._refused_step(store)
        elif self._waiting_to < self._wish.last:
            after._waiting_step(store, take_back)
        return after

    def _refused_step(self, store: Store) -> None:
        where = (self._refused_to, self._wish.last, self._wish.station, BATCH)
        if self._wish.verb == "retry":
            count, self._refused_to = store.revive(*where)
            self.done += count
            return
        rows = store.dead_between(*where)
        gaps.tell(store, rows, "purged")
        store.forget_dead(rows)
        self.done += len(rows)
        self._refused_to = rows[-1].id if rows else self._wish.last

    def _waiting_step(self, store: Store, take_back: Callable[[list[Row]], list[Row]]) -> None:
        rows = store.between(self._waiting_to, self._wish.last, self._wish.station, BATCH)
        free = take_back(rows)
        gaps.tell(store, free, "purged")
        store.delete(row.id for row in free)
        self.done += len(free)
        self.on_wire += len(rows) - len(free)
        self._waiting_to = rows[-1].id if rows else self._wish.last
