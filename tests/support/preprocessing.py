"""Preprocessing into memory of its own each time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from edge_infer.geometry import PixelBox, Transform
from edge_infer.model.card import InputCard
from edge_infer.preprocess import Preprocess
from edge_infer.tensor import PictureSpec, Tensor


class Fresh:
    """Gives a new tensor a picture."""

    def __init__(self, card_input: InputCard, spec: PictureSpec) -> None:
        self._preprocess = Preprocess(card_input, spec)

    def __call__(self, pixels: NDArray[np.uint8], region: PixelBox | None = None) -> tuple[Tensor, Transform]:
        canvas = self._preprocess.new()
        # whatever the memory held before
        canvas.tensor.fill(77)
        transform = self._preprocess(pixels, region, canvas)
        return canvas.tensor, transform
