"""How much the pictures may take: bytes, age, and what the disk must keep free. The oldest go first.

One thread uses it, which may wait for the disk. In memory is one number a day and station, never a list of
all pictures.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterator

from edge_infer.evidence.folder import Day, Folder, cost, taken_s
from edge_infer.evidence.settings import EvidenceSettings

FREE_FILES = 500
"""Inodes that the disk must keep free."""
SLACK = 64 * 1024
"""Folders and the file system's own notes on a new file."""
LISTED = 1000
"""The oldest pictures of a day, listed at once."""
PAUSE_EVERY = 200
"""Pictures looked at between two pauses: counting a million must not keep others from the processor."""
DAY_S = 86_400


class NoRoomError(Exception):
    """Nothing more may be stored, and why."""


class Budget:
    """Counts what is there (`count`, step by step) and makes room for what comes."""

    def __init__(self, folder: Folder, settings: EvidenceSettings, pause: Callable[[], None]) -> None:
        """``pause`` is called often while many files are looked at; what it raises ends the work."""
        self.total = 0
        """Bytes on disk, as far as counted."""
        self._folder = folder
        self._settings = settings
        self._pause = pause
        self._days: dict[Day, int] = {}
        self._oldest: deque[tuple[str, Day]] = deque()
        """Names of the oldest day, the oldest first; few of many."""
        self._counting: Iterator[None] | None = None

    def configure(self, settings: EvidenceSettings) -> None:
        """From the next picture on."""
        self._settings = settings

    def start_count(self) -> None:
        """What is on disk is what counts, whoever put or removed it."""
        self._counting = self._count()

    def count(self) -> bool:
        """One day of one station; False where all is counted."""
        if self._counting is not None and next(self._counting, self) is self:
            self._counting = None
        return self._counting is not None

    def _count(self) -> Iterator[None]:
        listed = self._folder.days()
        for gone in self._days.keys() - set(listed):
            self._set(gone, 0)
        for day in listed:
            size = 0
            for at, each in enumerate(self._folder.costs(day)):
                if at % PAUSE_EVERY == 0:
                    self._pause()
                size += each
            self._set(day, size)
            yield

    def _set(self, day: Day, size: int) -> None:
        self.total += size - self._days.get(day, 0)
        self._days[day] = size

    def stored(self, day: Day, size: int) -> None:
        """A picture of that many bytes was written."""
        self._set(day, self._days.get(day, 0) + cost(size))

    def make_room(self, sizes: list[int], *, margin: int = 0) -> None:
        """For pictures of these sizes; ``margin``: more bytes that must be free. NoRoomError, OSError."""
        needed, limit = sum(map(cost, sizes)), self._settings.max_bytes
        if needed > limit:
            raise NoRoomError(f"pictures of {needed} bytes are more than max_bytes allows")
        floor = self._settings.min_free_bytes + margin
        missing, files = self._missing(needed + floor, len(sizes))
        if missing > 0 or files > 0 or self.total + needed > limit:
            # which are the oldest is known when all are counted
            while self.count():
                pass
        if missing > self.total:
            # to delete all would not do: then nothing is
            raise self._no_room()
        while (missing > 0 or files > 0 or self.total + needed > limit) and (freed := self._delete_oldest()):
            missing, files = missing - freed, files - 1
        # others use the disk too, and some file systems free later
        missing, files = self._missing(needed + floor, len(sizes))
        if missing > 0 or files > 0:
            raise self._no_room()

    def _missing(self, needed: int, new_files: int) -> tuple[int, int]:
        """Bytes and files that have to go first; negative where there is more than enough."""
        free = self._folder.free()
        # a day's and a station's folder may be new too
        files = 0 if free.files is None else FREE_FILES + new_files + 2 - free.files
        return needed + SLACK - free.bytes, files

    def _no_room(self) -> NoRoomError:
        return NoRoomError(
            f"the disk must keep {self._settings.min_free_bytes} bytes and {FREE_FILES} files free "
            f"(min_free_bytes)"
        )

    def delete_old(self, now_s: float) -> bool:
        """The oldest picture if it is too old (``now_s`` since 1970); False where none is."""
        oldest = self._find_oldest()
        if oldest is None or taken_s(oldest) > now_s - self._settings.max_age_days * DAY_S:
            return False
        self._delete_oldest()
        return True

    def _delete_oldest(self) -> int:
        while self._find_oldest() is not None:
            name, day = self._oldest[0]
            freed = self._folder.delete(day, name)
            self._oldest.popleft()
            self._set(day, max(0, self._days.get(day, 0) - freed))
            if freed:
                return freed
        return 0

    def _find_oldest(self) -> str | None:
        while not self._oldest:
            if not self._days:
                return None
            first = min(self._days)
            here = [day for day in self._days if day.date == first.date]
            self._oldest.extend(heapq.nsmallest(LISTED, self._listed(here)))
            if not self._oldest:
                for day in here:
                    self._folder.delete_empty(day)
                    self._set(day, 0)
                    del self._days[day]
        return self._oldest[0][0]

    def _listed(self, days: list[Day]) -> Iterator[tuple[str, Day]]:
        for day in days:
            for at, name in enumerate(self._folder.names(day)):
                if at % PAUSE_EVERY == 0:
                    self._pause()
                yield name, day
