"""Who still comes on: each long-lived loop passes its check-point within its own limit."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from math import inf

log = logging.getLogger(__name__)

NEVER = inf
"""As ``patience_s``: a restart would mend nothing, or cost more than it mends."""
GAP_S = 1.0
"""A look that comes later than this after the one before says nothing: all of us stood still."""


class Loop:
    """One loop's check-point. Passed by the loop's own thread, looked at by another one; no lock.

    What is waited for is declared: nobody who waits for work, or to try again, hangs.
    """

    __slots__ = ("_due_s", "_limit_s", "group", "name", "patience_s")

    def __init__(self, name: str, *, limit_s: float, patience_s: float = 0.0, group: str = "") -> None:
        """``limit_s``: between two check-points. ``patience_s``: how much later it is a reason to restart.

        ``group``: loops of one are a reason only when all of them are.
        """
        self.name = name
        self.patience_s = patience_s
        self.group = group
        self._limit_s = limit_s
        self._due_s = inf

    def passed(self, wait_s: float = 0.0) -> None:
        """The next check-point comes within the limit, after a wait of at most ``wait_s``."""
        self._due_s = time.monotonic() + self._limit_s + wait_s

    def rest(self) -> None:
        """Waits for others, for as long as it takes; or has ended."""
        self._due_s = inf

    def late_s(self, now_s: float) -> float:
        """By how much the check-point is overdue at that monotonic time; negative where it is not."""
        return now_s - self._due_s


class Watch:
    """Looks at all loops. Used by one thread, which must come on itself: nobody looks after it here."""

    def __init__(
        self,
        loops: Callable[[], Iterable[Loop]],
        *,
        hangs: Callable[[Loop], None],
        resumed: Callable[[Loop, float], None],
    ) -> None:
        """``loops`` may be others at each look. ``hangs`` and ``resumed`` (after how long, s): once each."""
        self._loops = loops
        self._hangs = hangs
        self._resumed = resumed
        self._since: dict[Loop, float] = {}
        """Monotonic: since when each of those that hang does."""
        self._looked_s = time.monotonic()
        self._not_before_s = 0.0
        self.hopeless: tuple[Loop, ...] = ()
        """For which the service should be started again."""

    @property
    def hung(self) -> dict[str, float]:
        """Those that are overdue, by name, and since when (monotonic)."""
        return {loop.name: since_s for loop, since_s in self._since.items()}

    def look(self) -> bool:
        """True while nobody is so late that only a restart helps."""
        now_s = time.monotonic()
        if now_s - self._looked_s > GAP_S:
            # the process was stopped, or starved: the others need a moment to come on as well
            self._not_before_s = now_s + GAP_S
        self._looked_s = now_s
        loops = tuple(self._loops())
        late = {loop: loop.late_s(now_s) for loop in loops}
        # one that hung and was replaced has not come back: its thread may be held still
        self._since = {loop: since_s for loop, since_s in self._since.items() if loop in late}
        for loop in [one for one in self._since if late[one] <= 0]:
            self._resumed(loop, now_s - self._since.pop(loop))
        if now_s < self._not_before_s:
            return not self.hopeless
        for loop, late_s in late.items():
            if late_s > 0 and loop not in self._since:
                self._since[loop] = now_s - late_s
                self._hangs(loop)
        worst = [loop for loop, late_s in late.items() if late_s > 0 and late_s >= loop.patience_s]
        self.hopeless = tuple(
            loop
            for loop in worst
            if not loop.group or {one for one in loops if one.group == loop.group} <= {*worst}
        )
        return not self.hopeless
