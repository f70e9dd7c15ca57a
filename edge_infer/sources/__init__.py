"""Cameras: where frames come from. A new one is a file here and a line in the table."""

from __future__ import annotations

from typing import Annotated, Protocol, runtime_checkable

from pydantic import Field

from edge_infer.frame import Frame
from edge_infer.settings import Secrets, Settings

SOURCES = {
    "basler": "edge_infer.sources.basler:Basler",
    "files": "edge_infer.sources.files:Files",
    "gige": "edge_infer.sources.gige:Gige",
    "gstreamer": "edge_infer.sources.gstreamer:Gstreamer",
    "http": "edge_infer.sources.http:Http",
    "rtsp": "edge_infer.sources.rtsp:Rtsp",
    "synthetic": "edge_infer.sources.synthetic:Synthetic",
    "v4l2": "edge_infer.sources.v4l2:V4l2",
}
"""``type:`` of a camera -> its settings class."""


class Source(Protocol):
    """One open camera. Used by one thread; ``close`` may be called by another one."""

    def read(self, timeout_s: float) -> Frame | None:
        """The next frame in order, waiting at most ``timeout_s``; None once a recording has ended.

        SourceStalledError where no frame came in time (calling again is right), SourceError where the
        camera is lost (close and open again). Never waits longer than ``timeout_s`` + 1 s.
        """

    def close(self) -> None:
        """Give the camera back. Safe to call twice; a pending ``read`` ends soon with SourceError."""


@runtime_checkable
class OnDemand(Source, Protocol):
    """A camera that takes a picture only when it is told to; ``read`` gives them all."""

    def fire(self, at_s: float) -> None:
        """Take a picture at that monotonic time, or at once if it is over. Any thread; hands over at once."""


@runtime_checkable
class CountsPackets(Source, Protocol):
    """A camera whose library tells of data that was lost on the way."""

    @property
    def packets_lost(self) -> int | None:
        """Since it was opened; None where it cannot tell of this camera. Any thread; at once."""


class SourceSettings(Settings):
    """What every camera has in the site's YAML; a source adds ``type: Literal[...]`` and its own keys."""

    max_age_s: Annotated[float, Field(gt=0)] = 1.0
    """A live frame older than this is never judged."""
    frozen_s: Annotated[float, Field(gt=0)] | None = 2.0
    """A picture that is the same to the last bit for so long, ten times or more, is frozen; null: never."""

    @property
    def has_line(self) -> bool:
        """True: the camera has a light barrier of its own that ``trigger: {type: camera}`` can use."""
        return False

    @property
    def waits(self) -> bool:
        """True: it takes no picture unless its line or somebody (OnDemand) asks, so silence is no trouble."""
        return False

    @property
    def recorded(self) -> bool:
        """True: the source waits, nothing is dropped, it ends. False: live, the newest frame wins."""
        return False

    def open(self, camera: str, secrets: Secrets) -> Source:
        """Touch the world: SourceError with the remedy where the camera cannot be opened in time."""
        raise NotImplementedError
