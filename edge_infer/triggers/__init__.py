"""What makes a frame an inspection. A new one is a file here and a line in the table."""

from __future__ import annotations

from typing import ClassVar, Protocol

from edge_infer.frame import Frame
from edge_infer.result import TriggerType
from edge_infer.settings import Settings

TRIGGERS = {
    "camera": "edge_infer.triggers.camera:Camera",
    "continuous": "edge_infer.triggers.continuous:Continuous",
    "every": "edge_infer.triggers.every:Every",
    "mqtt": "edge_infer.triggers.mqtt:Mqtt",
}
"""``type:`` of a trigger -> its settings class."""


class FrameChooser(Protocol):
    """Chooses the frames of a free-running station."""

    def wants(self, frame: Frame) -> bool:
        """Ask once a frame, in order."""


class TriggerSettings(Settings):
    """What every trigger has; a trigger adds ``type: Literal[...]`` and its own keys."""

    type: TriggerType

    triggered: ClassVar[bool] = False
    """True: a part asks (each asked exactly once, each answered exactly once). False: frames are chosen."""

    def choose(self) -> FrameChooser:
        """Of a trigger that chooses frames."""
        raise NotImplementedError
