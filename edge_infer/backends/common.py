"""What every runtime's backend does the same way."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from edge_infer.errors import BackendError
from edge_infer.model.card import ModelCard
from edge_infer.tensor import PictureSpec, Tensor, TensorSpec

log = logging.getLogger(__name__)
B = TypeVar("B")

_SHOWN = 300


def first_that_opens(devices: Sequence[str], open_on: Callable[[str], B]) -> B:
    """The first device that can; BackendError of the first one where none can. Never silent."""
    failures: list[BackendError] = []
    for device in devices:
        try:
            opened = open_on(device)
        except BackendError as error:
            failures.append(error)
            continue
        if failures:
            log.warning("%s; running on the fallback %s", failures[-1], device)
        return opened
    raise failures[0]


def picture_size(card: ModelCard, spec: TensorSpec) -> tuple[int, int]:
    """height, width of the input that takes the picture, whatever of it the network leaves free."""
    fixed = spec.shape[2:4] if card.input.layout == "nchw" else spec.shape[1:3]
    wished = card.input.network_size
    return fixed[0] or wished[0], fixed[1] or wished[1]


def picture_shape(card: ModelCard, spec: TensorSpec) -> tuple[int, int, int, int]:
    """The static shape of that input."""
    height, width = picture_size(card, spec)
    batch, channels = spec.shape[0] or 1, 1 if card.input.color == "gray" else 3
    if card.input.layout == "nchw":
        return batch, channels, height, width
    return batch, height, width, channels


def refuse_misfits(specs: Sequence[TensorSpec], tensors: Mapping[str, Tensor]) -> None:
    """BackendError where the tensors are not what the inputs take: runtimes differ in what they forgive."""
    wanted, given = {spec.name for spec in specs}, set(tensors)
    if wanted != given:
        raise BackendError(f"the network takes {sorted(wanted)}, given are {sorted(given)}")
    for spec in specs:
        tensor = tensors[spec.name]
        if tensor.dtype != np.dtype(spec.dtype) or not _fits(tensor.shape, spec.shape):
            raise BackendError(
                f"the input {spec.name} takes {spec.dtype} {list(spec.shape)}, "
                f"given is {tensor.dtype} {list(tensor.shape)}"
            )


def _fits(shape: tuple[int, ...], wanted: tuple[int | None, ...]) -> bool:
    return len(shape) == len(wanted) and all(
        want in (None, side) for side, want in zip(shape, wanted, strict=True)
    )


def reason(error: Exception) -> str:
    """A runtime's message on one line, without the places in its source."""
    lines = [line.strip() for line in str(error).splitlines()]
    kept = [
        line
        for line in lines
        if line and not line.startswith(("Exception from", "Check '", "FrontEnd API failed", "Summary"))
    ]
    text = " ".join(kept or lines).strip() or type(error).__name__
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def network_picture(card: ModelCard, spec: TensorSpec) -> PictureSpec:
    """All of preprocessing is left to do."""
    height, width = picture_size(card, spec)
    return PictureSpec(
        name=spec.name,
        shape=picture_shape(card, spec),
        dtype=spec.dtype,
        layout=card.input.layout,
        height=height,
        width=width,
        color=card.input.color,
        scale=card.input.scale,
        mean=card.input.mean,
        std=card.input.std,
    )
