"""The camera's own line (a light barrier wired to it) asks for the inspection."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from edge_infer.triggers import TriggerSettings


class Camera(TriggerSettings):
    """``trigger: {type: camera}``: one inspection for each trigger that comes with a frame."""

    type: Literal["camera"]
    delay_ms: Annotated[float, Field(ge=0)] = 0.0
    """From the light barrier to where the camera sees the part."""

    triggered: ClassVar[bool] = True
