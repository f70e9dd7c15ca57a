"""An inspection at a fixed pace."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from edge_infer.frame import Frame
from edge_infer.triggers import TriggerSettings


class Every(TriggerSettings):
    """``trigger: {type: every, every_s: 0.5}``: the first frame at or after each due time."""

    type: Literal["every"]
    every_s: Annotated[float, Field(gt=0)]

    def choose(self) -> Paced:
        """One frame a period."""
        return Paced(self.every_s)


class Paced:
    """Keeps the pace of the first frame; periods without a frame are not made up for."""

    def __init__(self, every_s: float) -> None:
        self._every_s = every_s
        self._start_s: float | None = None
        self._period = 0

    def wants(self, frame: Frame) -> bool:
        """True for the first frame of each period."""
        if self._start_s is None:
            self._start_s = frame.time_s
            return True
        # periods are counted from the start: adding up every_s would drift
        period = int((frame.time_s - self._start_s) / self._every_s + 1e-9)
        if period <= self._period:
            return False
        self._period = period
        return True
