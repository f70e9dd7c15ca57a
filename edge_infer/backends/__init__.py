"""Runtimes that run networks: the only room that imports onnxruntime or openvino."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Protocol

from pydantic import Field

from edge_infer.model.card import ModelCard
from edge_infer.settings import Settings
from edge_infer.tensor import Tensor, TensorSpec

BACKENDS = {
    "onnxruntime": "edge_infer.backends.onnxruntime:OnnxRuntime",
    "openvino": "edge_infer.backends.openvino:OpenVino",
}
"""``type:`` of a backend -> its settings class."""


class Backend(Protocol):
    """Runs one network. Knows tensors; knows nothing of boxes or YAML."""

    inputs: tuple[TensorSpec, ...]
    """The one that takes the picture is a PictureSpec and says what is left to do."""
    outputs: tuple[TensorSpec, ...]
    requests: int
    """How many threads may be inside ``infer`` at once."""
    requested: str
    """The device asked for."""
    running: str
    """The device that runs."""
    precision: str
    """What it computes in: f32, bf16, f16."""
    version: str
    """Of the runtime."""

    def infer(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """One tensor an output, the caller's to keep. BackendError where the runtime fails."""

    def close(self) -> None:
        """Safe to call twice."""


class BackendSettings(Settings):
    """What every backend has; a backend narrows ``type`` to its name and adds its own keys."""

    type: str
    """The name in ``BACKENDS``."""
    device: Annotated[str, Field(min_length=1)] = "CPU"
    """A device name of the runtime: CPU, GPU, NPU."""
    fallback: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    """Devices to try in this order where the device is not there or cannot run the network; else it fails."""
    requests: Annotated[int, Field(ge=1, le=16)] = 1
    """How many frames may be in the network at once."""

    def open(self, card: ModelCard) -> Backend:
        """Load and compile. ModelError: the file cannot be used; BackendError: the device is not there."""
        raise NotImplementedError
