"""When to connect again, and whether two clients fight about one id."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Literal

SHORT_S, SHORT_LIVES = 10.0, 3
"""So many connections in a row that live so short are suspicious."""
LONG_FAILURES = 6
"""As after so many failures: no war about a client id."""


@dataclass(frozen=True, slots=True)
class Timing:
    """How patient the pump is."""

    connack_s: float = 10.0
    """For the broker's answer to CONNECT."""
    ack_s: float = 20.0
    """Without any PUBACK the connection is made anew."""
    retry_min_s: float = 1.0
    """Before the second attempt; doubled each time, less a random part."""
    retry_max_s: float = 30.0
    steady_s: float = 30.0
    """A connection that lived so long makes the next wait short again."""


@dataclass(slots=True)
class Retry:
    """One connection after the other."""

    timing: Timing
    _failures: int = 0
    _short_lives: int = 0

    def ended(
        self, *, was_in: bool, lived_s: float, explained: bool, taken_over: bool
    ) -> Literal["sure", "probable"] | None:
        """A connection or an attempt is over; whether another client uses our id.

        ``explained``: the broker had another reason to close it.
        """
        self._failures = 0 if was_in and lived_s >= self.timing.steady_s else self._failures + 1
        riddle = was_in and lived_s < SHORT_S and not explained
        self._short_lives = self._short_lives + 1 if riddle else 0
        if taken_over or self._short_lives >= SHORT_LIVES:
            self._failures = max(self._failures, LONG_FAILURES)
        if taken_over:
            return "sure"
        return "probable" if self._short_lives == SHORT_LIVES else None

    def settled(self) -> None:
        """Why connections ended is known and over: no long waits for it."""
        self._failures = self._short_lives = 0

    def wait_s(self) -> float:
        """Before the next attempt."""
        longest: float = min(
            self.timing.retry_max_s, self.timing.retry_min_s * 2.0 ** max(0, self._failures - 1)
        )
        # many devices lose the same broker at the same instant
        return longest * random.uniform(0.5, 1.0)  # noqa: S311 - not a secret
