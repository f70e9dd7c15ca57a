"""Tells when the line should stop."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from edge_infer.result import Decision
from edge_infer.settings import Settings


class LineStop(Settings):
    """``line_stop: {consecutive: 5}``: that many NOK or UNDEFINED in a row."""

    consecutive: Annotated[int, Field(ge=1)]


class LineStopCounter:
    """Counts one station's decisions."""

    def __init__(self, settings: LineStop) -> None:
        self._limit = settings.consecutive
        self._run = 0

    def add(self, decision: Decision) -> bool:
        """True once, at the decision that completes the run; an OK starts over."""
        self._run = 0 if decision == "OK" else self._run + 1
        return self._run == self._limit
