"""One question that gets exactly one answer."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from edge_infer.findings import Box, Findings
from edge_infer.frame import Frame, PartTrigger
from edge_infer.imagehealth.health import Glance
from edge_infer.network import Inference
from edge_infer.result import (
    AnomalyContent,
    ClassificationContent,
    Clock,
    Content,
    DetectionContent,
    ProcessingTimes,
    ReasonCode,
    Result,
    ResultState,
    ResultTrigger,
    new_result_id,
)
from edge_infer.rules.decision import Verdict

if TYPE_CHECKING:
    from edge_infer.station.setup import Setup

_ABORTED: frozenset[ReasonCode] = frozenset({"deadline", "overload", "restarted"})
_JUDGED: frozenset[ReasonCode] = frozenset({"settling", "rule_not_evaluable"})


@dataclass(frozen=True, slots=True)
class Unusable:
    """Nothing to judge, and why."""

    code: ReasonCode
    text: str


@dataclass(frozen=True, slots=True)
class Known:
    """What became of a part that asked before."""

    job_id: str | None
    result: Result | None
    """None while it waits."""


@dataclass(slots=True, eq=False)
class Inspection:
    """From the trigger (or the choice of a frame) to its answer."""

    setup: Setup
    """What it is judged and published by, whatever the station runs meanwhile."""
    trigger: PartTrigger | None = None
    """None on a free-running station."""
    frame: Frame | None = None
    """None until the first frame at or after the trigger."""
    due_s: float | None = None
    """Monotonic time by which it must be answered."""
    taken: bool = False
    """The engine works on it."""
    glance: Glance | None = None
    """Tells whether its frame can be judged; None where nobody looks for that."""
    started_at: datetime | None = None
    """Wall clock, UTC, when its frame was taken to the network."""
    outcome: Inference | Unusable | None = None
    age_ms: float | None = None
    """Of the frame when its outcome was there."""

    @property
    def inference(self) -> Inference | None:
        """What the network gave; None where it gave nothing."""
        return self.outcome if isinstance(self.outcome, Inference) else None

    @property
    def findings(self) -> Findings | None:
        """What it found."""
        return self.inference.findings if self.inference is not None else None

    def result(self, verdict: Verdict, now: datetime, *, synced: bool | None) -> Result:
        """The record to publish; ``seq`` and ``streamId`` are given by the outbox."""
        identity = self.setup.identity
        result_id = new_result_id(now)
        asked = self.trigger
        inference = self.inference
        return Result(
            result_id=result_id,
            job_id=(asked.job_id if asked else None) or result_id,
            part_id=asked.part_id if asked else None,
            external_recipe_id=identity.external_recipe,
            internal_recipe_id=identity.recipe,
            internal_configuration_id=identity.configuration,
            is_simulated=self.frame is not None and self.frame.simulated,
            result_state=_state(verdict, judged=inference is not None),
            creation_time=now,
            processing_times=self._times(inference),
            decision=verdict.decision,
            reasons=verdict.reasons,
            rules=verdict.rules,
            result_content=_content(inference.findings) if inference else (),
            captured_at=self.frame.captured_at if self.frame else None,
            age_ms=round(self.age_ms, 1) if self.age_ms is not None else None,
            frame_seq=self.frame.seq if self.frame else None,
            trigger=ResultTrigger(
                type=self.setup.settings.trigger.type,
                part_id=asked.part_id if asked else None,
                received_at=asked.at if asked else None,
                truth=asked.truth if asked else None,
            ),
            backend=identity.backend,
            device=identity.device,
            model=identity.model,
            station=identity.station,
            source=identity.source,
            boot_id=identity.boot_id,
            clock=Clock(synced=synced),
            warnings=inference.findings.warnings if inference else (),
        )

    def _times(self, inference: Inference | None) -> ProcessingTimes | None:
        if inference is None or self.started_at is None:
            return None
        spent_ms = inference.preprocess_ms + inference.infer_ms + inference.postprocess_ms
        return ProcessingTimes(
            start_time=self.started_at,
            end_time=self.started_at + timedelta(milliseconds=spent_ms),
            processing_duration=round(spent_ms, 3),
        )


def _content(findings: Findings) -> tuple[Content, ...]:
    content: list[Content] = [
        DetectionContent(label=one.label, score=round(one.score, 4), box=_tenths(one.box))
        for one in findings.detections or ()
    ]
    content += [
        ClassificationContent(label=one.label, score=round(one.score, 4)) for one in findings.classes or ()
    ]
    anomaly = findings.anomaly
    if anomaly is not None:
        hot_box = None if anomaly.hot_box is None else _tenths(anomaly.hot_box)
        content.append(
            AnomalyContent(score=round(anomaly.score, 4), threshold=anomaly.threshold, hot_box=hot_box)
        )
    return tuple(content)


def _tenths(box: Box) -> Box:
    x1, y1, x2, y2 = (round(side, 1) for side in box)
    return x1, y1, x2, y2


def _state(verdict: Verdict, *, judged: bool) -> ResultState:
    codes = {reason.code for reason in verdict.reasons}
    if verdict.decision != "UNDEFINED" or (judged and codes <= _JUDGED):
        return 1
    return 3 if codes & _ABORTED else 4
