"""Which bottles come down the line, and what is wrong with them: drawn from the seed, part by part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

Defect = Literal["missing-cap", "skewed-cap", "low-fill", "torn-label", "foreign-object"]

DEFECTS: tuple[Defect, ...] = ("missing-cap", "skewed-cap", "low-fill", "torn-label", "foreign-object")

PITCH_PX = 240.0
"""From part to part, on average."""
PITCH_JITTER_PX = 12.0
FIRST_PX = 160.0
"""How far the belt travels until the first part is at the light barrier."""
BATCH = 10
"""Parts of one flavour in a row."""
_SECOND_DEFECT = 0.08


@dataclass(frozen=True, slots=True)
class Part:
    """One bottle. Lengths are pixels of the frame, angles radians."""

    number: int
    """From 0 for the first part that reaches the light barrier; negative for those already past it."""
    position_px: float
    """Travel of the belt at which its centre is at the light barrier."""
    defects: tuple[Defect, ...]
    batch: int
    size: float
    """Factor, 1 is nominal."""
    tilt: float
    lane_px: float
    """Where it stands across the belt: positive is nearer to the camera."""
    fill_px: float
    """Level of the liquid against nominal; negative is less."""
    turn: float
    """Rotation about its own axis, so which side of the label shows."""
    cap_tilt: float
    cap_lift_px: float
    cap_shift_px: float
    look: int
    """Seed for everything else about its looks."""

    @property
    def truth(self) -> Literal["OK", "NOK"]:
        """The true decision."""
        return "NOK" if self.defects else "OK"


def rng(seed: int, topic: int, number: int = 0) -> np.random.Generator:
    """The same numbers for the same arguments in every process. ``number`` may be negative."""
    return np.random.Generator(np.random.PCG64([seed, topic, number + 1_000_000]))


def deal(seed: int, number: int, defect_rate: float) -> Part:
    """Part ``number`` of the line that ``seed`` names; whether it has a defect hangs on the rate alone."""
    draw = rng(seed, 1, number)
    bad = draw.random() < defect_rate
    first, second = draw.permutation(len(DEFECTS))[:2]
    both = draw.random() < _SECOND_DEFECT and {int(first), int(second)} != {0, 1}
    defects = (DEFECTS[first], DEFECTS[second])[: 1 + both] if bad else ()
    side = 1.0 if draw.random() < 0.5 else -1.0
    low, skewed = "low-fill" in defects, "skewed-cap" in defects
    return Part(
        number=number,
        position_px=FIRST_PX + number * PITCH_PX + draw.uniform(-PITCH_JITTER_PX, PITCH_JITTER_PX),
        defects=defects,
        batch=number // BATCH,
        size=draw.uniform(0.97, 1.03),
        tilt=np.deg2rad(draw.uniform(-1.5, 1.5)),
        lane_px=draw.uniform(-3.0, 3.0),
        fill_px=draw.uniform(-46.0, -22.0) if low else draw.uniform(-4.0, 4.0),
        turn=draw.uniform(-0.5, 0.5),
        cap_tilt=side * np.deg2rad(draw.uniform(9.0, 17.0))
        if skewed
        else np.deg2rad(draw.uniform(-1.0, 1.0)),
        cap_lift_px=draw.uniform(2.0, 6.0) if skewed else draw.uniform(-0.5, 0.5),
        cap_shift_px=-side * draw.uniform(0.5, 3.0) if skewed else draw.uniform(-0.5, 0.5),
        look=int(draw.integers(2**31)),
    )
