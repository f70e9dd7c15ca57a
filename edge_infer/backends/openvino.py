"""OpenVINO."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from edge_infer.backends import BackendSettings
from edge_infer.backends.common import (
    first_that_opens,
    network_picture,
    picture_shape,
    reason,
    refuse_misfits,
)
from edge_infer.backends.npu import compile_apart, obstacles
from edge_infer.errors import BackendError, ModelError
from edge_infer.model.card import ModelCard
from edge_infer.model.ir_file import output_name
from edge_infer.tensor import PictureSpec, Tensor, TensorSpec

if TYPE_CHECKING:
    import openvino

log = logging.getLogger(__name__)

_NPU = "NPU"
_VIRTUAL = ("AUTO", "MULTI", "HETERO")
# a message that is not UTF-8 (a damaged name in the file) becomes a ValueError
_FAILURES = (RuntimeError, ValueError)
_UNTOUCHED = (1.0, (0.0, 0.0, 0.0), (1.0, 1.0, 1.0))


class OpenVino(BackendSettings):
    """``backend: {type: openvino, ...}``. Runs .onnx and .xml files."""

    type: Literal["openvino"] = "openvino"
    """openvino."""
    precision: Literal["f32", "bf16", "f16"] = "f32"
    """What to compute in: f32 answers as every other backend; bf16 and f16 are faster on some devices."""

    def open(self, card: ModelCard) -> OpenVinoBackend:
        """ModelError: the file cannot be used; BackendError: the device is not there or cannot run it."""
        return first_that_opens(
            (self.device, *self.fallback),
            lambda device: OpenVinoBackend(card, self.device, device, self.requests, self.precision),
        )


class OpenVinoBackend:
    """One compiled network and a pool of requests.

    Type, layout, colour, scale, mean and std are part of the compiled network; a uint8 picture remains.
    """

    def __init__(
        self, card: ModelCard, requested: str, device: str, requests: int, precision: str = "f32"
    ) -> None:
        core = _core()
        refuse_absent(core, device)
        network, picture = _as_compiled(core, card)
        compiled = _compile(core, card, network, device.upper(), _hints(device, precision))
        self.inputs: tuple[TensorSpec, ...] = tuple(
            picture if _is_picture(card, port) else _spec(index, port)
            for index, port in enumerate(compiled.inputs)
        )
        self.outputs = tuple(_spec(index, port) for index, port in enumerate(compiled.outputs))
        self.requests = requests
        self.requested = requested
        # (CPU): the helper of a device that could not be compiled for
        running = [str(name).strip("()") for name in compiled.get_property("EXECUTION_DEVICES")]
        self.running = ",".join(running)
        self.version = f"OpenVINO {_version()}"
        self.precision = _precision(compiled)
        if precision == "f32" and self.precision != "f32" and _NPU not in running:
            raise BackendError(
                f"OpenVINO would run {card.network} on {self.running} in {self.precision} instead of f32",
                hint=f"say `precision: {self.precision}` under `backend:` if that is meant",
            )
        if self.precision != precision:
            log.warning(
                "%s was to run in %s, on %s it runs in %s",
                card.network, precision, self.running, self.precision,
            )  # fmt: skip
        self._closed = False
        # requests keep the compiled network alive; None: closed
        self._free: SimpleQueue[Any] = SimpleQueue()
        for _ in range(requests):
            self._free.put(compiled.create_infer_request())

    def infer(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """One tensor an output, the caller's to keep."""
        refuse_misfits(self.inputs, tensors)
        with self._request() as request:
            try:
                # share_outputs would give views that the next picture overwrites
                answers = request.infer(
                    [tensors[spec.name] for spec in self.inputs], share_inputs=True, share_outputs=False
                )
            except _FAILURES as error:
                raise BackendError(f"OpenVINO failed on {self.running}: {reason(error)}") from error
            return {spec.name: answers[index] for index, spec in enumerate(self.outputs)}

    def close(self) -> None:
        """Safe to call twice."""
        self._closed = True
        while not self._free.empty():
            self._free.get()
        self._free.put(None)

    @contextmanager
    def _request(self) -> Iterator[Any]:
        request = self._free.get()
        if request is None:
            self._free.put(None)
            raise BackendError("the OpenVINO backend is closed")
        try:
            yield request
        finally:
            if not self._closed:
                self._free.put(request)


@cache
def _core() -> openvino.Core:
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


def npu_obstacles(card: ModelCard) -> tuple[str, ...]:
    """Why the card's network could not run on an NPU, here or elsewhere; nothing: it could.

    ModelError where the file cannot be used, BackendError where OpenVINO is not there.
    """
    return obstacles(network_as_compiled(card))


def network_as_compiled(card: ModelCard) -> openvino.Model:
    """The very graph that a device's compiler is given: every size fixed, uint8 NHWC pictures in.

    ModelError where the file cannot be used, BackendError where OpenVINO is not there.
    """
    return _as_compiled(_core(), card)[0]


