"""What makes a frame an inspection. A new one is a file here and a name in ``station/settings.py``."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Protocol

from pydantic import Field

from edge_infer.frame import Frame, PartTrigger
from edge_infer.progress import Loop
from edge_infer.result import TriggerType
from edge_infer.settings import Settings


class FrameChooser(Protocol):
    """Chooses the frames of a free-running station."""

    def wants(self, frame: Frame) -> bool:
        """Ask once a frame, in order."""


class Station(Protocol):
    """A station as a light barrier of this machine sees it. Any thread."""

    def accept(self, trigger: PartTrigger) -> None:
        """A part passed: stored, then answered from the first frame at or after it."""

    def trigger_changed(self, state: Literal["ready", "lost"], text: str) -> None:
        """Parts can be heard, or cannot any more."""


class Listener(Protocol):
    """Hears parts until stopped."""

    failure: Exception | None
    """A bug that ended it: no part is heard any more."""
    loop: Loop
    """Its check-point."""

    def stop(self, timeout_s: float) -> bool:
        """False where it did not end in time."""


class TriggerSettings(Settings):
    """What every trigger has; a trigger adds ``type: Literal[...]`` and its own keys."""

    type: TriggerType

    triggered: ClassVar[bool] = False
    """True: a part asks (each asked exactly once, each answered exactly once). False: frames are chosen."""

    def choose(self) -> FrameChooser:
        """Of a trigger that chooses frames."""
        raise NotImplementedError


class PartTriggerSettings(TriggerSettings):
    """A part asks; the first frame at or after it (and the delay) answers."""

    delay_ms: Annotated[float, Field(ge=0)] = 0.0
    """From the trigger to when the part is where the camera looks."""

    triggered: ClassVar[bool] = True
    from_camera: ClassVar[bool] = False
    """The trigger comes with a frame, by the camera's own line."""

    def listen(self, name: str, station: Station) -> Listener | None:  # noqa: ARG002 - the contract's parameters
        """Begin to hear parts for the station; None where they come another way."""
        return None
