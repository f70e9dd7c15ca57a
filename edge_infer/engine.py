"""One network shared by the stations that use it: as many threads as the backend takes requests."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Protocol

from edge_infer.network import Network
from edge_infer.progress import Loop

log = logging.getLogger(__name__)

REQUEST_S = 10.0
"""One inspection, all its tiles included, takes less, else it is told."""
PATIENCE_S = 20.0
"""After that a runtime that does not come back is a reason to start the service again."""
WAIT_S = 1.0
"""How often a thread that waits for work looks whether it should stop."""

Work = Callable[[Network], None]
"""One inspection from preprocessing to its result; raises nothing that is expected."""


class Feed(Protocol):
    """A station as the engine sees it. It may give its work to one engine now and to another one later."""

    def take_triggered(self, engine: Engine) -> Work | None:
        """The oldest inspection for ``engine`` that a part asked for, None where none waits. Never blocks."""

    def take_newest(self, engine: Engine) -> Work | None:
        """The newest frame's inspection if it is for ``engine``, None where none waits. Never blocks."""


class Engine:
    """Takes a live frame only when a request is free: a queue behind the slot would make "newest" false.

    Triggered frames first, then stations in turn.
    """

    def __init__(self, name: str, network: Network) -> None:
        self.network = network
        self.failure: Exception | None = None
        """A bug that ended one of its threads."""
        self._feeds: list[Feed] = []
        # whose turn it is, for each kind of its own: a part must not cost its station a live frame
        self._triggered_turn = self._newest_turn = 0
        self._wake = threading.Condition()
        self._stopping = False
        self._in_hand: set[int] = set()
        """Threads that work."""
        self.loops = [
            Loop(f"model {name} (request {i})", limit_s=REQUEST_S, patience_s=PATIENCE_S)
            for i in range(max(1, network.requests))
        ]
        self._threads = [
            threading.Thread(target=self._work, args=(loop,), name=f"engine-{name}-{i}", daemon=True)
            for i, loop in enumerate(self.loops)
        ]

    @property
    def in_use(self) -> int:
        """How many inspections are in hand just now."""
        return len(self._in_hand)

    def add(self, feed: Feed) -> None:
        """Ask it for work from now on; one that is known already is asked once."""
        with self._wake:
            if feed not in self._feeds:
                self._feeds.append(feed)
                self._wake.notify()

    def remove(self, feed: Feed) -> None:
        """Ask it no more; it may be one that is not known."""
        with self._wake:
            self._feeds = [one for one in self._feeds if one is not feed]

    def start(self) -> None:
        """Begin to take work."""
        for thread in self._threads:
            thread.start()

    def wake(self) -> None:
        """A feed has something to take."""
        with self._wake:
            self._wake.notify()

    def stop(self, timeout_s: float) -> bool:
        """End after what is in hand; False where a runtime did not come back in time."""
        with self._wake:
            self._stopping = True
            self._wake.notify_all()
        end = time.monotonic() + timeout_s
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(max(0.0, end - time.monotonic()))
        if any(thread.is_alive() for thread in self._threads):
            return False
        self.network.close()
        return True

    def _work(self, loop: Loop) -> None:
        try:
            while (work := self._next(loop)) is not None:
                loop.passed()
                work(self.network)
        except Exception as error:
            # the service looks at it, ends and is started again
            log.exception("engine: a bug ended one of its threads")
            self.failure = error
        finally:
            loop.rest()

    def _next(self, loop: Loop) -> Work | None:
        with self._wake:
            self._in_hand.discard(threading.get_ident())
            while not self._stopping:
                loop.passed(WAIT_S)
                work = self._take_triggered() or self._take_newest()
                if work is not None:
                    self._in_hand.add(threading.get_ident())
                    return work
                self._wake.wait(WAIT_S)
            return None

    def _take_triggered(self) -> Work | None:
        for i in range(len(self._feeds)):
            turn = (self._triggered_turn + i) % len(self._feeds)
            if (work := self._feeds[turn].take_triggered(self)) is not None:
                self._triggered_turn = turn + 1
                return work
        return None

    def _take_newest(self) -> Work | None:
        for i in range(len(self._feeds)):
            turn = (self._newest_turn + i) % len(self._feeds)
            if (work := self._feeds[turn].take_newest(self)) is not None:
                self._newest_turn = turn + 1
                return work
        return None
