"""Answers to commands that wait for the broker."""

from __future__ import annotations

import logging
import time
from collections import deque

from edge_infer.mqtt.messages import Publication

log = logging.getLogger(__name__)

LIMIT = 500
"""Answers that may wait; the oldest is dropped."""
VALID_S = 10.0
"""So long an answer waits; who still wants it has repeated the request by then."""


class Replies:
    """Anyone puts, the pump takes."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[float, Publication]] = deque(maxlen=LIMIT)
        """Until when (monotonic), the oldest first."""

    def put(self, publication: Publication) -> None:
        """One more answer."""
        self._waiting.append((time.monotonic() + VALID_S, publication))

    def take(self) -> Publication | None:
        """The oldest that is still wanted."""
        while self._waiting:
            until_s, publication = self._waiting.popleft()
            if time.monotonic() < until_s:
                return publication
            log.warning("an answer on %s waited too long for the broker and is dropped", publication.topic)
        return None
