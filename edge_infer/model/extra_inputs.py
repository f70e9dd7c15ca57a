"""Inputs beside the picture whose meaning is known; every other one is a question nobody answered."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from edge_infer.model.outputs import ORIGINAL_SIZE, plain
from edge_infer.tensor import Tensor, TensorSpec

_USUAL_SENSITIVITY = 0.5

_Value = Callable[[int, int], tuple[float, ...]]


def _sensitivity(_: int, __: int) -> tuple[float, ...]:
    return (_USUAL_SENSITIVITY,)


def _network_size(height: int, width: int) -> tuple[float, ...]:
    # boxes then come in network pixels, and go to the frame as those of every other network
    return (width, height)


def _all_of_it(_: int, __: int) -> tuple[float, ...]:
    return (1,)


_KNOWN: dict[str, _Value] = {
    # anomalib: 0.5 leaves the score where the training put it
    "image_sensitivity": _sensitivity,
    "pixel_sensitivity": _sensitivity,
    ORIGINAL_SIZE: _network_size,
    # transformers' DETR: which pixels are picture and not filled up to the largest of a batch
    "pixel_mask": _all_of_it,
}
"""Name -> the values, given height, width of the network's input."""


def is_known(spec: TensorSpec) -> bool:
    """Whether something is known to be fed to it."""
    return plain(spec.name) in _KNOWN


def value_of(spec: TensorSpec, height: int, width: int) -> Tensor:
    """What to feed to a known input of a network that takes pictures of ``height`` x ``width``."""
    values = np.array(_KNOWN[plain(spec.name)](height, width), spec.dtype)
    # a free last side is as long as the values, every other one is the batch
    shape = (*(side or 1 for side in spec.shape[:-1]), *(side or len(values) for side in spec.shape[-1:]))
    return np.broadcast_to(values if shape else values[0], shape).copy()
