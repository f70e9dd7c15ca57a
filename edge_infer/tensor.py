"""What a network's inputs and outputs look like."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from numpy.typing import NDArray

Tensor = NDArray[Any]


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """One input or output of a network."""

    name: str
    shape: tuple[int | None, ...]
    """``None`` where the size is free."""
    dtype: str
    """A numpy name: float32, float16, uint8, int64, bool."""


@dataclass(frozen=True, slots=True)
class PictureSpec(TensorSpec):
    """The input that takes the picture, and what is left to do to a BGR uint8 picture to fill it.

    A backend that folds colour, scale, mean, layout or type into its graph declares what remains.
    """

    layout: Literal["nchw", "nhwc"]
    height: int
    width: int
    color: Literal["bgr", "rgb", "gray"]
    scale: float
    """x / scale, then (x - mean) / std, in ``color`` order."""
    mean: tuple[float, ...]
    std: tuple[float, ...]


class Canvas:
    """The memory of the input that takes the picture; it keeps what was written."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor
        self.padded: object = None
        """Around what part of it there is padding already; None: nowhere."""

    def fill(self, tensor: Tensor) -> None:
        """With a whole tensor."""
        self.padded = None
        self.tensor[...] = tensor
