"""Results on their way to the outbox: each station's in order, none held back longer than a moment."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from edge_infer.evidence.pictures import named
from edge_infer.evidence.settings import Kind
from edge_infer.progress import Loop
from edge_infer.result import Result, StoredPicture

HOLD_S = 0.1
"""A result waits so long for its pictures' hashes, then it goes with those that are there."""
HANG_S = 10.0
"""Results wait behind it: told, and soon a reason to start the service again."""
PATIENCE_S = 20.0


@dataclass(slots=True, eq=False)
class Held:
    """A result that waits for its pictures, or behind one that does."""

    result: Result
    due_s: float
    """Monotonic."""
    complete: bool = False
    gone: bool = False
    pictures: dict[Kind, StoredPicture] = field(default_factory=dict)


class Records:
    """Thread-safe. ``put`` is called under a lock, so that the order holds: it must not wait."""

    def __init__(self, put: Callable[[Result], None]) -> None:
        self._put = put
        self._waiting: dict[str, deque[Held]] = {}
        """By station, in order; stations without any are absent."""
        self._changed = threading.Condition()
        self._closed = False
        self.loop = Loop("results with pictures", limit_s=HANG_S, patience_s=PATIENCE_S)
        self._thread = threading.Thread(target=self._keep_time, name="evidence-records", daemon=True)
        self._thread.start()

    def pass_on(self, result: Result) -> None:
        """A result without pictures: at once, unless one of its station is held."""
        with self._changed:
            queue = self._waiting.get(result.station)
            if queue is None:
                self._put(result)
            else:
                # the one in front goes first, at the latest when its time is up
                queue.append(Held(result, float("inf"), complete=True))

    def hold(self, result: Result) -> Held:
        """Until `complete`, or until its time is up."""
        with self._changed:
            held = Held(result, time.monotonic() + HOLD_S)
            self._waiting.setdefault(result.station, deque()).append(held)
            if self._closed:
                self._release(float("inf"))
            self._changed.notify()
        return held

    def attach(self, held: Held, kind: Kind, picture: StoredPicture) -> bool:
        """The result will name it; False where it is gone already."""
        with self._changed:
            if not held.gone:
                held.pictures[kind] = picture
            return not held.gone

    def complete(self, held: Held) -> None:
        """No more pictures come."""
        with self._changed:
            held.complete = True
            self._release(time.monotonic())

    def close(self) -> None:
        """What is held goes as it is; nothing is held from now on."""
        with self._changed:
            self._closed = True
            self._release(float("inf"))
            self._changed.notify()
        self._thread.join(1.0)

    def _keep_time(self) -> None:
        with self._changed:
            while not self._closed:
                next_s = min((queue[0].due_s for queue in self._waiting.values()), default=None)
                if next_s is None:
                    self.loop.rest()
                    self._changed.wait()
                else:
                    self.loop.passed()
                    self._changed.wait(max(0.0, next_s - time.monotonic()))
                self._release(time.monotonic())
            self.loop.rest()

    def _release(self, now_s: float) -> None:
        for station in list(self._waiting):
            queue = self._waiting[station]
            while queue and (queue[0].complete or queue[0].due_s <= now_s):
                held = queue.popleft()
                held.gone = True
                self._put(named(held.result, held.pictures))
            if not queue:
                del self._waiting[station]
