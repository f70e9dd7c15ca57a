"""Messages from the broker, handled one after the other on a thread of their own."""

from __future__ import annotations

import logging
import queue
import threading
from collections import Counter, deque
from collections.abc import Callable

from edge_infer.mqtt.connection import Arrived
from edge_infer.mqtt.messages import Message
from edge_infer.progress import NEVER, Loop

log = logging.getLogger(__name__)

LIMIT = 100
"""Messages of one topic that may wait; more are dropped and counted. The other topics keep their room."""

HANG_S = 30.0
"""A command that takes longer is told: those behind it wait."""

Handler = Callable[[Message], None]


class Inbox:
    """The network thread puts, the handlers' thread works, the network thread acknowledges."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self.dropped = 0
        self.loop = Loop("commands", limit_s=HANG_S, patience_s=NEVER)
        self._wake = wake
        self._handlers: dict[str, Handler] = {}
        self._queue: queue.SimpleQueue[Arrived | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._waiting: Counter[str] = Counter()
        self._handled: deque[Arrived] = deque()
        self._thread: threading.Thread | None = None

    @property
    def topics(self) -> list[str]:
        """What to subscribe to."""
        return list(self._handlers)

    def handle(self, topic: str, handler: Handler) -> None:
        """Before or after the first connection."""
        self._handlers[topic] = handler
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="mqtt-commands", daemon=True)
            self._thread.start()
        self._wake()

    def ignore(self, topic: str) -> None:
        """What waits or comes there is not handled any more."""
        self._handlers.pop(topic, None)
        self._wake()

    def put(self, arrived: Arrived) -> bool:
        """From the network thread; never waits. False where the message is dropped."""
        topic = arrived.message.topic
        with self._lock:
            full = self._waiting[topic] >= LIMIT
            self._waiting[topic] += not full
        if full:
            self.dropped += 1
            if self.dropped in (1, 10, 100) or self.dropped % 1000 == 0:
                log.error("a message on %s is dropped: %d wait already", topic, LIMIT)
            return False
        self._queue.put(arrived)
        return True

    def handled(self) -> list[Arrived]:
        """What may be acknowledged since the last call."""
        done: list[Arrived] = []
        while self._handled:
            done.append(self._handled.popleft())
        return done

    def close(self, timeout_s: float) -> None:
        """After the message in hand; a handler that hangs is left behind."""
        if self._thread is None:
            return
        self._queue.put(None)
        self._thread.join(timeout_s)

    def _run(self) -> None:
        while (arrived := self._queue.get()) is not None:
            self.loop.passed()
            handler = self._handlers.get(arrived.message.topic)
            with self._lock:
                self._waiting[arrived.message.topic] -= 1
            try:
                if handler is not None:
                    handler(arrived.message)
            except Exception:
                # one bad command must not end all later ones
                log.exception("a command on %s failed", arrived.message.topic)
            self._handled.append(arrived)
            self._wake()
            self.loop.rest()
