"""Where a station's answers go."""

from __future__ import annotations

from typing import Protocol

from edge_infer.findings import Findings
from edge_infer.frame import Frame, PartTrigger
from edge_infer.result import Decision, Result
from edge_infer.station.settings import StationSettings


class Delivery(Protocol):
    """Every method hands over at once."""

    def publish(
        self, result: Result, frame: Frame | None, findings: Findings | None, settings: StationSettings
    ) -> None:
        """A result for the outbox; the others are what it was made from."""

    def decide(self, result: Result) -> None:
        """Each inspection's decision, published or not: the newest is the station's state."""

    def line_stop(self, station: str, decision: Decision) -> None:
        """So many in a row were not OK."""

    def accept(self, station: str, trigger: PartTrigger) -> None:
        """A part asked: stored, so that it is answered after a crash."""

    def reference_unused(self, station: str, why: str) -> None:
        """What was commissioned does not fit: checks that need it are off."""
