"""One picture's answer as ``infer --json`` and ``batch`` tell it: an object, and its line."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from edge_infer.answer import as_json
from edge_infer.findings import Findings
from edge_infer.network import Network


def picture_answer(
    network: Network,
    image: str,
    size: tuple[int, int],
    findings: Findings,
    *,
    frame: int | None = None,
    warnings: Sequence[str] = (),
    timing_ms: Mapping[str, float] | None = None,
) -> dict[str, Any]:
    """``size`` is (width, height); ``frame`` the index in a video; ``warnings`` are the picture's own.

    Keys that do not apply are absent.
    """
    answer: dict[str, Any] = {"image": image}
    if frame is not None:
        answer["frame"] = frame
    answer |= {"width": size[0], "height": size[1], **as_json(findings)}
    answer["warnings"] = [*warnings, *network.card.warnings, *findings.warnings]
    if timing_ms is not None:
        answer["timing_ms"] = {step: round(taken, 3) for step, taken in timing_ms.items()}
    identity = network.identity
    answer["model"] = {"name": identity.name, "version": identity.version or "", "sha256": identity.sha256}
    answer["backend"] = network.backend_name
    answer["device"] = {"requested": network.device.requested, "running": network.device.running}
    return answer


def json_line(answer: Mapping[str, Any]) -> bytes:
    """UTF-8 and a line feed; a file name that is not UTF-8 is escaped and comes back by ``os.fsencode``."""
    try:
        line = json.dumps(answer, ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError:
        line = json.dumps(answer, allow_nan=False).encode()
    return line + b"\n"
