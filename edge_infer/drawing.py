"""Draws what was found onto a copy of a picture, for people."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import cv2
import numpy as np
from numpy.typing import NDArray

from edge_infer.findings import Anomaly, ClassScore, Detection, Detections, Grid
from edge_infer.geometry import PixelBox, Polygon

# BGR, one a class in turn; told apart by people with red-green weakness too
_COLORS = ((0, 114, 230), (255, 180, 86), (66, 228, 240), (178, 114, 0), (167, 121, 204), (115, 158, 0))
_AREA_COLOR = (255, 255, 255)
_BLACK, _WHITE = (0, 0, 0), (255, 255, 255)
_FONT = "sans"
_LONGEST_LABEL = 40
_HOT = (0, 0, 230)
_DECIDED = {"OK": (115, 158, 0), "NOK": _HOT, "UNDEFINED": (66, 228, 240)}
_TINT = 0.4
_VISIBLE = 0.5
_DARK = 420
"""Sum of a colour's parts: white text stands out on it."""


def draw(
    pixels: NDArray[np.uint8],
    detections: Detections,
    zones: Sequence[Polygon] = (),
    region: PixelBox | None = None,
    *,
    classes: Sequence[ClassScore] = (),
    anomaly: Anomaly | None = None,
) -> NDArray[np.uint8]:
    """BGR (H, W, 3) or grey (H, W) -> a BGR copy with what was found, zones and the region looked at."""
    image = pixels.copy() if pixels.ndim == 3 else np.repeat(pixels[:, :, None], 3, axis=2)
    line = max(1, round(min(image.shape[:2]) / 400))
    if anomaly is not None:
        _draw_anomaly(image, anomaly, line)
    elif classes:
        best = classes[0]
        name = drawable(best.label) or str(best.class_id)
        _write(image, f"{name} {best.score:.2f}", (0, 0), _COLORS[best.class_id % len(_COLORS)])
    if region is not None:
        _rectangle(image, region, _AREA_COLOR, line)
    for zone in zones:
        points = np.rint(np.array(zone.points)).astype(np.int32)
        cv2.polylines(image, [points], isClosed=True, color=_AREA_COLOR, thickness=line)
    # the best is drawn last: nothing covers it
    for detection in reversed(list(detections)):
        color = _COLORS[detection.class_id % len(_COLORS)]
        _draw_shape(image, detection, color, line)
        name = drawable(detection.label) or str(detection.class_id)
        _write(image, f"{name} {detection.score:.2f}", detection.box, color)
    return image


def caption(image: NDArray[np.uint8], decision: str, why: str) -> None:
    """Write what was decided and why into the lower left corner of a BGR picture, in place."""
    text = f"{decision} {drawable(why) or ''}".rstrip()
    _write(image, text, (0, image.shape[0]), _DECIDED.get(decision, _AREA_COLOR))


def _draw_shape(
    image: NDArray[np.uint8], detection: Detection, color: tuple[int, int, int], line: int
) -> None:
    if detection.mask is not None:
        _tint(image, mask_of(detection.mask, image.shape[1], image.shape[0]), color)
    if detection.corners is None:
        _rectangle(image, detection.box, color, line)
    else:
        points = np.rint(np.array(detection.corners)).astype(np.int32)
        cv2.polylines(image, [points], isClosed=True, color=color, thickness=line)
    for x, y, visible in detection.keypoints or ():
        # what the network guesses behind something else is a ring
        thickness = cv2.FILLED if visible >= _VISIBLE else line
        cv2.circle(image, (round(x), round(y)), 2 * line + 1, color, thickness)


def _tint(image: NDArray[np.uint8], mask: NDArray[np.uint8], color: tuple[int, int, int]) -> None:
    # only around the object: a frame has millions of pixels, and a picture many objects
    x, y, width, height = cv2.boundingRect(mask)
    if not width:
        return
    part, where = image[y : y + height, x : x + width], mask[y : y + height, x : x + width]
    plain = np.full_like(part, color)
    cv2.copyTo(cv2.addWeighted(part, 1 - _TINT, plain, _TINT, 0), where, part)


def _draw_anomaly(image: NDArray[np.uint8], anomaly: Anomaly, line: int) -> None:
    height, width = image.shape[:2]
    if anomaly.heat_map is not None:
        heat = map_of(anomaly.heat_map, width, height)
        colored = cv2.applyColorMap(heat, cv2.COLORMAP_JET)
        # what is normal stays as it is
        weight = np.clip(heat.astype(np.float32) / 255 - 0.25, 0, 0.5)
        cv2.blendLinear(image, colored, 1 - weight, weight, image)
    color = _HOT if anomaly.is_anomalous else _AREA_COLOR
    if anomaly.hot_box is not None:
        _rectangle(image, anomaly.hot_box, color, line)
    _write(image, f"anomaly {anomaly.score:.2f}", (0, 0), color)


def mask_of(mask: Grid, width: int, height: int) -> NDArray[np.uint8]:
    """(height, width): 255 where the object is, else 0; of a frame of that size."""
    return np.where(mask.on_frame(width, height, outside=-1) > 0, np.uint8(255), np.uint8(0))


def map_of(heat: Grid, width: int, height: int) -> NDArray[np.uint8]:
    """(height, width): the heat map of 0..1 as 0..255, of a frame of that size; 0 where it says nothing."""
    return np.asarray(np.rint(np.clip(heat.on_frame(width, height), 0, 1) * 255), np.uint8)


def _rectangle(
    image: NDArray[np.uint8], box: Sequence[float], color: tuple[int, int, int], line: int
) -> None:
    x1, y1, x2, y2 = (round(side) for side in box)
    cv2.rectangle(image, (x1, y1), (x2 - 1, y2 - 1), color, line)


def _write(image: NDArray[np.uint8], text: str, box: Sequence[float], color: tuple[int, int, int]) -> None:
    """Above the box where there is room, else in it; never beyond the picture's edge where it fits."""
    height, width = image.shape[:2]
    size = max(12, round(height / 45))
    font = cv2.FontFace(_FONT)
    _, _, text_width, _ = cv2.getTextSize((width, height), text, (0, 0), font, size)
    x = max(0, min(round(box[0]), width - text_width - 4))
    y = round(box[1])
    bottom = y if y >= size + 6 else y + size + 6
    cv2.rectangle(image, (x, bottom - size - 6), (x + text_width + 4, bottom), color, cv2.FILLED)
    dark = sum(color) < _DARK
    cv2.putText(image, text, (x + 2, bottom - 5), _WHITE if dark else _BLACK, font, size)


def drawable(label: str) -> str | None:
    """The label, cut to a length that fits; None where the font cannot show a character of it."""
    # lone surrogates and control characters are not printable; the first kill OpenCV's text engine
    short = label if len(label) <= _LONGEST_LABEL else label[: _LONGEST_LABEL - 1] + "…"
    if not short or not short.isprintable() or not all(_has_glyph(character) for character in short):
        return None
    return short


@lru_cache(maxsize=4096)
def _has_glyph(character: str) -> bool:
    """OpenCV draws a question mark for what its font does not hold."""
    return character == "?" or not np.array_equal(_glyph(character), _glyph("?"))


def _glyph(character: str) -> NDArray[np.uint8]:
    image = np.zeros((48, 64), np.uint8)
    cv2.putText(image, character, (16, 32), (255,), cv2.FontFace(_FONT), 24)
    return image
