"""What a person wants done with the queue, carried out by whoever owns it: a running service, else the
command itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Verb = Literal["retry", "purge"]


@dataclass(frozen=True, slots=True)
class Wish:
    """``retry``: refused messages wait again. ``purge``: messages are deleted, their numbers told as gaps."""

    verb: Verb
    last: int
    """The highest row id when it was made: what came later is not touched."""
    station: str | None = None
    """Only its messages; None: all, events too."""
    refused: bool = True
    waiting: bool = False
    """Purge only."""
