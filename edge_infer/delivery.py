"""From a station's answers to the outbox, to the PLC-safe state, and to the stored pictures."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from contextlib import suppress
from datetime import datetime
from functools import partial
from pathlib import Path

from edge_infer import geometry
from edge_infer.errors import EdgeInferError, OutboxError
from edge_infer.evidence.evidence import Evidence
from edge_infer.evidence.pictures import JPEG, Areas, Encoded, Scene, shrunk
from edge_infer.evidence.settings import EvidenceSettings
from edge_infer.findings import Findings
from edge_infer.frame import Frame, PartTrigger
from edge_infer.messages.kinds import ShiftEnded
from edge_infer.mqtt.publisher import Publisher
from edge_infer.outbox import Outbox, Shifts, Tally
from edge_infer.progress import Loop
from edge_infer.remote.recent import Recent
from edge_infer.result import Decision, Result
from edge_infer.station import StationSettings

log = logging.getLogger(__name__)


class Delivery:
    """Hands over at once: a decision waits for nothing, its record a moment for the hashes of its pictures,
    nothing waits for disk or network.
    """

    def __init__(self, outbox: Outbox, publisher: Publisher, prefix: str, recent: Recent) -> None:
        self._outbox = outbox
        self._recent = recent
        self._publisher = publisher
        self._prefix = prefix
        self._evidence: Evidence | None = None
        self._too_large_told = False
        self._unsettled: dict[str, Callable[[str], None]] = {}
        """By result: whom to tell that it is committed."""

    def keep_pictures(self, settings: EvidenceSettings, folder: Path) -> None:
        """Before the first result."""
        self._evidence = Evidence(
            settings, folder, record=self._record, alarm=self._publisher.event, publish=self._picture
        )

    @property
    def evidence(self) -> Evidence | None:
        """The stored pictures; None where none is kept."""
        return self._evidence

    def change_pictures(self, settings: EvidenceSettings) -> None:
        """Where pictures are kept: by these settings from now on."""
        if self._evidence is not None:
            self._evidence.configure(settings)

    def publish(
        self, result: Result, frame: Frame | None, findings: Findings | None, settings: StationSettings
    ) -> None:
        """Into the outbox; once committed also as ``last`` and in ``counts``."""
        if frame is not None and frame.settled is not None and not result.cut_short:
            self._unsettled[result.result_id] = frame.settled
        scene = Scene(frame, findings, partial(_areas, settings)) if frame is not None else None
        if scene is not None and findings is not None:
            self._recent.inspect(result, scene)
        if self._evidence is None:
            self._record(result)
        else:
            self._evidence.offer(result, scene)

    def decide(self, result: Result) -> None:
        """The newest decision, published as a result or not."""
        self._publisher.decision(result.station, result)
        self._recent.decide(result)

    def accept(self, station: str, trigger: PartTrigger) -> None:
        """Stored with the next commit; its result deletes it."""
        if trigger.job_id is None:
            return
        try:
            self._outbox.accept_trigger(station, trigger.job_id, trigger.part_id, trigger.at)
        except OutboxError as error:
            # the part is there: it is inspected, and forgotten only by a crash
            log.error("%s", error)

    def line_stop(self, station: str, decision: Decision) -> None:
        """An event for whoever stops the line."""
        self._publisher.event("line_stop", {"decision": decision}, station)

    def reference_unused(self, station: str, why: str) -> None:
        """An event for whoever commissioned the station."""
        self._publisher.event("reference_unused", {"why": why}, station)

    @property
    def loops(self) -> tuple[Loop, ...]:
        """The check-points of its threads."""
        return self._evidence.loops if self._evidence is not None else ()

    def close(self, timeout_s: float) -> None:
        """All results are in the outbox's hands; what the disk takes in that time is stored."""
        if self._evidence is not None:
            self._evidence.close(timeout_s)

    def _record(self, result: Result) -> None:
        self._outbox.put(f"{self._prefix}/{result.station}/result", result, self._committed)

    def follow_shifts(self, shifts: Shifts, stations: Collection[str]) -> None:
        """`counts` of each station now and at the beginning of each shift, an event at its end."""
        self._outbox.follow_shifts(shifts, stations, ended=self._shift_ended, renewed=self._tell_counts)

    def _shift_ended(self, station: str, shift: Tally, until: datetime) -> tuple[str, bytes]:
        ended = ShiftEnded(
            OK=shift.ok, NOK=shift.nok, UNDEFINED=shift.undefined, since=shift.since, until=until
        )
        data = ended.model_dump(by_alias=True, mode="json")
        return self._publisher.event_message("shift_ended", data, station)

    def _committed(self, result: Result) -> None:
        if (settled := self._unsettled.pop(result.result_id, None)) is not None:
            settled(result.station)
        self._recent.commit(result)
        self._publisher.last(result.station, result)
        self._tell_counts(result.station)

    def _tell_counts(self, station: str) -> None:
        self._publisher.counts(station, self._outbox.counts(station))

    def _picture(self, result: Result, picture: Encoded) -> None:
        limit = self._publisher.image_limit
        fitting = shrunk(picture, limit)
        if fitting is None:
            if not self._too_large_told:
                self._too_large_told = True
                log.warning(
                    "pictures stay here: the broker takes %d bytes (its limit or mqtt.max_image_bytes)",
                    limit,
                )
            return
        self._publisher.image(
            f"{self._prefix}/{result.station}/image/{picture.kind}",
            fitting.data,
            content_type=JPEG,
            user=(("resultId", result.result_id),),
        )


def _areas(settings: StationSettings, width: int, height: int) -> Areas:
    """Where the station looks; what does not fit the frame is left out, the result says so."""
    zones, region = [], None
    for rule in settings.rules:
        if rule.zone is not None:
            with suppress(EdgeInferError):
                zones.append(geometry.Zone(rule.zone.unit, rule.zone.polygon).polygon(width, height))
    if settings.region is not None:
        with suppress(EdgeInferError):
            region = settings.region.pixels(width, height)
    return Areas(tuple(zones), region)
