"""From a station's answers to the outbox and to the PLC-safe state."""

from __future__ import annotations

from edge_infer.findings import Findings
from edge_infer.frame import Frame, PartTrigger
from edge_infer.mqtt.publisher import Publisher
from edge_infer.outbox import Outbox
from edge_infer.result import Decision, Result


class Delivery:
    """Hands over at once: results never wait for disk, network or evidence."""

    def __init__(self, outbox: Outbox, publisher: Publisher, prefix: str) -> None:
        self._outbox = outbox
        self._publisher = publisher
        self._prefix = prefix

    def publish(self, result: Result, frame: Frame | None, findings: Findings | None) -> None:
        """Into the outbox; once committed also as ``last`` and in ``counts``."""
        self._outbox.put(f"{self._prefix}/{result.station}/result", result, self._committed)

    def decide(self, result: Result) -> None:
        """The newest decision, published as a result or not."""
        self._publisher.decision(result.station, result)

    def accept(self, station: str, trigger: PartTrigger) -> None:
        """Stored with the next commit; its result deletes it."""
        if trigger.job_id is not None:
            self._outbox.accept_trigger(station, trigger.job_id, trigger.part_id, trigger.at)

    def line_stop(self, station: str, decision: Decision) -> None:
        """An event for whoever stops the line."""
        self._publisher.event("line_stop", {"decision": decision}, station)

    def _committed(self, result: Result) -> None:
        self._publisher.last(result.station, result)
        self._publisher.counts(result.station, self._outbox.counts(result.station))
