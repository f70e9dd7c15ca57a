"""What a decoder found in one frame."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Box = tuple[float, float, float, float]
"""x1, y1, x2, y2 in pixels of the source frame."""
_STRIP = 32
"""Rows of pixels."""


@dataclass(frozen=True, slots=True, eq=False)
class Grid:
    """Values at a network's own resolution and where they lie in the frame; spread over it only when asked.

    ``grid_x = frame_x * scale_x + shift_x``; value i covers i..i+1 and is measured in its middle.
    """

    values: NDArray[np.float32]
    """(h, w)"""
    scale_x: float
    scale_y: float
    shift_x: float
    shift_y: float
    inside: Box
    """The part of the frame that the values say something about."""

    def __post_init__(self) -> None:
        if self.values.ndim != 2 or not self.values.size:
            raise ValueError(f"a grid has rows and columns, not the shape {self.values.shape}")

    def on_frame(self, width: int, height: int, outside: float = 0.0) -> NDArray[np.float32]:
        """(height, width) float32, linear between the values; ``outside`` where they say nothing."""
        spread = np.full((height, width), outside, np.float32)
        x1, y1, x2, y2 = self._pixels
        x1, y1, x2, y2 = max(x1, 0), max(y1, 0), min(x2, width), min(y2, height)
        if x1 < x2 and y1 < y2:
            # only the part that counts: a mask is small, a frame is not
            spread[y1:y2, x1:x2] = self._spread(x1, y1, x2, y2)
        return spread

    @property
    def area(self) -> int:
        """Pixels of the frame where the values are above 0."""
        x1, y1, x2, y2 = self._pixels
        return int(np.count_nonzero(self._spread(x1, y1, x2, y2) > 0)) if x1 < x2 and y1 < y2 else 0

    @property
    def is_empty(self) -> bool:
        """Whether no pixel of the frame is above 0: of a large mask sooner known than its area."""
        x1, y1, x2, y2 = self._pixels
        return not any(
            (self._spread(x1, top, x2, min(top + _STRIP, y2)) > 0).any()
            for top in (range(y1, y2, _STRIP) if x1 < x2 else ())
        )

    @property
    def _pixels(self) -> tuple[int, int, int, int]:
        """Those of which the middle lies inside."""
        x1, y1, x2, y2 = (int(np.ceil(side - 0.5)) for side in self.inside)
        return x1, y1, x2, y2

    def _spread(self, x1: int, y1: int, x2: int, y2: int) -> NDArray[np.float32]:
        import cv2  # a rule that is only checked needs no OpenCV

        # OpenCV measures a pixel at its whole number, we in its middle
        start_x = (x1 + 0.5) * self.scale_x + self.shift_x - 0.5
        start_y = (y1 + 0.5) * self.scale_y + self.shift_y - 0.5
        back = np.array([[self.scale_x, 0, start_x], [0, self.scale_y, start_y]])
        how = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
        spread = cv2.warpAffine(
            self.values, back, (x2 - x1, y2 - y1), flags=how, borderMode=cv2.BORDER_REPLICATE
        )
        return np.asarray(spread, np.float32)


def _tuples(points: NDArray[np.float32]) -> tuple[Any, ...]:
    return tuple(map(tuple, points.tolist()))


@dataclass(frozen=True, slots=True)
class Detection:
    """One object."""

    label: str
    class_id: int
    score: float
    box: Box
    """x1, y1, x2, y2 in pixels of the source frame."""
    corners: tuple[tuple[float, float], ...] | None = None
    """Oriented boxes: four x, y in turn."""
    angle: float | None = None
    """Oriented boxes: of the side from the first corner to the second, radians, clockwise on the screen."""
    keypoints: tuple[tuple[float, float, float], ...] | None = None
    """x, y and visibility 0..1 each."""
    mask: Grid | None = None
    """The object is where it is above 0."""


@dataclass(frozen=True, slots=True, eq=False)
class Detections:
    """Objects found in one frame, best score first."""

    boxes: NDArray[np.float32]
    """(N, 4) xyxy, pixels of the source frame (not of the network input)."""
    scores: NDArray[np.float32]
    """(N,) in 0..1."""
    class_ids: NDArray[np.int32]
    """(N,)"""
    labels: tuple[str, ...]
    """(N,) one name a detection."""
    corners: NDArray[np.float32] | None = None
    """(N, 4, 2) of oriented boxes, else None; as a network gives them, they may lie outside the frame."""
    angles: NDArray[np.float32] | None = None
    """(N,) as in ``Detection``."""
    keypoints: NDArray[np.float32] | None = None
    """(N, points, 3) x, y, visibility."""
    masks: tuple[Grid, ...] | None = None
    """(N,) as in ``Detection``."""

    def __post_init__(self) -> None:
        n = len(self.labels)
        if self.boxes.shape != (n, 4) or self.scores.shape != (n,) or self.class_ids.shape != (n,):
            raise ValueError(
                f"detections do not fit together: boxes {self.boxes.shape}, scores {self.scores.shape}, "
                f"class_ids {self.class_ids.shape}, {n} labels"
            )
        if not (
            (self.corners is None) == (self.angles is None)
            and (self.corners is None or self.corners.shape == (n, 4, 2))
            and (self.angles is None or self.angles.shape == (n,))
            and (self.keypoints is None or self.keypoints.shape[::2] == (n, 3))
            and (self.masks is None or len(self.masks) == n)
        ):
            raise ValueError(f"corners, angles, keypoints or masks do not belong to {n} detections")
        numbers = (self.boxes, self.scores, self.corners, self.angles, self.keypoints)
        if not all(np.isfinite(each).all() for each in numbers if each is not None):
            raise ValueError("detections must be finite: a decoder drops and counts NaN rows")

    def __len__(self) -> int:
        return len(self.labels)

    def __iter__(self) -> Iterator[Detection]:
        for index, (box, score, class_id, label) in enumerate(
            zip(self.boxes.tolist(), self.scores.tolist(), self.class_ids.tolist(), self.labels, strict=True)
        ):
            yield Detection(
                label,
                class_id,
                score,
                (box[0], box[1], box[2], box[3]),
                corners=None if self.corners is None else _tuples(self.corners[index]),
                angle=None if self.angles is None else float(self.angles[index]),
                keypoints=None if self.keypoints is None else _tuples(self.keypoints[index]),
                mask=None if self.masks is None else self.masks[index],
            )

    @property
    def areas(self) -> NDArray[np.float64]:
        """(N,) square pixels of the frame: of the mask, else of the oriented box, else of the box."""
        if self.masks is not None:
            return np.array([mask.area for mask in self.masks], np.float64)
        if self.corners is not None:
            x, y = self.corners.transpose(2, 0, 1).astype(np.float64)
            doubled = (x * np.roll(y, -1, axis=1) - y * np.roll(x, -1, axis=1)).sum(axis=1)
            return np.asarray(np.abs(doubled) / 2, np.float64)
        sides = self.boxes[:, 2:].astype(np.float64) - self.boxes[:, :2]
        return np.asarray(sides.prod(axis=1), np.float64)

    @classmethod
    def none(cls) -> Detections:
        """A finding of nothing."""
        return cls(np.zeros((0, 4), np.float32), np.zeros(0, np.float32), np.zeros(0, np.int32), ())


@dataclass(frozen=True, slots=True)
class ClassScore:
    """How sure a classifier is of one class of the whole picture."""

    label: str
    class_id: int
    score: float
    """0..1"""

    def __post_init__(self) -> None:
        if not np.isfinite(self.score):
            raise ValueError("a score must be finite: NaN is no answer")


@dataclass(frozen=True, slots=True, eq=False)
class Anomaly:
    """How far one picture is from what is normal."""

    score: float
    """0..1, normalised: 0.5 is the model's own threshold."""
    threshold: float = 0.5
    """From here on a part is not normal."""
    hot_box: Box | None = None
    """Around everything that the map holds at or above the threshold, in pixels of the source frame."""
    heat_map: Grid | None = None
    """0..1 as the score; None where the network gives none."""

    def __post_init__(self) -> None:
        if not np.isfinite(self.score):
            raise ValueError("an anomaly score must be finite: NaN is never normal")

    @property
    def is_anomalous(self) -> bool:
        """At the threshold it is."""
        return self.score >= self.threshold


@dataclass(frozen=True, slots=True)
class Findings:
    """Everything one network says about one frame; parts that its task does not give are None."""

    detections: Detections | None = None
    nan_rows: int = 0
    """Rows that were dropped because they were not finite."""
    undefined: str | None = None
    """Why no honest answer exists (all rows NaN), else None."""
    warnings: tuple[str, ...] = ()
    """Sentences for people."""
    classes: tuple[ClassScore, ...] | None = None
    """Of the whole picture, best first."""
    anomaly: Anomaly | None = None
