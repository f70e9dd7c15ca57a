"""Golden expectations: what a picture must give, and how far an answer may lie from it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from edge_infer.answer import as_json
from edge_infer.errors import ModelError
from edge_infer.findings import Findings
from edge_infer.settings import Settings

Box = tuple[float, float, float, float]
Point = tuple[float, float]

_LARGEST_FILE = 50_000_000


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far an answer may lie from its expectation."""

    iou: float
    """At least, of the boxes of one object."""
    score: float
    """At most, between the scores of one object."""


EXACT = Tolerance(iou=0.99, score=1e-3)
"""Both sides compute in float32: runtimes agree to some 1e-3 pixels."""
ROUGH = Tolerance(iou=0.9, score=0.05)
"""One side computes in fewer bits: above 512 pixels a float16 steps by half a pixel."""


class ExpectedDetection(Settings):
    """One object, as ``infer --json`` says it."""

    label: str
    class_id: int
    score: float
    box: Box
    corners: tuple[Point, Point, Point, Point] | None = None
    angle: float | None = None
    keypoints: tuple[tuple[float, float, float], ...] | None = None
    mask: tuple[int, ...] | None = None
    """Pixels of the picture row by row: how many are not the object, how many are, how many are not ..."""


class ExpectedClass(Settings):
    """One class of a classified picture."""

    label: str
    class_id: int
    score: float


class ExpectedAnomaly(Settings):
    """An anomaly score and where it is highest."""

    score: float
    threshold: float
    is_anomalous: bool
    hot_box: Box | None = None


class Reference(Settings):
    """What the expectation was made with."""

    backend: str
    device: str
    precision: str
    version: str
    """Of the runtime."""
    network_sha256: str


class Found(Settings):
    """What a network says of one picture; keys that do not apply are absent."""

    detections: tuple[ExpectedDetection, ...] | None = None
    classes: tuple[ExpectedClass, ...] | None = None
    anomaly: ExpectedAnomaly | None = None

    @classmethod
    def of(cls, findings: Findings, width: int, height: int) -> Found:
        """``width`` and ``height``: of the picture."""
        answer = as_json(replace(findings, undefined=None))
        detections = findings.detections
        for said, one in zip(answer.get("detections", ()), detections or (), strict=True):
            if one.mask is not None:
                said["mask"] = run_lengths(one.mask.on_frame(width, height) > 0)
        return cls.model_validate_json(json.dumps(answer))


class Expectation(Found):
    """The file beside a golden picture."""

    format: Literal[1] = 1
    image_sha256: str
    """Of the picture's file."""
    width: int
    """Pixels."""
    height: int
    score_threshold: float
    """Of the card at that time: what lies within the tolerance of it may be found or not."""
    reference: Reference

    @classmethod
    def read(cls, path: Path) -> Expectation:
        """ModelError where the file cannot be read or is none."""
        try:
            if path.stat().st_size > _LARGEST_FILE:
                raise ModelError(f"{path} is too large for a golden expectation", hint=_AGAIN)
            return cls.model_validate_json(path.read_bytes())
        except OSError as error:
            raise ModelError(f"cannot read {path}: {error.strerror}", hint=_AGAIN) from error
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(map(str, first["loc"]))
            raise ModelError(
                f"{path} is no golden expectation: {where + ': ' if where else ''}{first['msg']}", hint=_AGAIN
            ) from error

    def text(self) -> str:
        """The file's content."""
        return self.model_dump_json(indent=1, exclude_none=True) + "\n"


_AGAIN = "write it again with `edge-infer model golden`"


