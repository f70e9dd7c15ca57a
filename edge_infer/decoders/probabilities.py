"""From what a network gives a class to how probable the class is."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_SUM_SLACK = 1e-2
_SLACK = 1e-3


def probabilities(scores: NDArray[np.float32], logits: bool | None) -> NDArray[np.float32]:
    """(classes, ...) -> the same; ``logits``: None where the network does not tell, then the values do."""
    if logits is None:
        logits = not _sum_to_one(scores)
    if not logits:
        return np.clip(scores, 0, 1)
    raised = np.exp(scores - scores.max(axis=0))
    return np.asarray(raised / raised.sum(axis=0), np.float32)


def _sum_to_one(scores: NDArray[np.float32]) -> bool:
    in_range = scores.min() >= -_SLACK and scores.max() <= 1 + _SLACK
    return bool(in_range and (np.abs(scores.sum(axis=0) - 1) <= _SUM_SLACK).all())
