"""Which inspections become published results."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from edge_infer.result import Decision
from edge_infer.settings import Settings


class Periodic(Settings):
    """``publish: {every_s: 1}``: the newest inspection each period, and every change at once."""

    every_s: Annotated[float, Field(gt=0)]


Publish = Literal["every", "change"] | Periodic


class PublishPolicy:
    """One station's policy. A change of the decision is always published."""

    def __init__(self, policy: Publish) -> None:
        self._policy = policy
        self._last: Decision | None = None
        self._next_s = float("-inf")

    def wants(self, decision: Decision, time_s: float) -> bool:
        """Ask once an inspection, in order; ``time_s`` as in the frame."""
        changed = decision != self._last
        self._last = decision
        if self._policy == "every":
            return True
        if isinstance(self._policy, Periodic):
            if not changed and time_s < self._next_s:
                return False
            self._next_s = time_s + self._policy.every_s
            return True
        return changed
