"""Pictures are read ahead of those who judge them, and judged ones come out in the order they went in."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from typing import TypeVar

from edge_infer.batch.items import Item

MOST_BYTES = 256_000_000
"""Of pixels that were read and are not judged yet; one picture alone may be larger."""
_LOOK_S = 0.2
"""A wait that nobody ends looks so often whether it shall."""

Judged = TypeVar("Judged")


class Ahead:
    """One thread that reads: waits while ``most`` items, or ``MOST_BYTES``, are read and not `judged`."""

    def __init__(self, items: Generator[Item, None, None], most: int) -> None:
        self._items = items
        self._most = most
        self._changed = threading.Condition()
        self._read: deque[Item] = deque()
        self._held = self._held_bytes = 0
        self._ended = self._closed = False
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="batch-reader", daemon=True)
        self._thread.start()

    def next(self, stop: threading.Event) -> Item | None:
        """The next one; None at the end and once ``stop`` is set. What reading it raised is raised here."""
        with self._changed:
            while not (self._read or self._ended or stop.is_set()):
                self._changed.wait(_LOOK_S)
            if stop.is_set():
                return None
            if self._read:
                return self._read.popleft()
            if self._failure is not None:
                raise self._failure
            return None

    def judged(self, item: Item) -> None:
        """Its pixels are not needed any more."""
        with self._changed:
            self._held -= 1
            self._held_bytes -= _size(item)
            self._changed.notify_all()

    def close(self) -> None:
        """Read nothing more. Safe to call twice."""
        with self._changed:
            self._closed = True
            self._read.clear()
            self._changed.notify_all()
        # a disk that does not answer must not hold up the end; the thread dies with the process
        self._thread.join(_LOOK_S)

    def _run(self) -> None:
        try:
            # also the file it reads
            with closing(self._items) as items:
                for item in items:
                    if not self._put(item):
                        break
        except Exception as error:  # noqa: BLE001 - a bug, too, ends the command and not only this thread
            self._failure = error
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def _put(self, item: Item) -> bool:
        """Wait for room; False once closed."""
        size = _size(item)
        with self._changed:
            while not self._closed and self._held and not self._fits(size):
                self._changed.wait(_LOOK_S)
            self._held += 1
            self._held_bytes += size
            self._read.append(item)
            self._changed.notify_all()
            return not self._closed

    def _fits(self, size: int) -> bool:
        return self._held < self._most and self._held_bytes + size <= MOST_BYTES


def in_order(
    items: Generator[Item, None, None],
    judge: Callable[[Item], Judged],
    workers: int,
    stop: threading.Event,
) -> Generator[Judged, None, None]:
    """What ``judge`` says of each item, in their order, from ``workers`` threads; what it raises is raised.

    Once ``stop`` is set, what is being judged still comes out, without a hole; nothing else is begun. Closed
    early, it returns when nobody judges any more.
    """
    ahead = Ahead(items, 2 * workers + 2)
    window: deque[Future[Judged]] = deque()

    def judge_one(item: Item) -> Judged:
        try:
            return judge(item)
        finally:
            ahead.judged(item)

    with ThreadPoolExecutor(workers, "batch-judge") as pool:
        try:
            while (item := ahead.next(stop)) is not None:
                window.append(pool.submit(judge_one, item))
                if len(window) > 2 * workers:
                    yield window.popleft().result()
            if stop.is_set():
                _drop_last(window)
            while window:
                yield window.popleft().result()
        finally:
            _drop_last(window)
            ahead.close()


def _drop_last(window: deque[Future[Judged]]) -> None:
    """From the last on, those that nobody has begun."""
    while window and window[-1].cancel():
        window.pop()


def _size(item: Item) -> int:
    return 0 if item.pixels is None else int(item.pixels.nbytes)
