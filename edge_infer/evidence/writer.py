"""The one thread that touches the pictures' disk. Nobody waits for it."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from edge_infer import clock
from edge_infer.evidence.budget import DAY_S, Budget, NoRoomError
from edge_infer.evidence.folder import Folder, day_of, name_of
from edge_infer.evidence.health import Alarm, Health
from edge_infer.evidence.pictures import Encoded
from edge_infer.evidence.settings import EvidenceSettings
from edge_infer.progress import NEVER, Loop
from edge_infer.result import Result

log = logging.getLogger(__name__)

WAITING = 32
"""Results whose pictures may wait for the disk."""
WAITING_BYTES = 32_000_000
HANG_S = 2.0
"""A disk that takes longer for one result's pictures is no place for more of them."""
LOOP_S = 30.0
"""Told where even its housekeeping does not come on; a restart mends no disk."""
RETRY_S = 5.0
"""How often a disk that could not be written is tried again."""
SWEEP_S = 3600.0
"""How often all pictures are counted and the too old ones deleted."""
PAUSE_S = 0.001


@dataclass(frozen=True, slots=True, eq=False)
class Named:
    """Pictures that a result names; they are to be on disk."""

    result: Result
    pictures: tuple[Encoded, ...]

    @property
    def sizes(self) -> list[int]:
        """Bytes of each."""
        return [len(one.data) for one in self.pictures]


class _EndingError(Exception):
    """The service stops: what is under way can be done at the next start."""


