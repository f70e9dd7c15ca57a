"""Findings as the objects of ``infer --json``, which golden expectations hold too."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from edge_infer.findings import Anomaly, Detection, Findings


def as_json(findings: Findings) -> dict[str, Any]:
    """``detections``, ``classes``, ``anomaly`` in pixels of the picture, or ``undefined``.

    Keys that do not apply are absent; masks and maps are no text, so their paths are added by who saves them.
    """
    if findings.undefined is not None:
        # no list: an empty one would say that nothing is there
        return {"undefined": [findings.undefined]}
    answer: dict[str, Any] = {}
    if findings.detections is not None:
        answer["detections"] = [_detection(detection) for detection in findings.detections]
    if findings.classes is not None:
        answer["classes"] = [
            {"label": each.label, "class_id": each.class_id, "score": round(each.score, 6)}
            for each in findings.classes
        ]
    if findings.anomaly is not None:
        answer["anomaly"] = _anomaly(findings.anomaly)
    return answer


def _detection(found: Detection) -> dict[str, Any]:
    answer: dict[str, Any] = {
        "label": found.label,
        "class_id": found.class_id,
        "score": round(found.score, 6),
        "box": _rounded(found.box),
    }
    if found.corners is not None and found.angle is not None:
        answer["corners"] = [_rounded(corner) for corner in found.corners]
        answer["angle"] = round(found.angle, 6)
    if found.keypoints is not None:
        answer["keypoints"] = [[*_rounded(point[:2]), round(point[2], 6)] for point in found.keypoints]
    return answer


def _anomaly(anomaly: Anomaly) -> dict[str, Any]:
    answer: dict[str, Any] = {
        "score": round(anomaly.score, 6),
        "threshold": anomaly.threshold,
        "is_anomalous": anomaly.is_anomalous,
    }
    if anomaly.heat_map is not None:
        # null: there is a map, and nothing in it is hot
        answer["hot_box"] = None if anomaly.hot_box is None else _rounded(anomaly.hot_box)
    return answer


def _rounded(pixels: Iterable[float]) -> list[float]:
    return [round(pixel, 3) for pixel in pixels]
