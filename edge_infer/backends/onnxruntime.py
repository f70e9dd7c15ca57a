"""ONNX Runtime."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from types import ModuleType
from typing import Any, Literal

import numpy as np

from edge_infer.backends import BackendSettings
from edge_infer.backends.common import (
    first_that_opens,
    network_picture,
    picture_shape,
    reason,
    refuse_misfits,
)
from edge_infer.errors import BackendError, ModelError
from edge_infer.model.card import ModelCard
from edge_infer.tensor import Tensor, TensorSpec

log = logging.getLogger(__name__)

_PROVIDER = "ExecutionProvider"
_NOT_A_DEVICE = "Azure"
_FATAL_ONLY = 4
_DTYPES = {
    "float": "float32", "float16": "float16", "double": "float64", "bool": "bool",
    "int8": "int8", "int16": "int16", "int32": "int32", "int64": "int64",
    "uint8": "uint8", "uint16": "uint16", "uint32": "uint32", "uint64": "uint64",
}  # fmt: skip


class OnnxRuntime(BackendSettings):
    """``backend: {type: onnxruntime, ...}``. Runs .onnx files."""

    type: Literal["onnxruntime"] = "onnxruntime"
    """onnxruntime."""

    def open(self, card: ModelCard) -> OnnxRuntimeBackend:
        """ModelError: the file cannot be used; BackendError: the device is not there."""
        if card.network.suffix.lower() != ".onnx":
            raise ModelError(
                f"ONNX Runtime cannot run {card.network}", hint="use `backend: {type: openvino}` for IR files"
            )
        return first_that_opens(
            (self.device, *self.fallback),
            lambda device: OnnxRuntimeBackend(card, self.device, device, self.requests),
        )


class OnnxRuntimeBackend:
    """One session; ONNX Runtime lets several threads into it."""

    def __init__(self, card: ModelCard, requested: str, device: str, requests: int) -> None:
        try:
            import onnxruntime
        except ImportError as error:
            raise BackendError(
                f"ONNX Runtime cannot be loaded: {error}", hint="pip install onnxruntime"
            ) from error

        self._failures = _failures(onnxruntime)
        provider = provider_of(onnxruntime, device)
        self._session: Any = self._open(onnxruntime, card, provider, requests)
        running = self._session.get_providers()[0]
        if running != provider:
            # it only warns and runs on the CPU
            raise BackendError(
                f"ONNX Runtime would run {card.network} on {running.removesuffix(_PROVIDER)} only",
                hint="see its log for the library that is missing",
            )
        self.requests = requests
        self.requested = requested
        self.running = running.removesuffix(_PROVIDER)
        self.version = f"ONNX Runtime {onnxruntime.__version__}"
        # it has no setting for this: what the network's own tensors are
        ports = (*self._session.get_inputs(), *self._session.get_outputs())
        self.precision = "f16" if any(value.type == "tensor(float16)" for value in ports) else "f32"
        self.inputs: tuple[TensorSpec, ...] = tuple(
            network_picture(card, spec) if spec.name == card.input.name else spec
            for spec in (_spec(value) for value in self._session.get_inputs())
        )
        # decoders are given float32 whatever the network computes in
        self.outputs = tuple(
            TensorSpec(spec.name, spec.shape, "float32") if spec.dtype == "float16" else spec
            for spec in (_spec(value) for value in self._session.get_outputs())
        )

    def infer(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """One tensor an output, the caller's to keep."""
        session = self._session
        if session is None:
            raise BackendError("the ONNX Runtime backend is closed")
        refuse_misfits(self.inputs, tensors)
        try:
            answers = session.run(None, dict(tensors))
        except self._failures as error:
            raise BackendError(f"ONNX Runtime failed on {self.running}: {reason(error)}") from error
        return {
            spec.name: np.asarray(answer, np.float32) if answer.dtype == np.float16 else answer
            for spec, answer in zip(self.outputs, answers, strict=True)
        }

    def close(self) -> None:
        """Safe to call twice."""
        self._session = None

    def _open(self, onnxruntime: ModuleType, card: ModelCard, provider: str, requests: int) -> Any:
        def session(sizes: Mapping[str, int]) -> Any:
            # its own fallback prints on standard output and runs on another device
            return onnxruntime.InferenceSession(
                str(card.network),
                _options(onnxruntime, requests, sizes),
                providers=[provider],
                enable_fallback=0,
            )

        try:
            opened = session({})
        except self._failures as error:
            raise ModelError(
                f"ONNX Runtime {onnxruntime.__version__} cannot use {card.network}: {reason(error)}",
                hint="export it again, or try the other backend",
            ) from error
        sizes = _free_sizes(card, opened)
        if not sizes:
            return opened
        try:
            # with fixed sizes it plans its memory once and folds what depends on them
            return session(sizes)
        except self._failures as error:
            # its shape inference refuses some graphs then that it runs well with free sizes
            log.info("%s runs with free sizes: %s", card.network, reason(error))
            return opened


def provider_of(onnxruntime: ModuleType, device: str) -> str:
    """Its own name for a device; BackendError where it was not built for it."""
    there = [name for name in onnxruntime.get_available_providers() if not name.startswith(_NOT_A_DEVICE)]
    for provider in there:
        if provider.removesuffix(_PROVIDER).lower() == device.lower():
            return str(provider)
    names = ", ".join(provider.removesuffix(_PROVIDER) for provider in there)
    raise BackendError(f"ONNX Runtime has no device {device} here", hint=f"devices on this machine: {names}")


def _options(onnxruntime: ModuleType, requests: int, sizes: Mapping[str, int]) -> Any:
    options = onnxruntime.SessionOptions()
    # Of the cores this process may use: the default counts them all, and floods the log in a container.
    cores = len(os.sched_getaffinity(0))
    options.intra_op_num_threads = max(1, cores // requests)
    options.inter_op_num_threads = 1
    # Failures come as exceptions; written to the log as well, a terminal gets them in colour.
    options.log_severity_level = _FATAL_ONLY
    options.use_deterministic_compute = True
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    # Untrained or pruned weights give denormals, which cost half the speed; only the first session decides.
    options.add_session_config_entry("session.set_denormal_as_zero", "1")
    for symbol, size in sizes.items():
        options.add_free_dimension_override_by_name(symbol, size)
    return options


def _free_sizes(card: ModelCard, session: Any) -> dict[str, int]:
    """Sizes for the symbols in the picture's shape; none where one symbol would need two sizes."""
    sizes: dict[str, int] = {}
    for value in session.get_inputs():
        if value.name != card.input.name:
            continue
        for side, size in zip(value.shape, picture_shape(card, _spec(value)), strict=True):
            if isinstance(side, str) and sizes.setdefault(side, size) != size:
                return {}
    return sizes


def _spec(value: Any) -> TensorSpec:
    kind = value.type.removeprefix("tensor(").removesuffix(")")
    shape = tuple(side if isinstance(side, int) and side > 0 else None for side in value.shape)
    return TensorSpec(value.name, shape, _DTYPES.get(kind, kind))


def _failures(onnxruntime: ModuleType) -> tuple[type[Exception], ...]:
    """Its exceptions have no class of their own in common."""
    state = onnxruntime.capi.onnxruntime_pybind11_state
    own = [kind for kind in vars(state).values() if isinstance(kind, type) and issubclass(kind, Exception)]
    return (*own, RuntimeError, ValueError)
