"""Findings as the objects of ``infer --json``, which golden expectations hold too."""

from __future__ import annotations

from typing import Any

from edge_infer.findings import Findings


def as_json(findings: Findings) -> dict[str, Any]:
    """``detections`` in pixels of the picture, or ``undefined``; keys that do not apply are absent."""
    if findings.undefined is not None:
        # no list: an empty one would say that nothing is there
        return {"undefined": [findings.undefined]}
    answer: dict[str, Any] = {}
    if findings.detections is not None:
        answer["detections"] = [
            {
                "label": detection.label,
                "class_id": detection.class_id,
                "score": round(detection.score, 6),
                "box": [round(side, 3) for side in detection.box],
            }
            for detection in findings.detections
        ]
    return answer
