"""Whatever GStreamer can read: a pipeline of yours in a process of its own."""

from __future__ import annotations

import shlex
from typing import Literal

from pydantic import ConfigDict, Field, field_validator

from edge_infer.settings import Secrets
from edge_infer.sources._driver import Driver, DriverSettings


class Gstreamer(DriverSettings):
    """``{type: gstreamer, pipeline: "v4l2src ! decodebin", width: 1280, height: 720}``."""

    # a pipeline may name an address with a token
    model_config = ConfigDict(hide_input_in_errors=True)

    type: Literal["gstreamer"]
    pipeline: str
    """As for gst-launch-1.0, up to where pictures come out. It runs with the service's rights: a program."""
    width: int = Field(ge=1, le=16384)
    """Pixels that come out; nothing is scaled unless the pipeline does it."""
    height: int = Field(ge=1, le=16384)
    """Pixels."""
    fps: float | None = Field(default=None, gt=0, le=1000)
    """Frames a second at most; without: all that come."""
    open_timeout_s: float = Field(default=10.0, gt=0, le=60)
    """Until the first picture."""
    read_timeout_s: float = Field(default=5.0, gt=0, le=60)
    """A pipeline that gives nothing for so long is ended and begun anew."""

    @field_validator("pipeline")
    @classmethod
    def _can_be_split(cls, pipeline: str) -> str:
        try:
            words = shlex.split(pipeline)
        except ValueError as error:
            raise ValueError(f"has a quote that does not end ({error})") from None
        if not words or "!" in (words[0], words[-1]):
            raise ValueError("is elements with ! between them, like: v4l2src ! decodebin")
        if any(word.startswith("-") for word in words):
            raise ValueError("holds an option of gst-launch-1.0; only elements may stand there")
        return pipeline

    def connect(self, camera: str, secrets: Secrets) -> Driver:  # noqa: ARG002 - a pipeline gets no passwords
        """Start the pipeline, wait for its first picture."""
        from edge_infer.sources._pipeline import Pipeline

        return Pipeline(self, camera)
