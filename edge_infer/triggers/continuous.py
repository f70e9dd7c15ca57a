"""Each newest frame is an inspection."""

from __future__ import annotations

from typing import Literal

from edge_infer.frame import Frame
from edge_infer.triggers import TriggerSettings


class Continuous(TriggerSettings):
    """``trigger: {type: continuous}``."""

    type: Literal["continuous"] = "continuous"

    def choose(self) -> EachFrame:
        """Every frame."""
        return EachFrame()


class EachFrame:
    """Wants them all."""

    def wants(self, frame: Frame) -> bool:  # noqa: ARG002 - the contract's parameter
        """Always."""
        return True
