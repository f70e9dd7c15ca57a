"""Tensors of heads with several outputs: read as float rows, their boxes and classes put in one form."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from edge_infer.decoders.boxes import MOST_CANDIDATES, Boxes, best_first
from edge_infer.decoders.head import Candidates, Place, Rows, refuse_logits
from edge_infer.errors import ModelError
from edge_infer.model.card import ModelCard
from edge_infer.tensor import Tensor

_SHOWN = 5
ROUNDING = 1e-6
"""So far a float32 probability may be from what it should be."""


def matrix(tensor: Tensor) -> Rows:
    """(1, N, columns) or (N, columns) -> (N, columns), a view of float32; the first of a batch is ours."""
    return np.asarray(tensor[0] if tensor.ndim == 3 else tensor, np.float32)


def listed(tensor: Tensor, rows: int) -> NDArray[np.float32]:
    """(1, N), (N,), (1, N, 1) or (N, 1) for N ``rows`` -> (N,); of a batch the first picture is ours."""
    flat = tensor if tensor.ndim < 2 or tensor.shape[:2] == (rows, 1) else tensor[0]
    return np.asarray(flat, np.float32).reshape(-1)


def refuse_uneven(card: ModelCard, *parts: Tensor) -> None:
    """ModelError where outputs that belong together row by row differ in length."""
    lengths = [len(part) for part in parts]
    if len(set(lengths)) > 1:
        raise ModelError(
            f"{card.network}: the network's outputs belong together row by row, "
            f"it answered {', '.join(map(str, lengths))} rows",
            hint="correct decoder in the model card, or export the network again",
        )


def sigmoid(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Element by element."""
    # of very negative numbers exp overflows, and the answer is 0 as it should be
    with np.errstate(over="ignore"):
        return np.asarray(1 / (1 + np.exp(-values)), np.float32)


def logit(probability: float) -> float:
    """What a number must be above for its ``sigmoid`` to be at least this, a little less to be sure."""
    sure = probability - ROUNDING
    return math.log(sure / (1 - sure)) if sure > 0 else -math.inf


def to_pixels(card: ModelCard, boxes: NDArray[np.floating]) -> Boxes:
    """(N, 4) of which each value is a fraction of the network's width or height, whichever form they have."""
    height, width = card.input.network_size
    return np.asarray(boxes.astype(np.float64) * np.array([width, height, width, height]))


def numbered(
    card: ModelCard,
    place: Place,
    scores: NDArray[np.float32],
    numbers: NDArray[np.floating],
    usable: NDArray[np.bool_],
) -> tuple[Candidates, tuple[str, ...]]:
    """Rows above the threshold that name their class by number; background is dropped, unknown ones said."""
    # exporters fill up with rows of -1
    refuse_logits(card, scores, usable & (scores != -1))
    found = np.flatnonzero(usable & (scores >= card.score_threshold))
    class_ids = np.rint(numbers[found])
    whole = class_ids == numbers[found]
    nothing = {"none": None, "first": 0, "last": len(card.labels)}[card.background]
    first = 1 if card.background == "first" else 0
    known = whole & (class_ids >= first) & (class_ids < first + len(card.labels))
    unknown = ~known & (class_ids != nothing) if nothing is not None else ~known
    warnings: tuple[str, ...] = ()
    if unknown.any():
        some = ", ".join(f"{number:g}" for number in np.unique(numbers[found][unknown])[:_SHOWN])
        labels = len(card.labels)
        warnings = (f"{np.count_nonzero(unknown)} rows name classes ({some}) beyond the {labels} labels",)
    found, ids = found[known], class_ids[known].astype(np.intp) - first
    order = best_first(scores[found], len(found))
    found = found[order]
    return Candidates(place(found), scores[found], ids[order], found, len(found)), warnings


def best_classes(
    card: ModelCard,
    by_class: NDArray[np.float32],
    usable: NDArray[np.bool_],
    place: Place,
    most: int = MOST_CANDIDATES,
) -> Candidates:
    """Rows above the threshold with a score a class; ``by_class`` (N, classes), background left out.

    At most the best ``most``.
    """
    hits = by_class >= card.score_threshold
    if by_class.min(initial=0) >= 0 and np.count_nonzero(hits) < len(by_class):
        # nothing to refuse: only the few rows above the threshold are looked at
        cells = np.flatnonzero(hits) // by_class.shape[1]
        found = cells[np.flatnonzero(np.diff(cells, prepend=-1))]
        found = found[usable[found]]
        scores = by_class[found].max(axis=1)
    else:
        every = by_class.max(axis=1)
        refuse_logits(card, every, usable)
        found = np.flatnonzero(usable & (every >= card.score_threshold))
        scores = every[found]
    kept = best_first(scores, most)
    above, found = len(found), found[kept]
    return Candidates(place(found), scores[kept], by_class[found].argmax(axis=1), found, above)


def without_background(card: ModelCard, columns: NDArray[np.float32]) -> NDArray[np.float32]:
    """(N, columns) -> (N, labels); ModelError where they are not as many as the labels."""
    first = 1 if card.background == "first" else 0
    wanted = len(card.labels) + (card.background != "none")
    if columns.shape[1] != wanted:
        raise ModelError(
            f"{card.network}: the network answered {columns.shape[1]} columns of classes, "
            f"the card names {len(card.labels)} labels and background: {card.background}",
            hint="correct labels or background in the model card",
        )
    return columns[:, first : first + len(card.labels)]
