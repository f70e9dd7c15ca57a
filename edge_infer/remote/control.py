"""What the verbs may do to a running service."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from edge_infer.frame import Frame


class Control(Protocol):
    """Implemented by the composition root. Every change is stored before it is done, or not done at all.

    ``by`` says who asked, for the log and the event. The calls wait for the disk, `reload` for files too:
    never call them on a thread that others wait for.
    """

    def select_recipe(self, station: str, recipe: str | None, *, by: str) -> None:
        """Between two inspections; None: back to the settings under ``stations:``. Ends `set_threshold`.

        EdgeInferError where there is no such station or recipe or the choice cannot be stored.
        """

    def set_threshold(self, station: str, rule: str | None, value: float, *, by: str) -> None:
        """A count rule's ``min_score``; ``rule`` None: the anomaly threshold. Between two inspections.

        EdgeInferError where there is no such rule, the value is of no effect, or it cannot be stored.
        """

    def reload(self, *, by: str) -> Sequence[str]:
        """Read the configuration again and run it; the keys that changed. ConfigError where it is wrong,
        EdgeInferError where it needs a restart; then nothing changed."""

    def newest_frame(self, station: str) -> Frame | None:
        """The newest frame of the station's camera; None before the first one."""