class Writer:
    """`put` from one thread; `close` from any."""

    def __init__(self, folder: Folder, settings: EvidenceSettings, health: Health, alarm: Alarm) -> None:
        self.stored = 0
        """Results whose pictures are on disk."""
        self._folder = folder
        self._health = health
        self._alarm = alarm
        self._budget = Budget(folder, settings, self._pause)
        self._ageing = clock.Ageing(settings.max_age_days * DAY_S)
        self._waiting: deque[Named] = deque()
        self._waiting_bytes = 0
        self._in_hand: Named | None = None
        self._since_s = 0.0
        """When it was taken in hand."""
        self._closing = False
        self._abandoned = False
        self._changed = threading.Condition()
        self._counting = False
        self._next_count_s = 0.0
        self._retry_s = 0.0
        self._failed_sizes: list[int] = []
        self.loop = Loop("pictures' disk", limit_s=LOOP_S, patience_s=NEVER)
        self._thread = threading.Thread(target=self._run, name="evidence-disk", daemon=True)

    def start(self) -> None:
        """Before the first `put`."""
        self._thread.start()

    @property
    def size_bytes(self) -> int:
        """On disk, as far as counted."""
        return self._budget.total

    # -- the encoder's side

    def takes_more(self) -> bool:
        """Whether pictures named now will be written, as far as anybody can know; tells where not."""
        with self._changed:
            hangs = self._in_hand is not None and time.monotonic() - self._since_s > HANG_S
            full = len(self._waiting) >= WAITING or self._waiting_bytes >= WAITING_BYTES
            if hangs or full:
                self._retry_s = time.monotonic() + RETRY_S
        if hangs or full:
            self._health.fail(f"the disk does not take them: {'it hangs' if hangs else 'it is too slow'}")
        return self._health.well

    def configure(self, settings: EvidenceSettings) -> None:
        """From the next picture on."""
        self._budget.configure(settings)

    def put(self, named: Named) -> None:
        """Hand over at once, after `takes_more`."""
        with self._changed:
            if not self._abandoned:
                self._waiting.append(named)
                self._waiting_bytes += sum(named.sizes)
                self._changed.notify()
                return
        self._lost(named, named.pictures, "the service stops")

    def close(self, timeout_s: float) -> None:
        """Write what waits; what the disk does not take in that time is told to be lost. Bounded."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join(timeout_s)
        with self._changed:
            self._abandoned = True
            left = [*([self._in_hand] if self._in_hand else []), *self._waiting]
            self._waiting.clear()
        for named in left:
            self._lost(named, named.pictures, "the service stopped before the disk took it")
        if left:
            log.error("the disk did not take the pictures of the last %d result(s) in time", len(left))

    # -- the thread

    def _run(self) -> None:
        try:
            self.loop.passed()
            self._attempt(self._folder.prepare)
            # begin to count before the first picture may need room
            self._attempt(self._keep_house)
            while True:
                named = self._take()
                self.loop.passed()
                if named is not None:
                    self._write(named)
                elif self._closing:
                    return
                else:
                    self._attempt(self._keep_house)
        except _EndingError:
            pass
        except Exception as error:  # a bug here must not be the end of the line
            log.exception("a bug ended the thread that stores pictures")
            self._health.fail(f"a bug in edge-infer: {type(error).__name__}: {error}")
        finally:
            self.loop.rest()

    def _take(self) -> Named | None:
        with self._changed:
            if not self._waiting and not self._closing:
                next_s = self._next_count_s if self._health.well else self._retry_s
                wait_s = next_s - time.monotonic()
                self.loop.rest()
                self._changed.wait(PAUSE_S if self._counting else max(PAUSE_S, wait_s))
            self._in_hand = self._waiting.popleft() if self._waiting else None
            if self._in_hand is not None:
                self._waiting_bytes -= sum(self._in_hand.sizes)
                self._since_s = time.monotonic()
            return self._in_hand

    def _write(self, named: Named) -> None:
        day = day_of(named.result)
        left = list(named.pictures)
        try:
            self._budget.make_room(named.sizes)
            while left and not self._abandoned:
                self._folder.write(day, name_of(named.result, left[0].kind), left[0].data)
                self._budget.stored(day, len(left.pop(0).data))
            self._folder.settle(day)
            self.stored += not left
        except (OSError, NoRoomError) as error:
            self._failed(error, named.sizes)
            self._health.drop()
            # none is left where only their names could not be made sure of
            self._lost(named, left or named.pictures, _text(error))
        with self._changed:
            self._in_hand = None

    def _keep_house(self) -> None:
        """One small step of what is to be done while nothing waits."""
        now_s = time.monotonic()
        if not self._health.well and now_s >= self._retry_s:
            self._retry()
        elif self._counting:
            self._counting = self._budget.count() or self._budget.delete_old(self._ageing.now_s())
        elif now_s >= self._next_count_s:
            self._budget.start_count()
            self._counting, self._next_count_s = True, now_s + SWEEP_S

    def _retry(self) -> None:
        """As the pictures that failed would be written, with some room more: no flicker at the limit."""
        self._folder.prepare()
        self._budget.make_room(self._failed_sizes, margin=sum(self._failed_sizes))
        self._folder.try_out(sum(self._failed_sizes))
        self._health.mend()

    def _attempt(self, work: Callable[[], None]) -> None:
        try:
            work()
        except (OSError, NoRoomError) as error:
            self._failed(error, self._failed_sizes)

    def _failed(self, error: OSError | NoRoomError, sizes: list[int]) -> None:
        self._failed_sizes = sizes
        self._retry_s = time.monotonic() + RETRY_S
        # what a broken disk holds is counted when it is mended
        self._counting, self._next_count_s = False, self._retry_s
        self._health.fail(_text(error))

    def _lost(self, named: Named, pictures: Sequence[Encoded], why: str) -> None:
        kinds = [one.kind for one in pictures]
        data = {"resultId": named.result.result_id, "pictures": kinds, "why": why}
        self._alarm("evidence_lost", data, named.result.station)

    def _pause(self) -> None:
        with self._changed:
            if self._abandoned or (self._closing and self._in_hand is None):
                raise _EndingError
            # many pictures are counted, one after the other
            self.loop.passed()
            self._changed.wait(PAUSE_S)


def _text(error: OSError | NoRoomError) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror if error.filename is None else f"{error.filename}: {error.strerror}"
    return str(error)
