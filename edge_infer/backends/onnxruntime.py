"""ONNX Runtime."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from types import ModuleType
from typing import Any, Literal, Self

import numpy as np

from edge_infer import cores
from edge_infer.backends import BackendSettings, Profile
from edge_infer.backends.blobs import Blobs
from edge_infer.backends.common import (
    first_that_opens,
    network_picture,
    picture_shape,
    reason,
)
from edge_infer.backends.pool import Pool
from edge_infer.errors import BackendError, ModelError
from edge_infer.model.card import ModelCard
from edge_infer.tensor import Canvas, PictureSpec, Tensor, TensorSpec

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

    spinning: bool | None = None
    """Its threads wait for each other at full speed; without it for one frame at a time of the only model."""

    def in_profile(self, profile: Profile, *, alone: bool = True) -> Self:
        """See BackendSettings."""
        chosen = super().in_profile(profile)
        # they would spin in the latency profile only; what does not matter must not differ
        if alone or chosen.profile != "latency" or chosen.spinning is not None:
            return chosen
        return chosen.model_copy(update={"spinning": False})

    def open(self, card: ModelCard, blobs: Blobs | None = None) -> OnnxRuntimeBackend:  # noqa: ARG002 - it starts in 50 ms
        """See BackendSettings."""
        if card.network.suffix.lower() != ".onnx":
            raise ModelError(
                f"ONNX Runtime cannot run {card.network}", hint="use `backend: {type: openvino}` for IR files"
            )
        return first_that_opens(
            (self.device, *self.fallback),
            lambda device: OnnxRuntimeBackend(card, self, device),
        )


class OnnxRuntimeBackend(Pool["_Request"]):
    """One session; ONNX Runtime lets several threads into it."""

    def __init__(self, card: ModelCard, settings: OnnxRuntime, device: str) -> None:
        self.profile: Profile = settings.profile or "latency"
        threads = settings.threads or cores.usable()
        # in its own thread each caller computes alone, which wastes nothing
        self.requests = settings.requests or (threads if self.profile == "throughput" else 1)
        spinning = self.requests == 1 if settings.spinning is None else settings.spinning
        session = open_session(card, device, max(1, threads // self.requests), spinning=spinning)
        self.failures = failures()
        self.requested = settings.device
        self.running = session.get_providers()[0].removesuffix(_PROVIDER)
        self.version = version()
        # it has no setting for this: what the network's own tensors are
        ports = (*session.get_inputs(), *session.get_outputs())
        self.precision = "f16" if any(value.type == "tensor(float16)" for value in ports) else "f32"
        self.inputs: tuple[TensorSpec, ...] = tuple(
            network_picture(card, spec) if spec.name == card.input.name else spec
            for spec in (spec_of(value) for value in session.get_inputs())
        )
        # decoders are given float32 whatever the network computes in
        self.outputs = tuple(
            TensorSpec(spec.name, spec.shape, "float32") if spec.dtype == "float16" else spec
            for spec in (spec_of(value) for value in session.get_outputs())
        )
        super().__init__("ONNX Runtime", (_Request(session, self) for _ in range(self.requests)))


class _Request:
    """Memory for the picture, filled again and again; the answers are new arrays each time."""

    def __init__(self, session: Any, backend: OnnxRuntimeBackend) -> None:
        self._session, self._backend = session, backend
        (spec,) = (one for one in backend.inputs if isinstance(one, PictureSpec))
        self.picture = Canvas(np.zeros([side or 1 for side in spec.shape], spec.dtype))
        self._name = spec.name

    def infer(self, others: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """See Request."""
        try:
            answers = self._session.run(None, {self._name: self.picture.tensor, **others})
        except self._backend.failures as error:
            raise BackendError(f"ONNX Runtime failed on {self._backend.running}: {reason(error)}") from error
        return {
            spec.name: np.asarray(answer, np.float32) if answer.dtype == np.float16 else answer
            for spec, answer in zip(self._backend.outputs, answers, strict=True)
        }


def open_session(card: ModelCard, device: str, threads: int, *, spinning: bool = False) -> Any:
    """An InferenceSession with every size fixed that its graph lets fix.

    ``spinning``: its threads wait for each other at full speed. ModelError: the file cannot be used;
    BackendError: the device is not there.
    """
    try:
        import onnxruntime
    except ImportError as error:
        raise BackendError(
            f"ONNX Runtime cannot be loaded: {error}", hint="pip install onnxruntime"
        ) from error

    provider = provider_of(onnxruntime, device)
    try:
        session = _session(onnxruntime, card, provider, threads, spinning=spinning)
    except failures() as error:
        raise ModelError(
            f"ONNX Runtime {onnxruntime.__version__} cannot use {card.network}: {reason(error)}",
            hint="export it again, or try the other backend",
        ) from error
    running = session.get_providers()[0]
    if running != provider:
        # it only warns and runs on the CPU
        raise BackendError(
            f"ONNX Runtime would run {card.network} on {running.removesuffix(_PROVIDER)} only",
            hint="see its log for the library that is missing",
        )
    return session


def version() -> str:
    """Of the runtime, with its name."""
    import onnxruntime

    return f"ONNX Runtime {onnxruntime.__version__}"


def _session(onnxruntime: ModuleType, card: ModelCard, provider: str, threads: int, *, spinning: bool) -> Any:
    def opened(sizes: Mapping[str, int]) -> Any:
        # its own fallback prints on standard output and runs on another device
        options = _options(onnxruntime, threads, sizes, spinning=spinning)
        return onnxruntime.InferenceSession(
            str(card.network), options, providers=[provider], enable_fallback=0
        )

    free = opened({})
    sizes = _free_sizes(card, free)
    if not sizes:
        return free
    try:
        # with fixed sizes it plans its memory once and folds what depends on them
        return opened(sizes)
    except failures() as error:
        # its shape inference refuses some graphs then that it runs well with free sizes
        log.info("%s runs with free sizes: %s", card.network, reason(error))
        return free


def provider_of(onnxruntime: ModuleType, device: str) -> str:
    """Its own name for a device; BackendError where it was not built for it."""
    there = devices_of(onnxruntime)
    for name in there:
        if name.lower() == device.lower():
            return f"{name}{_PROVIDER}"
    raise BackendError(
        f"ONNX Runtime has no device {device} here", hint=f"devices on this machine: {', '.join(there)}"
    )


def devices_of(onnxruntime: ModuleType) -> tuple[str, ...]:
    """As ``device:`` names them."""
    names = [str(name) for name in onnxruntime.get_available_providers()]
    return tuple(name.removesuffix(_PROVIDER) for name in names if not name.startswith(_NOT_A_DEVICE))


def _options(onnxruntime: ModuleType, threads: int, sizes: Mapping[str, int], *, spinning: bool) -> Any:
    options = onnxruntime.SessionOptions()
    # its default counts all cores, and floods the log in a container that may use some
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    # Failures come as exceptions; written to the log as well, a terminal gets them in colour.
    options.log_severity_level = _FATAL_ONLY
    options.use_deterministic_compute = True
    options.add_session_config_entry("session.intra_op.allow_spinning", "1" if spinning else "0")
    # while a frame is in it only; between frames the cores belong to others
    options.add_session_config_entry("session.force_spinning_stop", "1")
    # shares of falling size: a thread that was kept waiting holds up the others less
    options.add_session_config_entry("session.dynamic_block_base", "4")
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
        for side, size in zip(value.shape, picture_shape(card, spec_of(value)), strict=True):
            if isinstance(side, str) and sizes.setdefault(side, size) != size:
                return {}
    return sizes


def spec_of(value: Any) -> TensorSpec:
    """What an input or output of a session takes or gives."""
    kind = value.type.removeprefix("tensor(").removesuffix(")")
    shape = tuple(side if isinstance(side, int) and side > 0 else None for side in value.shape)
    return TensorSpec(value.name, shape, _DTYPES.get(kind, kind))


def failures() -> tuple[type[Exception], ...]:
    """What it raises: they have no class of their own in common."""
    import onnxruntime

    state = onnxruntime.capi.onnxruntime_pybind11_state
    own = [kind for kind in vars(state).values() if isinstance(kind, type) and issubclass(kind, Exception)]
    return (*own, RuntimeError, ValueError)
