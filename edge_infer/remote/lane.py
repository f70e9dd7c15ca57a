"""One worker with a bounded queue: what is slow makes only its own kind wait."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable

log = logging.getLogger(__name__)


class Lane:
    """Tasks one after the other on a thread of their own, made with the first task."""

    def __init__(self, name: str, limit: int) -> None:
        self._name = name
        self._queue: queue.Queue[Callable[[], None] | None] = queue.Queue(limit)
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._closed = False

    @property
    def full(self) -> bool:
        """The next task would not be taken."""
        return self._queue.full()

    def put(self, task: Callable[[], None]) -> bool:
        """Never waits. False where the queue is full or closed."""
        with self._lock:
            if self._closed:
                return False
            try:
                self._queue.put_nowait(task)
            except queue.Full:
                return False
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=f"commands-{self._name}", daemon=True)
                self._thread.start()
            return True

    def close(self, timeout_s: float) -> bool:
        """After the task in hand; what waits is left. False where it did not end in time."""
        with self._lock:
            self._closed = True
            if self._thread is None:
                return True
            try:
                while True:
                    self._queue.get_nowait()
            except queue.Empty:
                self._queue.put_nowait(None)
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while (task := self._queue.get()) is not None:
            try:
                task()
            except Exception:
                # one request must not end all later ones
                log.exception("a command failed in an unexpected way")
