"""Findings drawn into a picture, for people."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from edge_infer.findings import Detections

# BGR; told apart by people with red-green weakness too
_COLORS = ((0, 114, 230), (255, 180, 86), (66, 228, 240), (178, 114, 0), (167, 121, 204), (115, 158, 0))
_DARK, _LIGHT = (0, 0, 0), (255, 255, 255)
_BRIGHT = 140


def drawn(pixels: NDArray[np.uint8], detections: Detections) -> NDArray[np.uint8]:
    """A copy of a BGR (H, W, 3) picture with boxes, labels and scores."""
    picture = np.ascontiguousarray(pixels).copy()
    height, width = picture.shape[:2]
    line = max(1, round(min(height, width) / 400))
    # best last, so that it lies on top
    for detection in reversed(list(detections)):
        color = _COLORS[detection.class_id % len(_COLORS)]
        x1, y1, x2, y2 = (round(side) for side in detection.box)
        cv2.rectangle(picture, (x1, y1), (x2, y2), color, line)
        _write(picture, f"{detection.label} {detection.score:.2f}", (x1, y1), color, 6 + 6 * line)
    return picture


def _write(
    picture: NDArray[np.uint8], text: str, corner: tuple[int, int], color: tuple[int, int, int], size: int
) -> None:
    """On a plate above the corner, or below where the picture ends."""
    # OpenCV's own font knows most scripts; control characters would begin new lines
    shown = "".join(char if char.isprintable() else "?" for char in text)
    font = cv2.FontFace("sans")
    _, _, text_width, text_height = cv2.getTextSize((0, 0), shown, (0, 0), font, size)
    x, y = corner
    x = max(0, min(x, picture.shape[1] - text_width - 4))
    top = y - text_height - 6 if y >= text_height + 6 else y
    cv2.rectangle(picture, (x, top), (x + text_width + 4, top + text_height + 6), color, cv2.FILLED)
    ink = _DARK if sum(color) / 3 > _BRIGHT else _LIGHT
    cv2.putText(picture, shown, (x + 2, top + text_height + 2), ink, font, size)
