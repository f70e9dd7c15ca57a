"""Pictures on their way to the broker: few, in memory, the newest win, behind everything else."""

from __future__ import annotations

import threading
import time
from collections import deque

from edge_infer.mqtt.messages import Publication

WAITING = 4
"""Pictures that may wait; the oldest gives way."""
PAUSE_S, LONGEST_PAUSE_S = 60.0, 3600.0
"""A connection was lost while a picture was on the wire: no other for so long, doubled each time. On a slow
link a picture keeps everything behind it from being heard, the sign of life too."""
HEADROOM = 2048
"""Bytes of a packet left for what is beside the picture: topic, properties."""


class Images:
    """Thread-safe: any thread puts, the pump takes; one at a time is on the wire."""

    def __init__(self, largest: int) -> None:
        self.sent = 0
        """The broker took them."""
        self.dropped = 0
        """Given up: too large, no connection, newer ones came, refused."""
        self._largest = largest
        self._packet: int | None = None
        """What the broker said that it takes at most."""
        self._online = False
        self._waiting: deque[Publication] = deque()
        self._on_wire = False
        self._pause_s = PAUSE_S
        self._not_before_s = 0.0
        self._lock = threading.Lock()

    @property
    def limit(self) -> int:
        """Bytes that a picture may have; before the first connection the broker's limit is not known."""
        if self._packet is None:
            return self._largest
        return max(0, min(self._largest, self._packet - HEADROOM))

    def put(self, picture: Publication) -> bool:
        """False where it is not taken: too large, or it cannot be sent now."""
        with self._lock:
            fits = len(picture.payload) <= self.limit and (
                self._packet is None or picture.size <= self._packet
            )
            if not fits or not self._online or time.monotonic() < self._not_before_s:
                self.dropped += 1
                return False
            if len(self._waiting) >= WAITING:
                self._waiting.popleft()
                self.dropped += 1
            self._waiting.append(picture)
        return True

    def connected(self, maximum_packet: int | None) -> None:
        """The broker takes packets of that size, None: of any."""
        with self._lock:
            self._online, self._packet = True, maximum_packet

    def disconnected(self) -> None:
        """Nothing waits for the next connection: by then it is old."""
        with self._lock:
            self._online = False
            self.dropped += len(self._waiting) + self._on_wire
            self._waiting.clear()
            if self._on_wire:
                self._not_before_s = time.monotonic() + self._pause_s
                self._pause_s = min(LONGEST_PAUSE_S, self._pause_s * 2)
            self._on_wire = False

    def take(self) -> Publication | None:
        """The oldest, unless one is on the wire."""
        with self._lock:
            if self._on_wire or not self._waiting:
                return None
            self._on_wire = True
            return self._waiting.popleft()

    def answered(self, *, refused: bool) -> None:
        """The broker said what it thinks of the one on the wire."""
        with self._lock:
            self._on_wire = False
            self._pause_s = PAUSE_S
            self.dropped += refused
            self.sent += not refused
