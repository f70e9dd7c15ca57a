"""Semantic segmentation: a class for every place; each connected region of one class is an object."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from edge_infer.decoders.boxes import area
from edge_infer.decoders.placing import covered, place
from edge_infer.decoders.probabilities import sum_to_one
from edge_infer.decoders.rows import sigmoid
from edge_infer.errors import ModelError
from edge_infer.findings import Detections, Findings, Grid
from edge_infer.geometry import Transform
from edge_infer.model.card import ModelCard
from edge_infer.tensor import Tensor, TensorSpec

_EIGHT = 8
"""Regions that touch at a corner are one."""
_BLOCK = 1 << 18
"""Values: as many as the caches hold."""
_PARTS = 8
"""A power of two."""
_FEW = 0.25
"""Of the places: those are looked at apart."""
_IN, _OUT = np.float32(0.5), np.float32(-0.5)
"""A mask's values: its edge lies half-way between two cells."""

_LEFT_OUT = (
    "the map holds more than {} regions: the least sure and smallest are left out; "
    "raise max_detections in the model card to count them"
)

ClassMap = NDArray[np.integer]
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
        regions = _regions(class_map, sure, self._card.score_threshold)
        detections, left_out = _detections(self._card, regions, transform)
        if left_out:
            warnings += (_LEFT_OUT.format(self._card.max_detections),)
        return Findings(detections, warnings=warnings)

    def _classes(self, answer: Tensor) -> tuple[ClassMap, NDArray[np.float32]]:
        """Class ids (-1: none) and how probable each is, whatever where it is the background."""
        if answer.ndim == 3 and len(answer) > 1:
            nothing = {"none": None, "first": 0, "last": len(self._card.labels)}[self._card.background]
            return _best(answer, self._card.logits, nothing)
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


