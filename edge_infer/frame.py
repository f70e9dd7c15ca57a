"""One image from a camera."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class PartTrigger:
    """A part passed a light barrier, or somebody asked for an inspection."""

    time_s: float
    """On the same clock as ``Frame.time_s``."""
    at: datetime
    """Wall clock, UTC."""
    part_id: str | None = None
    job_id: str | None = None
    truth: Literal["OK", "NOK"] | None = None
    """The true decision, known only for drawn scenes."""


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """One image; nobody writes to its pixels."""

    camera: str
    seq: int
    """Counts the frames of this camera from 1, dropped ones included."""
    pixels: NDArray[np.uint8]
    """(height, width, 3) BGR, read-only."""
    time_s: float
    """Capture time for rules and ages: monotonic clock for a live camera, position for a recording."""
    captured_at: datetime
    """Wall clock, UTC, for people. For a recording: when it was read."""
    triggers: tuple[PartTrigger, ...] = ()
    """Triggers of the camera's own line that this frame is the first to follow."""
    damaged: str | None = None
    """Why the image must not be judged (lost packets, half a file), else None."""
    frozen: str | None = None
    """Why the camera must be taken to repeat an old picture, else None."""
    still: bool = False
    """A picture that was stored alone: shown again it is the same, and honestly so."""
    simulated: bool = False
    """A drawn scene, not a camera."""
    name: str | None = None
    """The file the frame came from, where there is one."""
    settled: Callable[[str], None] | None = None
    """To be called with a station's name once that station's result is stored, or it wants none; hands over
    at once. A source that must lose nothing gives the frame again where it never is."""

    @property
    def height(self) -> int:
        """Pixels."""
        return int(self.pixels.shape[0])

    @property
    def width(self) -> int:
        """Pixels."""
        return int(self.pixels.shape[1])
