"""Frames and findings made by hand."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np

from edge_infer.findings import Detections, Findings
from edge_infer.frame import Frame, PartTrigger


def frame(
    seq: int = 1,
    *,
    time_s: float = 0.0,
    size: tuple[int, int] = (100, 200),
    triggers: tuple[PartTrigger, ...] = (),
    damaged: str | None = None,
) -> Frame:
    """A grey frame of (height, width) with a darker corner: an even one shows nothing to judge."""
    pixels = np.full((*size, 3), 114, np.uint8)
    pixels[size[0] // 2 :, size[1] // 2 :] = 90
    pixels.flags.writeable = False
    return Frame("cam", seq, pixels, time_s, datetime.now(UTC), triggers=triggers, damaged=damaged)


def found(*objects: tuple[str, float, Sequence[float]]) -> Findings:
    """Findings of (label, score, box)."""
    if not objects:
        return Findings(detections=Detections.none())
    labels, scores, boxes = zip(*objects, strict=True)
    return Findings(
        detections=Detections(
            np.array(boxes, np.float32),
            np.array(scores, np.float32),
            np.zeros(len(labels), np.int32),
            tuple(labels),
        )
    )
