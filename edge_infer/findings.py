"""What a decoder found in one frame."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Detection:
    """One object."""

    label: str
    class_id: int
    score: float
    box: tuple[float, float, float, float]
    """x1, y1, x2, y2 in pixels of the source frame."""


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

    def __post_init__(self) -> None:
        n = len(self.labels)
        if self.boxes.shape != (n, 4) or self.scores.shape != (n,) or self.class_ids.shape != (n,):
            raise ValueError(
                f"detections do not fit together: boxes {self.boxes.shape}, scores {self.scores.shape}, "
                f"class_ids {self.class_ids.shape}, {n} labels"
            )
        if not (np.isfinite(self.boxes).all() and np.isfinite(self.scores).all()):
            raise ValueError("detections must be finite: a decoder drops and counts NaN rows")

    def __len__(self) -> int:
        return len(self.labels)

    def __iter__(self) -> Iterator[Detection]:
        for box, score, class_id, label in zip(
            self.boxes.tolist(), self.scores.tolist(), self.class_ids.tolist(), self.labels, strict=True
        ):
            yield Detection(label, class_id, score, (box[0], box[1], box[2], box[3]))

    @classmethod
    def none(cls) -> Detections:
        """A finding of nothing."""
        return cls(np.zeros((0, 4), np.float32), np.zeros(0, np.float32), np.zeros(0, np.int32), ())


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