def _best(scores: Tensor, logits: bool | None, nothing: int | None) -> tuple[ClassMap, NDArray[np.float32]]:
    """The class and its probability at every place of (classes, h, w); 0 where it is ``nothing``."""
    count, height, width = scores.shape
    class_map = np.empty((height, width), np.int32)
    sure = np.zeros((height, width), np.float32)
    lines = max(1, _BLOCK // (count * width))
    blocks = [slice(top, top + lines) for top in range(0, height, lines)]
    if logits is None:
        logits = not all(sum_to_one(np.asarray(scores[:, block], np.float32)) for block in blocks)
    # a block at a time: what one step leaves is still in the caches for the next
    for block in blocks:
        part = np.asarray(scores[:, block], np.float32)
        best = part.max(axis=0)
        class_map[block] = _first_equal(part, best)
        where: Any = ...
        if nothing is not None:
            is_something = class_map[block] != nothing
            if is_something.mean() < _FEW:
                # the probability of what is not told is not asked for
                where = np.nonzero(is_something)
                part, best = part[:, *where], best[where]
        sure[block][where] = _softmax_of_best(part, best) if logits else np.clip(best, 0, 1)
    return class_map, sure


def _first_equal(planes: NDArray[np.float32], best: NDArray[np.float32]) -> ClassMap:
    """The first of (classes, ...) that is the best at each place; numpy's argmax is several times slower."""
    count = len(planes)
    kind = np.min_scalar_type(count)
    first = np.zeros(best.shape, kind)
    for class_id, plane in enumerate(planes):
        np.maximum(first, (plane == best) * kind.type(count - class_id), out=first)
    return count - first.astype(np.int32)


def _softmax_of_best(scores: NDArray[np.float32], best: NDArray[np.float32]) -> NDArray[np.float32]:
    """(classes, ...) and the highest of each place -> how probable that one is."""
    with np.errstate(over="ignore"):
        below = scores - best
        np.exp(below, out=below)
    return np.asarray(1 / below.sum(axis=0), np.float32)


@dataclass(frozen=True, slots=True, eq=False)
class _Regions:
    """Connected places of one class, the surest first, of equally sure ones the largest."""

    numbers: NDArray[np.int32]
    """(h, w) which region is where; 0: none."""
    own: NDArray[np.intp]
    """(N,) the numbers of those that are sure enough."""
    scores: NDArray[np.float64]
    """(N,)"""
    class_ids: NDArray[np.intp]
    """(N,)"""
    cells: NDArray[np.intp]
    """(N, 4) x1, y1, x2, y2 of the cells each lies in."""


def _regions(class_map: ClassMap, sure: NDArray[np.float32], threshold: float) -> _Regions:
    numbers = np.zeros(class_map.shape, np.int32)
    classes = [np.zeros(0, np.intp)]
    total = 0
    for class_id in np.flatnonzero(np.bincount(class_map.ravel() + 1)[1:]).tolist():
        mask = (class_map == class_id).view(np.uint8)
        x, y, width, height = cv2.boundingRect(mask)
        # OpenCV numbers regions by blocks of two by two: they stay as in the whole map
        part = slice(y - y % 2, y + height), slice(x - x % 2, x + width)
        count, own = cv2.connectedComponents(mask[part], connectivity=_EIGHT)
        # no place is in two classes
        numbers[part] += own + mask[part] * np.int32(total)
        classes.append(np.full(count - 1, class_id))
        total += count - 1
    cells, size = _extents(numbers, total)
    # a sum in several parts: each step would wait for the one before it
    parts = numbers.ravel() * _PARTS + (np.arange(numbers.size) & (_PARTS - 1))
    sums = np.bincount(parts, weights=sure.ravel(), minlength=(total + 1) * _PARTS)
    scores = sums.reshape(-1, _PARTS).sum(axis=1)[1:] / size
    # class ids make all equally sure: then the large ones stay, whatever their class
    order = np.lexsort((-size, -scores))
    order = order[scores[order] >= threshold]
    return _Regions(numbers, order + 1, scores[order], np.concatenate(classes)[order], cells[order])


def _extents(numbers: NDArray[np.int32], total: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """(total, 4) x1, y1, x2, y2 and (total,) how many cells of each region from 1 on."""
    flat = numbers.ravel()
    changes = np.diff(flat, prepend=-1) != 0
    changes[:: numbers.shape[1]] = True
    # runs of one number in a line: far fewer than cells
    starts = np.flatnonzero(changes)
    long = np.diff(starts, append=flat.size)
    y, x = np.divmod(starts, numbers.shape[1])
    own = flat[starts]
    order = np.argsort(own, kind="stable")
    first = np.searchsorted(own[order], np.arange(1, total + 1))
    x1, y1 = (np.minimum.reduceat(each[order], first) for each in (x, y))
    x2, y2 = (np.maximum.reduceat(each[order], first) for each in (x + long, y + 1))
    return np.stack([x1, y1, x2, y2], axis=1), np.add.reduceat(long[order], first)


def _detections(card: ModelCard, regions: _Regions, transform: Transform) -> tuple[Detections, bool]:
    """A region that lies wholly in the padding is no object.

    And whether there are more than ``max_detections``, which are left out.
    """
    left, top, right, bottom = covered(card.input)
    rows, columns = regions.numbers.shape
    by_x, by_y = (right - left) / columns, (bottom - top) / rows
    covers = np.array([left, top, left, top]) + regions.cells * np.array([by_x, by_y, by_x, by_y])
    inside = transform.boxes_to_frame(covers)
    masks: list[Grid] = []
    found: list[int] = []
    left_out = False
    for index in np.flatnonzero(area(inside) > 0).tolist():
        x1, y1, x2, y2 = regions.cells[index].tolist()
        values = np.where(regions.numbers[y1:y2, x1:x2] == regions.own[index], _IN, _OUT)
        mask = place(values, tuple(covers[index].tolist()), transform, tuple(inside[index].tolist()))
        if mask.is_empty:
            continue
        if len(found) == card.max_detections:
            left_out = True
            break
        found.append(index)
        masks.append(mask)
    class_ids = regions.class_ids[found].astype(np.int32)
    detections = Detections(
        inside[found],
        np.minimum(regions.scores[found].astype(np.float32), 1),
        class_ids,
        tuple(card.labels[class_id] for class_id in class_ids.tolist()),
        masks=tuple(masks),
    )
    return detections, left_out
