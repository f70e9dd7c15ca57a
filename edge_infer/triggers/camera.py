"""The camera's own line (a light barrier wired to it) asks for the inspection."""

from __future__ import annotations

from typing import ClassVar, Literal

from edge_infer.triggers import PartTriggerSettings


class Camera(PartTriggerSettings):
    """``trigger: {type: camera}``: one inspection for each trigger that comes with a frame."""

    type: Literal["camera"]

    from_camera: ClassVar[bool] = True
