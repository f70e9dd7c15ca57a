"""What all industrial cameras (GenICam) have in the site's YAML."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints, model_validator

from edge_infer.sources._driver import DriverSettings

Name = Annotated[str, StringConstraints(pattern=r"^[!-~]{1,128}$")]
Feature = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,99}$")]


class Industrial(DriverSettings):
    """Picture, exposure, trigger."""

    width: int | None = Field(default=None, ge=1, le=65535)
    """Pixels; without width, height and the offsets: what the camera is set to."""
    height: int | None = Field(default=None, ge=1, le=65535)
    """Pixels."""
    offset_x: int | None = Field(default=None, ge=0, le=65535)
    """Pixels from the sensor's left edge."""
    offset_y: int | None = Field(default=None, ge=0, le=65535)
    """Pixels from the sensor's upper edge."""
    exposure_us: float | None = Field(default=None, gt=0, le=1e8)
    """Microseconds; switches the camera's automatic exposure off."""
    gain_db: float | None = Field(default=None, ge=-100, le=100)
    """Decibel; switches the automatic gain off. Cameras with a raw gain only: write it under features."""
    frame_rate: float | None = Field(default=None, gt=0, le=10000)
    """Frames a second of a camera that runs freely."""
    trigger: Literal["line", "software"] | None = None
    """What makes it take a picture: its own line (a light barrier), or a part that asks. Without: nothing."""
    line: Feature | None = None
    """With `trigger: line`: the input the light barrier is wired to, as the camera names it, like Line1."""
    features: dict[Feature, bool | int | float | str] = Field(default_factory=dict)
    """Any other GenICam feature, set in this order before all else; true runs a command."""

    @model_validator(mode="after")
    def _keys_of_a_trigger(self) -> Industrial:
        if (self.trigger == "line") != (self.line is not None):
            raise ValueError(
                "trigger: line and line: NAME go together; line is the input as the camera names it"
            )
        if self.trigger is not None and self.frame_rate is not None:
            raise ValueError("a camera that waits for a trigger has no frame_rate")
        return self

    @property
    def has_line(self) -> bool:
        """True with ``trigger: line``: each of its pictures is of a part."""
        return self.trigger == "line"

    @property
    def waits(self) -> bool:
        """True with a trigger: without parts there are no pictures."""
        return self.trigger is not None
