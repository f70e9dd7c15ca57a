"""A trouble that lasts: told once, and its decision renewed for as long as nothing else is decided."""

from __future__ import annotations

import time

from edge_infer import clock
from edge_infer.result import Result

AGAIN_S = 1.0
"""How often it is said again."""


class Standing:
    """The trouble's own result, as long as nothing came after it. Used inside the station's lock."""

    def __init__(self) -> None:
        self._result: Result | None = None
        self._told_s = 0.0

    def decided(self, result: Result, *, lasts: bool) -> None:
        """The newest result of the station; ``lasts``: it is that of a trouble."""
        self._result, self._told_s = (result, time.monotonic()) if lasts else (None, 0.0)

    def over(self) -> None:
        """The trouble is gone, though nothing was judged yet."""
        self._result = None

    def due(self, now_s: float) -> Result | None:
        """What is to be said again now, monotonic ``now_s``."""
        if self._result is None or now_s - self._told_s < AGAIN_S:
            return None
        self._told_s = now_s
        return self._result.model_copy(update={"creation_time": clock.now()})
