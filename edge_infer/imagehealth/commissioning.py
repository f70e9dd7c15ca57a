"""From frames of a station that is as it should be to its reference."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from edge_infer.errors import EdgeInferError
from edge_infer.frame import Frame
from edge_infer.geometry import PixelBox
from edge_infer.imagehealth import blurred, bright, covered, dark, moved, structure
from edge_infer.imagehealth.reference import Reference
from edge_infer.imagehealth.sight import Sight

LEAST_FRAMES = 5
"""With fewer nothing is known of how they differ."""


def commission(frames: Sequence[Frame], region: PixelBox, at: datetime) -> Reference:
    """``region`` in pixels of the frames; EdgeInferError where nothing can be learned from them."""
    if len(frames) < LEAST_FRAMES:
        raise EdgeInferError(
            f"{len(frames)} frames are too few to learn from, wanted are at least {LEAST_FRAMES}",
            hint="let parts pass, or give it more time with --seconds",
        )
    if len({frame.pixels.shape for frame in frames}) > 1:
        raise EdgeInferError("the frames differ in size", hint="give it a recording of one camera")
    sights = [Sight(frame.pixels, region) for frame in frames]
    fixed = structure.find(sights)
    return Reference.of(
        camera=frames[0].camera,
        at=at,
        frames=len(frames),
        size=sights[0].size,
        region=region,
        measured={
            "dark": dark.learn(sights),
            "bright": bright.learn(sights),
            "covered": covered.learn(sights, fixed),
            "blurred": blurred.learn(sights, fixed),
            "moved": moved.learn(sights, fixed),
        },
        structure=fixed,
        least_in_place=0.0 if fixed is None else moved.least_in_place(sights, fixed),
    )


def doubts(reference: Reference) -> list[str]:
    """What seems wrong with the picture that was commissioned."""
    measured, found = reference.measured, []
    if measured["dark"].median < dark.BLACK:
        found.append(f"the picture is dark: its mean brightness is {measured['dark'].median:.0f} of 255")
    if measured["bright"].median > _MUCH:
        found.append(
            f"{measured['bright'].median:.0%} of the picture is saturated: less exposure, less light?"
        )
    if reference.fixed is not None and measured["blurred"].limit is None:
        found.append(f"blur will not be found; is the picture sharp? {measured['blurred'].untold_because}")
    return found


_MUCH = 0.2
"""Share of saturated pixels of a picture that was not exposed to be so."""
