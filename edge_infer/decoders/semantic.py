"""Semantic segmentation: a class for every place; each connected region of one class is an object."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import cv2
import numpy as np
from numpy.typing import NDArray

from edge_infer.decoders.placing import covered, place
from edge_infer.decoders.probabilities import are_logits
from edge_infer.decoders.rows import sigmoid
from edge_infer.errors import ModelError
from edge_infer.findings import Box, Detections, Findings, Grid
from edge_infer.geometry import Transform
from edge_infer.model.card import ModelCard
from edge_infer.tensor import Tensor, TensorSpec

_EIGHT = 8
"""Regions that touch at a corner are one."""

_LEFT_OUT = (
    "the map holds more than {} regions: the least sure and smallest are left out; "
    "raise max_detections in the model card to count them"
)

ClassMap = NDArray[np.intp]
"""(h, w) class ids as the network counts them."""


class Semantic:
    """(1, classes, h, w) of logits or probabilities, one channel for "is it", or (1, h, w) class ids."""

    def __init__(self, card: ModelCard, outputs: tuple[TensorSpec, ...]) -> None:
        self._card = card
        fitting = [spec for spec in outputs if len(spec.shape) in (3, 4)]
        if len(fitting) != 1:
            raise ModelError(
                f"{card.network}: {len(fitting)} of its outputs are a map of classes",
                hint="correct task in the model card",
            )
        self._name = fitting[0].name
        self._first = 1 if card.background == "first" else 0

    def decode(self, outputs: Mapping[str, Tensor], transform: Transform) -> Findings:
        """Score = the mean probability in a region; not a number anywhere is no answer."""
        answer = outputs[self._name][0]
        if not np.isfinite(answer).all():
            count = int(np.count_nonzero(~np.isfinite(answer)))
            warning = f"{count} of {answer.size} values of the network's map are not finite numbers"
            return Findings(nan_rows=count, undefined="nan", warnings=(warning,))
        class_map, sure = self._classes(answer)
        class_map, warnings = self._known(class_map)
        regions: list[_Region] = []
        for class_id in np.flatnonzero(np.bincount(class_map.ravel() + 1)[1:]).tolist():
            regions += _regions(class_map == class_id, sure, class_id, self._card.score_threshold)
        # class ids make all equally sure: then the large ones stay, whatever their class
        regions.sort(key=lambda region: (-region[0], -np.count_nonzero(region[3] > 0)))
        detections, left_out = _detections(self._card, regions, sure.shape, transform)
        if left_out:
            warnings += (_LEFT_OUT.format(self._card.max_detections),)
        return Findings(detections, warnings=warnings)

    def _classes(self, answer: Tensor) -> tuple[ClassMap, NDArray[np.float32]]:
        """Class ids (-1: none) and how probable each is."""
        if answer.ndim == 3 and len(answer) > 1:
            return _best(np.asarray(answer, np.float32), self._card.logits)
        plane = answer.reshape(answer.shape[-2:])
        if not np.issubdtype(plane.dtype, np.floating):
            ids = plane.astype(np.intp)
            if len(self._card.labels) == 1 and self._card.background == "none":
                # Ultralytics writes whether it is the only class
                ids -= 1
            return ids, np.ones(plane.shape, np.float32)
        # one channel tells only whether it is the one class
        sure = np.asarray(plane, np.float32)
        if self._card.logits is not False and (self._card.logits or sure.min() < 0 or sure.max() > 1):
            sure = sigmoid(sure)
        # as behind a softmax, the id behind the background's
        return np.where(sure > 0.5, self._first, -1), sure

    def _known(self, class_map: ClassMap) -> tuple[ClassMap, tuple[str, ...]]:
        """Ids as the labels count them, -1 for the background."""
        ids = np.where(class_map < 0, -1, class_map - self._first)
        count = len(self._card.labels)
        if self._card.background == "last":
            ids[ids == count] = -1
        beyond = ids >= count
        if not beyond.any():
            return ids, ()
        ids[beyond] = -1
        places = int(np.count_nonzero(beyond))
        return ids, (f"{places} places of the map name classes beyond the {count} labels",)


def _best(scores: NDArray[np.float32], logits: bool | None) -> tuple[ClassMap, NDArray[np.float32]]:
    """The class and its probability at every place of (classes, h, w)."""
    class_map, best = np.zeros(scores.shape[1:], np.intp), scores[0].copy()
    # plane by plane: numpy is several times slower across the first axis
    for class_id, plane in enumerate(scores[1:], 1):
        class_map[plane > best] = class_id
        np.maximum(best, plane, out=best)
    if not are_logits(scores, logits):
        return class_map, np.clip(best, 0, 1)
    total = np.zeros_like(best)
    with np.errstate(over="ignore"):
        for plane in scores:
            total += np.exp(plane - best)
    return class_map, 1 / total


_Region = tuple[float, int, Box, NDArray[np.float32]]
"""Score, class id, the cells x1, y1, x2, y2 it lies in, and its mask there."""


def _regions(
    mask: NDArray[np.bool_], sure: NDArray[np.float32], class_id: int, threshold: float
) -> list[_Region]:
    count, numbers, stats, _ = cv2.connectedComponentsWithStats(mask.astype(np.uint8), connectivity=_EIGHT)
    sums = np.bincount(numbers.ravel(), weights=sure.ravel(), minlength=count)
    regions: list[_Region] = []
    for number in range(1, count):
        x, y, width, height, cells = stats[number].tolist()
        score = float(sums[number] / cells)
        if score >= threshold:
            part = numbers[y : y + height, x : x + width] == number
            values = np.where(part, np.float32(0.5), np.float32(-0.5))
            regions.append((score, class_id, (x, y, x + width, y + height), values))
    return regions


def _detections(
    card: ModelCard, regions: list[_Region], shape: tuple[int, int], transform: Transform
) -> tuple[Detections, bool]:
    """``shape``: height, width of the map. A region that lies wholly in the padding is no object.

    And whether there are more than ``max_detections``, which are left out.
    """
    left, top, right, bottom = covered(card.input)
    by_x, by_y = (right - left) / shape[1], (bottom - top) / shape[0]
    found: list[tuple[float, int, Grid]] = []
    left_out = False
    for score, class_id, (x1, y1, x2, y2), values in regions:
        covers = (left + x1 * by_x, top + y1 * by_y, left + x2 * by_x, top + y2 * by_y)
        mask = place(values, covers, transform)
        if not mask.area:
            continue
        if len(found) == card.max_detections:
            left_out = True
            break
        found.append((score, class_id, mask))
    if not found:
        return replace(Detections.none(), masks=()), False
    detections = Detections(
        np.array([mask.inside for _, _, mask in found], np.float32),
        np.minimum(np.array([score for score, _, _ in found], np.float32), 1),
        np.array([class_id for _, class_id, _ in found], np.int32),
        tuple(card.labels[class_id] for _, class_id, _ in found),
        masks=tuple(mask for _, _, mask in found),
    )
    return detections, left_out
