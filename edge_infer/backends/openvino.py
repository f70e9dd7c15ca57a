"""OpenVINO."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from edge_infer import __version__, cores
from edge_infer.backends import Backend, BackendSettings, Profile
from edge_infer.backends.batching import Batching
from edge_infer.backends.blobs import Blobs
from edge_infer.backends.common import first_that_opens, reason
from edge_infer.backends.npu import compile_apart, obstacles
from edge_infer.backends.openvino_graph import (
    FAILURES,
    folded_picture,
    is_picture,
    read,
    spec_of,
    with_preprocessing,
)
from edge_infer.backends.pool import Pool
from edge_infer.errors import BackendError, ModelError
from edge_infer.model.card import ModelCard
from edge_infer.model.network_file import read_network
from edge_infer.tensor import Canvas, PictureSpec, Tensor, TensorSpec

if TYPE_CHECKING:
    import openvino

log = logging.getLogger(__name__)

_NPU = "NPU"
_SPARE, _MOST_REQUESTS = 2, 16
_VIRTUAL = ("AUTO", "MULTI", "HETERO")
_ABOUT = {"FULL_DEVICE_NAME", "DEVICE_ARCHITECTURE", "OPTIMIZATION_CAPABILITIES", "NPU_DRIVER_VERSION"}


class OpenVino(BackendSettings):
    """``backend: {type: openvino, ...}``. Runs .onnx and .xml files."""

    type: Literal["openvino"] = "openvino"
    """openvino."""
    precision: Literal["f32", "bf16", "f16"] = "f32"
    """What to compute in: f32 answers as every other backend; bf16 and f16 are faster on some devices."""

    batch: Annotated[int, Field(ge=1, le=32)] = 1
    """Pictures that go through the network together; only some GPUs gain from more than 1, `bench` tells."""
    batch_wait_ms: Annotated[float, Field(gt=0, le=1000)] = 5.0
    """How long the first picture of a batch waits for the others."""

    def open(self, card: ModelCard, blobs: Blobs | None = None) -> Backend:
        """See BackendSettings."""
        opened = first_that_opens(
            (self.device, *self.fallback), lambda device: OpenVinoBackend(card, self, device, blobs)
        )
        return opened if self.batch == 1 else Batching(opened, card, self.batch, self.batch_wait_ms / 1000)


class OpenVinoBackend(Pool["_Request"]):
    """One compiled network and a pool of requests.

    Type, layout, colour, scale, mean and std are part of the compiled network; a uint8 picture remains.
    """

    def __init__(self, card: ModelCard, settings: OpenVino, device: str, blobs: Blobs | None) -> None:
        core = the_core()
        refuse_absent(core, device)
        self.profile: Profile = settings.profile or "latency"
        compiled = _compiled(core, card, settings, device.upper(), blobs)
        self.inputs: tuple[TensorSpec, ...] = tuple(
            folded_picture(card, port) if is_picture(card, port) else spec_of(index, port)
            for index, port in enumerate(compiled.inputs)
        )
        self.outputs = tuple(spec_of(index, port) for index, port in enumerate(compiled.outputs))
        self.requested = settings.device
        # (CPU): the helper of a device that could not be compiled for
        running = [str(name).strip("()") for name in compiled.get_property("EXECUTION_DEVICES")]
        self.running = ",".join(running)
        self.version = version()
        self.precision = _precision(compiled)
        if settings.precision == "f32" and self.precision != "f32" and _NPU not in running:
            raise BackendError(
                f"OpenVINO would run {card.network} on {self.running} in {self.precision} instead of f32",
                hint=f"say `precision: {self.precision}` under `backend:` if that is meant",
            )
        if self.precision != settings.precision:
            log.warning(
                "%s was to run in %s, on %s it runs in %s",
                card.network, settings.precision, self.running, self.precision,
            )  # fmt: skip
        self.requests = settings.requests or _requests(compiled, self.profile)
        try:
            requests = [_Request(compiled, self) for _ in range(self.requests)]
        except FAILURES as error:
            # each takes memory of the device
            raise _cannot_run(core, card, device, error) from error
        super().__init__("OpenVINO", requests)


class _Request:
    """One of OpenVINO's, with its own memory: nothing is copied on the way in or out."""

    def __init__(self, compiled: openvino.CompiledModel, backend: OpenVinoBackend) -> None:
        # it keeps the compiled network alive
        self._request = compiled.create_infer_request()
        self._running = backend.running
        self._index = {spec.name: index for index, spec in enumerate(backend.inputs)}
        self._outputs = [spec.name for spec in backend.outputs]
        (picture,) = (spec.name for spec in backend.inputs if isinstance(spec, PictureSpec))
        self.picture = Canvas(self._request.get_input_tensor(self._index[picture]).data)

    def infer(self, others: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """See Request."""
        request = self._request
        try:
            given = {self._index[name]: one for name, one in others.items()}
            # what it returns is not looked at, but unless shared it would be a copy of every output
            request.infer(given, share_inputs=True, share_outputs=True)
            return {name: request.get_output_tensor(index).data for index, name in enumerate(self._outputs)}
        except FAILURES as error:
            raise BackendError(f"OpenVINO failed on {self._running}: {reason(error)}") from error


@cache
def the_core() -> openvino.Core:
    """One for the process: it holds the plug-ins and what is set for a device, behind AUTO too."""
    try:
        import openvino
    except ImportError as error:
        raise BackendError(f"OpenVINO cannot be loaded: {error}", hint="pip install openvino") from error

    core = openvino.Core()
    # A weights file that is replaced in place must not change under a running network.
    core.set_property({"ENABLE_MMAP": False})
    if "CPU" in core.available_devices:
        # Pinning puts the threads of every network on the same first cores.
        core.set_property("CPU", {"ENABLE_CPU_PINNING": False})
    return core


def compile_as_stored(card: ModelCard, settings: OpenVino) -> openvino.CompiledModel:
    """The network as its file has it, in the profile and for the batch of the settings; its sizes are fixed.

    ModelError where the file cannot be used, BackendError where OpenVINO or the device is not there.
    """
    core = the_core()
    refuse_absent(core, settings.device)
    network = read(core, card, settings.batch)
    return _compile(core, card, network, settings.device.upper(), _hints(settings, settings.device))


def npu_obstacles(card: ModelCard) -> tuple[str, ...]:
    """Why the card's network could not run on an NPU, here or elsewhere; nothing: it could.

    ModelError where the file cannot be used, BackendError where OpenVINO is not there.
    """
    return obstacles(network_as_compiled(card))


def network_as_compiled(card: ModelCard) -> openvino.Model:
    """The very graph that a device's compiler is given: every size fixed, uint8 NHWC pictures in.

    ModelError where the file cannot be used, BackendError where OpenVINO is not there.
    """
    return with_preprocessing(the_core(), card)


def _compiled(
    core: openvino.Core, card: ModelCard, settings: OpenVino, device: str, blobs: Blobs | None
) -> openvino.CompiledModel:
    """As it was kept by an earlier start with all the same, else compiled now."""
    hints, batch = _hints(settings, device), settings.batch
    key = None if blobs is None else _key(core, card, device, {**hints, "batch": str(batch)})
    if blobs is None or key is None:
        return _compile(core, card, with_preprocessing(core, card, batch), device, hints)
    if (blob := blobs.get(key)) is not None:
        try:
            return core.import_model(blob, device, hints)
        except FAILURES as error:
            log.warning("%s: its kept blob is of no use: %s; compiling it", card.network, reason(error))
            blobs.drop(key)
    compiled = _compile(core, card, with_preprocessing(core, card, batch), device, hints)
    if not _is_as_read(card):
        # kept, it would be taken for the one before whenever that comes back
        log.warning("%s was replaced since it was read: it is not kept compiled", card.network)
        return compiled
    try:
        blobs.put(key, compiled.export_model().getvalue())
    except FAILURES as error:
        log.warning("%s cannot be kept compiled: %s", card.network, reason(error))
    return compiled


def _is_as_read(card: ModelCard) -> bool:
    try:
        return read_network(card.network).sha256 == card.sha256
    except ModelError:
        return False


def _key(core: openvino.Core, card: ModelCard, device: str, how: Mapping[str, str]) -> dict[str, str] | None:
    """All that a blob depends on; None for devices whose compiled networks cannot be kept."""
    if device.partition(":")[0] in _VIRTUAL:
        return None
    try:
        if "EXPORT_IMPORT" not in core.get_property(device, "OPTIMIZATION_CAPABILITIES"):
            return None
        # the first are those that the runtime would tell blobs apart by: of a GPU its driver is among them
        about = {
            *core.get_property(device, "CACHING_PROPERTIES"),
            *_ABOUT.intersection(core.get_property(device, "SUPPORTED_PROPERTIES")),
        }
        told = {name: str(core.get_property(device, name)) for name in about}
    except FAILURES as error:
        log.warning("networks for %s cannot be kept compiled: %s", device, reason(error))
        return None
    import openvino

    return {
        # it folds preprocessing in
        "edge-infer": __version__,
        "model": card.sha256,
        "input": repr(card.input),
        # with its build
        "runtime": str(openvino.__version__),
        "device": device,
        **told,
        **how,
    }


def _compile(
    core: openvino.Core, card: ModelCard, network: openvino.Model, device: str, hints: Mapping[str, str]
) -> openvino.CompiledModel:
    try:
        accelerator = _npu_of(core, device)
        if accelerator is None:
            return core.compile_model(network, device, hints)
        if why := obstacles(network):
            raise BackendError(f"{card.network} cannot run on {accelerator}: {'; '.join(why)}")
        compiled = compile_apart(core, network, accelerator, hints)
        # a virtual device compiles again by itself, now that it is known to survive
        return compiled if device == accelerator else core.compile_model(network, device, hints)
    except FAILURES as error:
        raise _cannot_run(core, card, device, error) from error


def _cannot_run(core: openvino.Core, card: ModelCard, device: str, error: Exception) -> BackendError:
    return BackendError(
        f"OpenVINO cannot run {card.network} on {device}: {reason(error)}",
        hint=f"devices on this machine: {', '.join(core.available_devices)}",
    )


def _npu_of(core: openvino.Core, device: str) -> str | None:
    """The NPU that a device may compile for."""
    kind, _, named = device.partition(":")
    names = named.split(",") if named else core.available_devices if kind == "AUTO" else [device]
    plain = [name.partition("(")[0].strip() for name in names]
    return next((name for name in plain if name.partition(".")[0] == _NPU), None)


def version() -> str:
    """Of the runtime, with its name."""
    import openvino

    # 2026.4.1-22982-...: the rest names a build
    return f"OpenVINO {str(openvino.__version__).partition('-')[0]}"


def _hints(settings: OpenVino, device: str) -> dict[str, str]:
    hints = {"PERFORMANCE_HINT": (settings.profile or "latency").upper()}
    kind = device.upper().partition(".")[0]
    if kind != _NPU:
        # some CPUs and every GPU take fewer bits by themselves, and the same frame would give another
        # answer; an NPU has f16 only
        hints["INFERENCE_PRECISION_HINT"] = settings.precision
    # by itself it knows the cores of the affinity, and which of them are fast; it knows no quota
    threads = settings.threads or (cores.usable() if cores.usable() < cores.allowed() else None)
    if kind == "CPU" and threads is not None:
        hints["INFERENCE_NUM_THREADS"] = str(threads)
    return hints


def _requests(compiled: openvino.CompiledModel, profile: Profile) -> int:
    """While the device is busy with as many as it takes at once, others are filled and read."""
    if profile == "latency":
        return 1
    return min(_MOST_REQUESTS, int(compiled.get_property("OPTIMAL_NUMBER_OF_INFER_REQUESTS")) + _SPARE)


def _precision(compiled: openvino.CompiledModel) -> str:
    """What it computes in, in OpenVINO's words (f32, bf16, f16); of several devices all of them."""
    key = "INFERENCE_PRECISION_HINT"
    if key in compiled.get_property("SUPPORTED_PROPERTIES"):
        types = [compiled.get_property(key)]
    else:
        # AUTO, MULTI and HETERO tell it of each device
        devices = compiled.get_property("DEVICE_PROPERTIES").values()
        types = [properties[key] for properties in devices if key in properties]
    return ",".join(sorted({str(one.get_type_name()) for one in types})) or "unknown"


def refuse_absent(core: openvino.Core, device: str) -> None:
    """BackendError where a device that is named is not there: AUTO:NPU,CPU would silently run on the CPU."""
    kind, _, named = device.upper().partition(":")
    names = [device.upper()]
    if kind in _VIRTUAL:
        names = [name.partition("(")[0].strip() for name in named.split(",")] if named else []
    there = [name.upper() for name in core.available_devices]
    absent = [name for name in names if not _is_there(name, there)]
    if absent:
        raise BackendError(
            f"OpenVINO has no device {', '.join(absent) if named else device} here",
            hint=f"devices on this machine: {', '.join(core.available_devices)}",
        )


def _is_there(name: str, there: list[str]) -> bool:
    # GPU stands for GPU.0; GPU.1 is another one
    return any(name == device or device.startswith(f"{name}.") for device in there) or (
        name.endswith(".0") and name.removesuffix(".0") in there
    )
