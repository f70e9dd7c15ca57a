"""Can pictures be stored? Told when it changes."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any

log = logging.getLogger(__name__)

Alarm = Callable[[str, Mapping[str, Any], str | None], None]
"""kind, data, station"""


class Health:
    """Thread-safe. One line in the log and one event a change."""

    def __init__(self, alarm: Alarm) -> None:
        self._alarm = alarm
        self._lock = threading.Lock()
        self._trouble: str | None = None
        self._dropped = 0

    @property
    def well(self) -> bool:
        """Pictures are stored."""
        return self._trouble is None

    @property
    def dropped(self) -> int:
        """Results whose pictures were given up, for whatever reason."""
        return self._dropped

    def drop(self) -> None:
        """A result goes without pictures that it should have."""
        with self._lock:
            self._dropped += 1

    def fail(self, why: str) -> None:
        """From now on nothing is stored; results go on."""
        with self._lock:
            told, self._trouble = self._trouble is not None, self._trouble or why
        if not told:
            log.error("no pictures are stored: %s; results go on without them", why)
            self._alarm("evidence_stopped", {"why": why}, None)

    def mend(self) -> None:
        """Pictures are stored again."""
        with self._lock:
            trouble, self._trouble = self._trouble, None
            dropped = self._dropped
        if trouble is not None:
            log.info("pictures are stored again; %d result(s) went without since the start", dropped)
            self._alarm("evidence_resumed", {"dropped": dropped}, None)
