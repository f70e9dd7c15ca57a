"""How far a candidate's answers lie from those of FP32 on the same frames."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from edge_infer.findings import Findings
from edge_infer.model.card import ModelCard, Task
from edge_infer.tune.items import Item, detections, items, overlap

NEAR = 0.1
"""So close to the threshold FP32 itself is not sure: what changes there is counted apart."""
SAME_IOU = 0.5
"""Of one label and this overlap two findings are one object."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a candidate may lose and still be chosen."""

    lost: float = 0.01
    """Of the sure findings of FP32, missing ones and ones too many together."""
    score: float = 0.05
    """Mean difference of the scores of one object."""
    iou: float = 0.9
    """Mean overlap of one object."""


@dataclass(slots=True)
class Agreement:
    """Counts over frames; made by ``add``."""

    task: Task
    threshold: float
    """Of the decision: the card's."""
    frames: int = 0
    sure: int = 0
    """Findings of FP32 that lie ``NEAR`` or more above the threshold; decisions where a picture has one."""
    missing: int = 0
    """Of them, those that the candidate does not find at the threshold."""
    extra: int = 0
    """Found by the candidate where FP32 is sure that nothing is."""
    near: int = 0
    """FP32's within ``NEAR`` of the threshold."""
    near_changed: int = 0
    """Of them, those on the other side of it with the candidate."""
    undefined: int = 0
    """Frames to which the candidate has no honest answer and FP32 has, or the other way round."""
    _drift: list[float] = field(default_factory=list)
    _ious: list[float] = field(default_factory=list)

    @property
    def lost(self) -> float:
        """Share of the sure findings."""
        return (self.missing + self.extra) / max(1, self.sure)

    @property
    def score_drift(self) -> float:
        """Mean difference of two scores of one object."""
        return float(np.mean(self._drift)) if self._drift else 0.0

    @property
    def mean_iou(self) -> float | None:
        """None where nothing has a place."""
        return float(np.mean(self._ious)) if self._ious else None

    def add(self, reference: Findings, found: Findings) -> None:
        """One frame; both decoded with a threshold lower by ``NEAR``."""
        self.frames += 1
        if (reference.undefined is None) != (found.undefined is None):
            self.undefined += 1
        if reference.undefined is not None or found.undefined is not None:
            return
        _MEASURES[self.task](self, reference, found)

    def as_json(self) -> dict[str, Any]:
        """What the report says of it."""
        told = asdict(self)
        drift = told.pop("_drift")
        ious = told.pop("_ious")
        return told | {
            "lost": round(self.lost, 6),
            "score_drift": {"mean": round(self.score_drift, 6), "max": round(max(drift, default=0.0), 6)},
            "iou": {"mean": round(self.mean_iou or 0.0, 6), "min": round(min(ious), 6)} if ious else None,
        }

    # -- by task

    def match(self, reference: Sequence[Item], found: Sequence[Item]) -> None:
        """Objects of one label, by their overlap, the surest first."""
        left = list(found)
        for one in sorted(reference, key=lambda item: -item.score):
            best = max((each for each in left if each.label == one.label), key=one.overlap, default=None)
            if best is not None and one.overlap(best) >= SAME_IOU:
                left.remove(best)
                self._drift.append(abs(one.score - best.score))
                self._ious.append(overlap(one, best))
                self._decide(one.score, best.score)
            else:
                self._decide(one.score, 0.0)
        # all that FP32 has there lies further below the threshold
        self.extra += sum(each.score >= self.threshold for each in left)

    def classify(self, reference: Findings, found: Findings) -> None:
        """The best class where it is above the threshold, else none."""
        wanted, given = _scores(reference), _scores(found)
        first, second = (*sorted(wanted.values(), reverse=True), 0.0, 0.0)[:2]
        labels = [max(scores, key=lambda key: scores[key], default=None) for scores in (wanted, given)]
        self._drift.append(
            max(abs(score - given.get(key, 0.0)) for key, score in wanted.items()) if wanted else 0.0
        )
        decided = [
            label if label is not None and scores[label] >= self.threshold else None
            for label, scores in zip(labels, (wanted, given), strict=True)
        ]
        self._count(
            near=abs(first - self.threshold) < NEAR or first - second < NEAR, changed=decided[0] != decided[1]
        )

    def anomaly(self, reference: Findings, found: Findings) -> None:
        """Whether it is anomalous."""
        one, other = reference.anomaly, found.anomaly
        if one is None or other is None:
            self.undefined += one is not other
            return
        self._drift.append(abs(one.score - other.score))
        self._count(
            near=abs(one.score - one.threshold) < NEAR, changed=one.is_anomalous != other.is_anomalous
        )

    def _count(self, *, near: bool, changed: bool) -> None:
        if near:
            self.near += 1
            self.near_changed += changed
        else:
            self.sure += 1
            self.missing += changed

    def _decide(self, wanted: float, given: float) -> None:
        changed = (wanted >= self.threshold) != (given >= self.threshold)
        if wanted >= self.threshold + NEAR:
            self.sure += 1
            self.missing += changed
        else:
            self.near += 1
            self.near_changed += changed


def lowered(card: ModelCard) -> float:
    """The threshold to decode with, so that what FP32 nearly finds is seen."""
    # at 0 every row of every frame would be an object
    return max(0.001, card.score_threshold - NEAR)


def why_not(agreement: Agreement, limits: Limits, *, exact: bool) -> str | None:
    """Why a candidate loses more than it may, as a sentence; None: it may be chosen.

    ``exact``: it computes in float32 as FP32 does, which need not be proved by findings.
    """
    if agreement.undefined:
        return f"{agreement.undefined} frames have an honest answer with one of the two only"
    if not exact and not agreement.sure:
        return "FP32 is sure of nothing in the held-out frames, so they cannot show that it is as good"
    if agreement.lost > limits.lost:
        return (
            f"loses {agreement.lost:.2%} of the sure findings ({agreement.missing} missing, "
            f"{agreement.extra} too many, of {agreement.sure}); at most {limits.lost:.2%}"
        )
    if agreement.score_drift > limits.score:
        return f"scores are off by {agreement.score_drift:.3f} on average; at most {limits.score:g}"
    if agreement.mean_iou is not None and agreement.mean_iou < limits.iou:
        return f"objects overlap by {agreement.mean_iou:.3f} on average; at least {limits.iou:g}"
    return None


def _scores(findings: Findings) -> dict[tuple[int, str], float]:
    return {(one.class_id, one.label): one.score for one in findings.classes or ()}


def _objects(agreement: Agreement, reference: Findings, found: Findings) -> None:
    agreement.match(detections(reference), detections(found))


def _areas(agreement: Agreement, reference: Findings, found: Findings) -> None:
    agreement.match(items(reference, found), items(found, reference))


_MEASURES: dict[Task, Callable[[Agreement, Findings, Findings], None]] = {
    "detect": _objects,
    "segment": _objects,
    "obb": _objects,
    "pose": _objects,
    "semantic": _areas,
    "classify": Agreement.classify,
    "anomaly": Agreement.anomaly,
}
