"""NOK only when several of the last inspections agree."""

from __future__ import annotations

from collections import deque
from typing import Annotated

from pydantic import Field, model_validator

from edge_infer.settings import Settings


class Confirm(Settings):
    """``confirm: {k: 3, n: 5}``: NOK needs k of the last n inspections."""

    k: Annotated[int, Field(ge=1)]
    n: Annotated[int, Field(ge=1, le=1000)]

    @model_validator(mode="after")
    def _possible(self) -> Confirm:
        if self.k > self.n:
            raise ValueError(f"k {self.k} is above n {self.n}: NOK could never be reached")
        return self


class ConfirmMemory:
    """The last n inspections of one station."""

    def __init__(self, settings: Confirm) -> None:
        self._k, self._n = settings.k, settings.n
        self._broken: deque[bool] = deque(maxlen=settings.n)

    def add(self, *, broken: bool) -> bool | None:
        """True: NOK is confirmed. False: it cannot be. None: too few inspections to know."""
        self._broken.append(broken)
        seen = sum(self._broken)
        if seen >= self._k:
            return True
        missing = self._n - len(self._broken)
        return None if seen + missing >= self._k else False

    def clear(self) -> None:
        """Forget: what came before an unusable frame says nothing about what comes after."""
        self._broken.clear()
