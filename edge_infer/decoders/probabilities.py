"""From what a network gives a class to how probable the class is."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_SUM_SLACK = 1e-2
_SLACK = 1e-3


def probabilities(scores: NDArray[np.float32], logits: bool | None) -> NDArray[np.float32]:
    """(classes, ...) -> the same; ``logits`` as for ``are_logits``."""
    if not are_logits(scores, logits):
        return np.clip(scores, 0, 1)
    # what is too far below the best one has no chance
    with np.errstate(over="ignore"):
        raised = np.exp(scores - scores.max(axis=0))
    return np.asarray(raised / raised.sum(axis=0), np.float32)


def are_logits(scores: NDArray[np.float32], told: bool | None) -> bool:
    """``told``: None where the network does not tell, then the values do."""
    return not sum_to_one(scores) if told is None else told


def sum_to_one(scores: NDArray[np.float32]) -> bool:
    """Whether (classes, ...) hold probabilities at every place."""
    in_range = scores.min() >= -_SLACK and scores.max() <= 1 + _SLACK
    return bool(in_range and (np.abs(scores.sum(axis=0) - 1) <= _SUM_SLACK).all())
