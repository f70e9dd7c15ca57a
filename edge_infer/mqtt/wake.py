"""Lets any thread end the pump's wait."""

from __future__ import annotations

import os
import select
import threading
from contextlib import suppress


class Wake:
    """A descriptor that can be read after `set`."""

    def __init__(self) -> None:
        self.fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._lock = threading.Lock()
        self._open = True

    def set(self) -> None:
        """Safe after `close`."""
        # the lock keeps the number from being somebody else's by now
        with self._lock:
            if self._open:
                os.eventfd_write(self.fd, 1)

    def wait(self, timeout_s: float) -> None:
        """Until `set` or the time is over; then it is clear."""
        poll = select.poll()
        poll.register(self.fd, select.POLLIN)
        poll.poll(max(0.0, timeout_s) * 1000)
        self.clear()

    def clear(self) -> None:
        """Wait anew."""
        with suppress(BlockingIOError):
            os.eventfd_read(self.fd)

    def close(self) -> None:
        """Nobody waits any more."""
        with self._lock:
            if self._open:
                self._open = False
                os.close(self.fd)
