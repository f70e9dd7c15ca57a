"""Results made by hand."""

from __future__ import annotations

from datetime import UTC, datetime

from edge_infer.result import (
    Clock,
    Decision,
    DetectionContent,
    Device,
    Identifier,
    ModelIdentity,
    Origin,
    ProcessingTimes,
    Reason,
    Result,
    ResultTrigger,
    RuleOutcome,
    new_result_id,
)


def result(
    station: str = "cap",
    decision: Decision = "OK",
    *,
    job_id: str | None = None,
    part_id: str | None = None,
    label: str = "cap",
    found: int = 3,
    created: datetime | None = None,
) -> Result:
    """An inspection as a station would hand it over."""
    now = created or datetime.now(UTC)
    id_ = new_result_id(now)
    return Result(
        result_id=id_,
        job_id=job_id or id_,
        part_id=part_id,
        internal_recipe_id=Identifier(id=station, hash="0" * 64, hash_algorithm="SHA-256"),
        internal_configuration_id=Identifier(id="site.yaml", hash="1" * 64, hash_algorithm="SHA-256"),
        is_simulated=True,
        result_state=1,
        creation_time=now,
        processing_times=ProcessingTimes(start_time=now, end_time=now, processing_duration=12.5),
        decision=decision,
        reasons=(Reason(code="settling", text="1 of 3"),) if decision == "UNDEFINED" else (),
        rules=(RuleOutcome(name="enough", decision=decision, seen=found),),
        result_content=tuple(
            DetectionContent(label=label, score=0.9, box=(1.0, 2.0, 30.5, 40.25)) for _ in range(found)
        ),
        captured_at=now,
        age_ms=20.5,
        frame_seq=7,
        trigger=ResultTrigger(
            type="mqtt" if part_id else "continuous", part_id=part_id, received_at=now if part_id else None
        ),
        backend="onnxruntime",
        device=Device(requested="CPU", running="CPU"),
        model=ModelIdentity(name="seals", version="3", sha256="2" * 64),
        station=station,
        source=Origin(site="plant1", line="l3", device="ipc7", camera="top"),
        boot_id="b0",
        clock=Clock(synced=True),
    )