def _as_compiled(core: openvino.Core, card: ModelCard) -> tuple[openvino.Model, PictureSpec]:
    network = _read(core, card)
    return network, _fold_preprocessing(card, network)


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
    except _FAILURES as error:
        raise BackendError(
            f"OpenVINO cannot run {card.network} on {device}: {reason(error)}",
            hint=f"devices on this machine: {', '.join(core.available_devices)}",
        ) from error


def _npu_of(core: openvino.Core, device: str) -> str | None:
    """The NPU that a device may compile for."""
    kind, _, named = device.partition(":")
    names = named.split(",") if named else core.available_devices if kind == "AUTO" else [device]
    plain = [name.partition("(")[0].strip() for name in names]
    return next((name for name in plain if name.partition(".")[0] == _NPU), None)


def _version() -> str:
    import openvino

    # 2026.4.1-22982-...: the rest names a build
    return str(openvino.__version__).partition("-")[0]


def _hints(device: str, precision: str) -> dict[str, str]:
    hints = {"PERFORMANCE_HINT": "LATENCY"}
    if device.upper().partition(".")[0] != _NPU:
        # some CPUs and every GPU take fewer bits by themselves, and the same frame would give another
        # answer; an NPU has f16 only
        hints["INFERENCE_PRECISION_HINT"] = precision
    return hints


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


def _read(core: openvino.Core, card: ModelCard) -> openvino.Model:
    """With every size fixed: no runtime folds a free one, and an accelerator takes none."""
    from openvino import PartialShape

    try:
        network = core.read_model(card.network)
        port = _picture_port(card, network)
        shape = picture_shape(card, _spec(0, port))
        if port.partial_shape != PartialShape(list(shape)):
            network.reshape({port: PartialShape(list(shape)), **_one_of_each(card, network)})
    except _FAILURES as error:
        raise ModelError(
            f"OpenVINO cannot use {card.network}: {reason(error)}",
            hint="export it again, or try the other backend",
        ) from error
    return network


def _one_of_each(card: ModelCard, network: openvino.Model) -> dict[Any, Any]:
    """The inputs beside the picture for a batch of one."""
    from openvino import PartialShape

    others = [port for port in network.inputs if not _is_picture(card, port)]
    return {
        port: PartialShape([1, *list(port.partial_shape)[1:]])
        for port in others
        if len(port.partial_shape) and port.partial_shape[0].is_dynamic
    }


def _picture_port(card: ModelCard, network: openvino.Model) -> Any:
    for port in network.inputs:
        if _is_picture(card, port):
            return port
    raise ModelError(f"OpenVINO finds no input {card.input.name} in {card.network}")


def _is_picture(card: ModelCard, port: Any) -> bool:
    return card.input.name in (port.get_names() or {port.node.friendly_name})


def _fold_preprocessing(card: ModelCard, network: openvino.Model) -> PictureSpec:
    """Make the network take uint8 NHWC, BGR unless it is grey; say what remains."""
    gray = card.input.color == "gray"
    try:
        left = _build_preprocessing(card, network)
    except _FAILURES as error:
        raise ModelError(f"OpenVINO cannot take pictures for {card.network}: {reason(error)}") from error
    channels = 1 if gray else 3
    scale, mean, std = _UNTOUCHED
    return PictureSpec(
        name=card.input.name,
        shape=(left.shape[0], left.height, left.width, channels),
        dtype="uint8",
        layout="nhwc",
        height=left.height,
        width=left.width,
        color="gray" if gray else "bgr",
        scale=scale,
        mean=mean[:channels],
        std=std[:channels],
    )


def _build_preprocessing(card: ModelCard, network: openvino.Model) -> PictureSpec:
    """Change the network; what it took before comes back."""
    from openvino import Layout, Type
    from openvino.preprocess import ColorFormat, PrePostProcessor

    port = _picture_port(card, network)
    taken = network_picture(card, _spec(0, port))
    processor = PrePostProcessor(network)
    picture = processor.input(network.inputs.index(port))
    picture.tensor().set_element_type(Type.u8).set_layout(Layout("NHWC"))
    picture.model().set_layout(Layout(card.input.layout.upper()))
    steps = picture.preprocess()
    if card.input.color != "gray":
        picture.tensor().set_color_format(ColorFormat.BGR)
    if card.input.color == "rgb":
        steps.convert_color(ColorFormat.RGB)
    if port.element_type != Type.u8:
        steps.convert_element_type(Type.f32)
        steps.scale(card.input.scale)
        steps.mean(list(card.input.mean)).scale(list(card.input.std))
        steps.convert_element_type(port.element_type)
    for index, output in enumerate(network.outputs):
        if output.element_type == Type.f16:
            # decoders are given float32 whatever the network computes in
            processor.output(index).tensor().set_element_type(Type.f32)
    processor.build()
    return taken


def _spec(index: int, port: Any) -> TensorSpec:
    shape = tuple(side.get_length() if side.is_static else None for side in port.partial_shape)
    name = output_name(index, port.node.friendly_name, port.get_names())
    return TensorSpec(name, shape, np.dtype(port.element_type.to_dtype()).name)
