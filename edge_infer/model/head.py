"""What is known of a network's head, and the words for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from edge_infer.model.card import Background
from edge_infer.tensor import TensorSpec

_STRIDES = ((8, 16, 32), (4, 8, 16, 32), (8, 16, 32, 64), (16, 32))


@dataclass(frozen=True, slots=True)
class Head:
    """What the outputs are."""

    decoder: str
    classes: int | None
    """Columns that hold a class score; None where a row holds the class id itself."""
    background: Background = "none"
    """The class that means nothing as this family has it; the card may know better."""


@dataclass(frozen=True, slots=True)
class Unclear:
    """Why nobody can know."""

    why: str
    """A sentence without an end."""
    fitting: tuple[str, ...] = ()
    """Decoders that all fit."""
    key: str = "decoder"
    """Of the card: what has to be said."""
    advice: str = ""
    """What to say there; empty: one of the decoders."""


def grid_cells(size: tuple[int, int]) -> set[int]:
    """How many cells the usual heads have for an input of this height, width."""
    height, width = size
    return {sum(-(-height // stride) * -(-width // stride) for stride in strides) for strides in _STRIDES}


def shapes(outputs: Sequence[TensorSpec]) -> str:
    """For sentences: ``output0 1x7x8400``."""
    return ", ".join(
        f"{spec.name} {'x'.join('?' if side is None else str(side) for side in spec.shape) or 'scalar'}"
        for spec in outputs
    )
