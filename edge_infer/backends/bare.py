"""A network alone on its runtime: the limit that anything built on top of it is measured against."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from edge_infer.backends import BackendSettings
from edge_infer.backends.common import picture_shape
from edge_infer.errors import BackendError
from edge_infer.model.card import ModelCard
from edge_infer.model.extra_inputs import is_known, value_of
from edge_infer.registry import resolve
from edge_infer.tensor import Tensor, TensorSpec

BARE = {
    "onnxruntime": "edge_infer.backends.bare_onnxruntime:BareOnnxRuntime",
    "openvino": "edge_infer.backends.bare_openvino:BareOpenVino",
}
"""``type:`` of a backend -> its `Bare`, made of its settings and a card."""

Run = Callable[[Callable[[], bool]], int]
"""Infers until asked to stop, which is asked before each frame; how many frames are done when it returns."""


class Bare(Protocol):
    """The network as its file has it, fed one tensor again and again; nothing folded in, nothing read."""

    ways: Mapping[str, Run]
    """By name: each way of the runtime to as many frames a second as it can."""
    infer_once: Mapping[str, Callable[[], None]]
    """By name: each way to have one frame as soon as possible; returns when it is done."""
    version: str
    """Of the runtime."""

    def close(self) -> None:
        """Safe to call twice."""


def open_bare(settings: BackendSettings, card: ModelCard) -> Bare:
    """On the device and in the precision of the settings; ModelError or BackendError where it cannot run."""
    opened: Bare = resolve(BARE, settings.type)(settings, card)
    return opened


def tensors(card: ModelCard, specs: Sequence[TensorSpec]) -> dict[str, Tensor]:
    """Something for each input: a picture of noise, in the numbers that the network was trained with."""
    random = np.random.default_rng(1)
    given: dict[str, Any] = {}
    for spec in specs:
        if spec.name == card.input.name:
            shape = picture_shape(card, spec)
            # levels of 0..255 as the network's own scale makes them
            pixels = random.integers(0, 256, shape) / (1 if spec.dtype == "uint8" else card.input.scale)
            given[spec.name] = pixels.astype(spec.dtype)
        elif is_known(spec):
            given[spec.name] = value_of(spec, *card.input.network_size)
        else:
            raise BackendError(f"{card.network}: nobody knows what to feed to its input {spec.name}")
    return given
