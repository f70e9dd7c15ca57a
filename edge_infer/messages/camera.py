"""``camera``: how a camera is. Counters are since the start of the service."""

from __future__ import annotations

from typing import Literal

from pydantic import AwareDatetime, Field

from edge_infer.result import Part

SCHEMA = "camera/1"

CameraState = Literal["opening", "connected", "stalled", "frozen", "busy", "lost", "ended", "failed"]
"""``stalled``: open, but no frame comes; ``frozen``: frames come, but they are always the same one; ``busy``:
another host or program has it; ``lost``: tried again for ever; ``ended``, ``failed``: a recording is over."""


class CameraMessage(Part):
    """Retained; told at each change, and while it gives frames at most every few seconds."""

    schema_: Literal["camera/1"] = Field(default="camera/1", alias="schema")
    camera: str
    state: CameraState
    text: str
    """Why, in words."""
    since: AwareDatetime
    """When it came into this state."""
    time: AwareDatetime
    """When this was counted."""
    frames: int = Field(ge=0)
    """Given to the stations, damaged ones included."""
    dropped: int = Field(ge=0)
    """Frames of the camera that were not given: a newer one was there, or they never came."""
    damaged: int = Field(ge=0)
    """Given, but never judged: lost packets, half a file."""
    packets_lost: int | None = Field(ge=0)
    """On the way from the camera; null where the camera's library does not tell."""
    reconnections: int = Field(ge=0)
    """How often it was opened again and gave a frame."""
    last_frame_at: AwareDatetime | None
    """When the newest frame was taken; null where none came yet."""
    fps: float | None = Field(ge=0)
    """Frames a second of the camera, dropped ones included, as they came in the last seconds; null where
    that is not known yet."""
