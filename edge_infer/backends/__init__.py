"""Runtimes that run networks: the only room that imports onnxruntime or openvino."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Annotated, Literal, Protocol, Self

from pydantic import Field

from edge_infer.backends.blobs import Blobs
from edge_infer.model.card import ModelCard
from edge_infer.settings import Settings
from edge_infer.telemetry import switch_off
from edge_infer.tensor import Canvas, Tensor, TensorSpec

# whatever runtime a module of this room imports: it came through here before
switch_off()

BACKENDS = {
    "onnxruntime": "edge_infer.backends.onnxruntime:OnnxRuntime",
    "openvino": "edge_infer.backends.openvino:OpenVino",
}
"""``type:`` of a backend -> its settings class."""

Profile = Literal["latency", "throughput"]
"""One frame as soon as possible, with all cores; or as many frames a second as the device can."""


class Request(Protocol):
    """A frame's place in the runtime: memory to fill and memory to read, for one thread at a time."""

    picture: Canvas
    """What the picture is written to."""

    def infer(self, others: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Run on ``picture`` and the ``others`` inputs; BackendError where the runtime fails.

        One tensor an output: views that the next frame overwrites.
        """


class Backend(Protocol):
    """Runs one network. Knows tensors; knows nothing of boxes or YAML."""

    inputs: tuple[TensorSpec, ...]
    """The one that takes the picture is a PictureSpec and says what is left to do."""
    outputs: tuple[TensorSpec, ...]
    requests: int
    """How many threads may be inside at once."""
    profile: Profile
    requested: str
    """The device asked for."""
    running: str
    """The device that runs."""
    precision: str
    """What it computes in: f32, bf16, f16."""
    version: str
    """Of the runtime."""

    def request(self) -> AbstractContextManager[Request]:
        """One that is free; waits for it. BackendError where the backend is closed."""

    def infer(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """``request`` for who has the tensors: one an output, the caller's to keep."""

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
    profile: Profile | None = None
    """`latency` or `throughput`; without it the service chooses by the stations that use the model."""
    requests: Annotated[int, Field(ge=1, le=16)] | None = None
    """How many frames may be in the network at once; without it what the profile needs on the device."""
    threads: Annotated[int, Field(ge=1, le=1024)] | None = None
    """Cores that the runtime may use; without it those that the service may use."""

    def in_profile(self, profile: Profile, *, alone: bool = True) -> Self:  # noqa: ARG002 - a backend's own
        """These, with that profile unless they say one; ``alone``: no other network is at work beside it."""
        return self if self.profile is not None else self.model_copy(update={"profile": profile})

    def open(self, card: ModelCard, blobs: Blobs | None = None) -> Backend:
        """Load and compile, or take what ``blobs`` kept of the last time.

        ModelError: the file cannot be used; BackendError: the device is not there or cannot run it.
        """
        raise NotImplementedError