class Comparison:
    """Collects how far answers lie from expectations."""

    def __init__(self, tolerance: Tolerance) -> None:
        self.tolerance = tolerance
        self.lowest_iou: float | None = None
        self.largest_score_difference = 0.0
        self.problems: list[str] = []

    def add(self, name: str, expected: Expectation, findings: Findings) -> None:
        """What was found in the picture called ``name``."""
        got = Found.of(findings, expected.width, expected.height)
        if findings.undefined is not None:
            self._problem(name, f"no honest answer: {findings.undefined}")
            return
        if findings.nan_rows:
            # a station says UNDEFINED to each such frame
            self._problem(name, f"{findings.nan_rows} rows of the network's output are not finite")
        for kind in ("detections", "classes", "anomaly"):
            wanted, given = getattr(expected, kind), getattr(got, kind)
            if (wanted is None) != (given is None):
                word = "missing" if given is None else "not expected"
                self._problem(name, f"{kind} are {word}")
        if expected.detections is not None and got.detections is not None:
            self._detections(name, expected.detections, got.detections, expected.score_threshold)
        if expected.classes is not None and got.classes is not None:
            self._classes(name, expected.classes, got.classes)
        if expected.anomaly is not None and got.anomaly is not None:
            self._anomaly(name, expected.anomaly, got.anomaly)

    def _problem(self, name: str, text: str) -> None:
        self.problems.append(f"{name}: {text}")

    def _score(self, name: str, what: str, wanted: float, given: float) -> None:
        difference = abs(wanted - given)
        self.largest_score_difference = max(self.largest_score_difference, difference)
        if not difference <= self.tolerance.score:
            self._problem(name, f"{what} has the score {given:.4f}, expected is {wanted:.4f}")

    def _iou(self, name: str, what: str, overlap: float) -> None:
        self.lowest_iou = overlap if self.lowest_iou is None else min(self.lowest_iou, overlap)
        if not overlap >= self.tolerance.iou:
            self._problem(name, f"{what} lies elsewhere than expected: IoU {overlap:.3f}")

    def _detections(
        self,
        name: str,
        wanted: Sequence[ExpectedDetection],
        given: Sequence[ExpectedDetection],
        threshold: float,
    ) -> None:
        faint = threshold + self.tolerance.score
        left = list(given)
        for one in wanted:
            same = [each for each in left if each.label == one.label and each.class_id == one.class_id]
            best = max(same, key=lambda each: iou(one.box, each.box), default=None)
            # a faint one may be gone: its neighbour is not it
            if best is None or iou(one.box, best.box) <= (0 if one.score >= faint else 0.5):
                if one.score >= faint:
                    self._problem(name, f"{_shown(one)} is missing")
                continue
            left.remove(best)
            what = _shown(one)
            self._iou(name, what, iou(one.box, best.box))
            self._score(name, what, one.score, best.score)
            self._shape(name, what, one, best)
        for one in left:
            if one.score >= faint:
                self._problem(name, f"{_shown(one)} was found and is not expected")

    def _shape(self, name: str, what: str, one: ExpectedDetection, other: ExpectedDetection) -> None:
        parts = ("corners", "keypoints", "mask")
        if any((getattr(one, part) is None) != (getattr(other, part) is None) for part in parts):
            self._problem(name, f"{what} has other parts than expected")
            return
        x1, y1, x2, y2 = one.box
        within = (1 - self.tolerance.iou) * float(np.hypot(x2 - x1, y2 - y1))
        if one.corners and other.corners:
            # which corner is the first may differ
            far = [min(_distance(p, q) for q in other.corners) for p in one.corners]
            if max(far) > within:
                self._problem(name, f"a corner of {what} is off by {max(far):.2f} px")
        if one.mask is not None and other.mask is not None:
            self._iou(name, f"the mask of {what}", mask_iou(one.mask, other.mask))
        if one.keypoints and other.keypoints:
            if len(one.keypoints) != len(other.keypoints):
                self._problem(name, f"{what} has {len(other.keypoints)} key points")
                return
            for (x, y, v), (x_, y_, v_) in zip(one.keypoints, other.keypoints, strict=True):
                self._score(name, f"a key point of {what}", v, v_)
                if _distance((x, y), (x_, y_)) > within:
                    self._problem(
                        name, f"a key point of {what} is off by {_distance((x, y), (x_, y_)):.2f} px"
                    )

    def _classes(self, name: str, wanted: Sequence[ExpectedClass], given: Sequence[ExpectedClass]) -> None:
        scores = {(one.class_id, one.label): one.score for one in given}
        for one in wanted:
            # one that is not among the best any more is as good as 0
            self._score(name, one.label, one.score, scores.get((one.class_id, one.label), 0.0))

    def _anomaly(self, name: str, wanted: ExpectedAnomaly, given: ExpectedAnomaly) -> None:
        self._score(name, "the anomaly", wanted.score, given.score)
        close = abs(wanted.score - wanted.threshold) <= self.tolerance.score
        if wanted.is_anomalous != given.is_anomalous and not close:
            self._problem(name, f"is_anomalous is {given.is_anomalous}, expected is {wanted.is_anomalous}")
        if wanted.threshold != given.threshold:
            self._problem(name, f"the threshold is {given.threshold:g}, expected is {wanted.threshold:g}")
        if wanted.hot_box and given.hot_box:
            self._iou(name, "the hot area", iou(wanted.hot_box, given.hot_box))
        elif wanted.hot_box != given.hot_box and not close:
            self._problem(name, f"the hot area is {given.hot_box}, expected is {wanted.hot_box}")


def iou(one: Box, other: Box) -> float:
    """Of two boxes; 1 for two equal ones without area."""
    if one == other:
        return 1.0
    a: NDArray[np.float64] = np.array(one)
    b: NDArray[np.float64] = np.array(other)
    sides = np.clip(np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2]), 0, None)
    both = float(sides.prod())
    union = float((a[2:] - a[:2]).prod() + (b[2:] - b[:2]).prod()) - both
    return both / union if union > 0 else 0.0


def run_lengths(mask: NDArray[np.bool_]) -> list[int]:
    """(height, width) -> lengths of runs, row by row, of False first."""
    flat = np.concatenate(([False], mask.ravel(), [not mask.ravel()[-1]] if mask.size else [True]))
    edges = np.flatnonzero(flat[1:] != flat[:-1])
    return [int(length) for length in np.diff(edges, prepend=0)]


def mask_iou(one: Sequence[int], other: Sequence[int]) -> float:
    """Of two masks as run lengths; 1 for two empty ones."""
    # numbers from a file: nothing is spread that does not fit
    if sum(one) != sum(other) or min((*one, *other), default=0) < 0:
        return 0.0
    a, b = _spread(one), _spread(other)
    either = int(np.count_nonzero(a | b))
    return int(np.count_nonzero(a & b)) / either if either else 1.0


def _spread(runs: Sequence[int]) -> NDArray[np.bool_]:
    return np.repeat(np.arange(len(runs)) % 2 == 1, runs)


def _distance(one: Point, other: Point) -> float:
    return float(np.hypot(one[0] - other[0], one[1] - other[1]))


def _shown(one: ExpectedDetection) -> str:
    return f"{one.label} {one.score:.3f} at {' '.join(f'{side:.0f}' for side in one.box)}"
