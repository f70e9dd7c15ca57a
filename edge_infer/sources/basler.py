"""Basler's cameras through pypylon, an optional extra."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from edge_infer.settings import Secrets
from edge_infer.sources._driver import Driver
from edge_infer.sources._industrial import Feature, Industrial, Name


class Basler(Industrial):
    """``{type: basler, serial: "40012345", pixel_format: BayerRG8, exposure_us: 5000, ...}``."""

    # pylon's calls may hold Python's own lock: a camera that hangs would stop the whole service
    isolated: ClassVar[bool] = True

    type: Literal["basler"]
    serial: Name
    """The serial number on its label."""
    pixel_format: Feature | None = None
    """As the camera names it: Mono8, BayerRG8, RGB8. Without: what the camera is set to."""
    open_timeout_s: float = Field(default=8.0, gt=0, le=60)
    """Until it is set up."""
    read_timeout_s: float = Field(default=5.0, gt=0, le=60)
    """A camera that runs freely and gives nothing for so long is lost."""

    def connect(self, camera: str, secrets: Secrets) -> Driver:  # noqa: ARG002 - these have no passwords
        """Find the camera, set it up and read back what it took."""
        from edge_infer.sources._pylon import Camera

        return Camera(self, camera)
