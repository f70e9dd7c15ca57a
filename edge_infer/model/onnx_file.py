"""Reads an .onnx file with the ``onnx`` package: no runtime, weights in other files are not loaded."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from edge_infer.errors import ModelError
from edge_infer.model.network_file import (
    MOVES_VALUES,
    NetworkFile,
    damaged,
    refuse_what_is_no_network,
    sha256,
)
from edge_infer.tensor import TensorSpec

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, TensorProto, ValueInfoProto

# Model API's path of keys, written with spaces
_MODEL_INFO = "model_info "
_ONNX_DOMAINS = ("", "ai.onnx")


def read_onnx(path: Path) -> NetworkFile:
    """Read ``path``; ModelError where it cannot be a network that runs here."""
    from google.protobuf.message import DecodeError

    try:
        return _read(path)
    except DecodeError as error:
        raise damaged(path, "ONNX file", "it cannot be parsed") from error
    except OSError as error:
        raise ModelError(f"cannot read {path}: {error.strerror}") from error


def _read(path: Path) -> NetworkFile:
    import onnx

    model = onnx.load_model(path, load_external_data=False)
    if not model.graph.node or not model.graph.output:
        raise ModelError(
            f"{path} holds no network: {len(model.graph.node)} operations, "
            f"{len(model.graph.output)} outputs ({path.stat().st_size:,} bytes)",
            hint="export it again",
        )
    _refuse_damaged_texts(path, model)
    opset = _opset(model)
    _refuse_newer(path, "opset", opset, onnx.defs.onnx_opset_version())
    _refuse_newer(path, "ONNX IR version", model.ir_version, onnx.IR_VERSION)
    weights = _companions(path, model)
    if not all(_has_shape(value) for value in model.graph.output):
        try:
            model = onnx.shape_inference.infer_shapes(model)
        except onnx.shape_inference.InferenceError as error:
            raise damaged(path, "ONNX file", "its shapes contradict each other") from error
    constants = {tensor.name for tensor in model.graph.initializer}
    return NetworkFile(
        path=path,
        format="onnx",
        sha256=sha256(path, weights),
        weights=tuple(weights),
        written_for=f"ONNX opset {opset}",
        inputs=tuple(_spec(path, value) for value in model.graph.input if value.name not in constants),
        outputs=tuple(_spec(path, value) for value in model.graph.output),
        last=MappingProxyType(_last_operations(model.graph)),
        exporter=MappingProxyType({entry.key: entry.value for entry in model.metadata_props}),
        model_info=MappingProxyType(
            {
                entry.key.removeprefix(_MODEL_INFO): entry.value
                for entry in model.metadata_props
                if entry.key.startswith(_MODEL_INFO)
            }
        ),
    )


def _last_operations(graph: GraphProto) -> dict[str, str]:
    made_by = {name: node for node in graph.node for name in node.output}
    last = {}
    for output in graph.output:
        node = made_by.get(output.name)
        while node is not None and node.op_type in MOVES_VALUES and node.input:
            node = made_by.get(node.input[0])
        if node is not None:
            last[output.name] = node.op_type
    return last


def _refuse_damaged_texts(path: Path, model: ModelProto) -> None:
    names: list[object] = [value.name for value in (*model.graph.input, *model.graph.output)]
    texts = [text for entry in model.metadata_props for text in (entry.key, entry.value)]
    entries = [entry for tensor in _tensors(model.graph) for entry in tensor.external_data]
    names += [text for entry in entries for text in (entry.key, entry.value)]
    # protobuf gives bytes for what is not UTF-8
    if not all(isinstance(name, str) and name.isprintable() for name in names) or not all(
        isinstance(text, str) for text in texts
    ):
        raise damaged(path, "ONNX file", "a name in it is not text")


def _opset(model: ModelProto) -> int:
    return max((entry.version for entry in model.opset_import if entry.domain in _ONNX_DOMAINS), default=1)


def _has_shape(value: ValueInfoProto) -> bool:
    return value.type.tensor_type.HasField("shape") and value.type.tensor_type.elem_type != 0


def _refuse_newer(path: Path, what: str, wants: int, known: int) -> None:
    if wants > known:
        raise ModelError(
            f"{path} needs {what} {wants}, this edge-infer knows up to {known}",
            hint=f"export it again with {what} {known} or lower, or update edge-infer and its runtimes",
        )


def _spec(path: Path, value: ValueInfoProto) -> TensorSpec:
    import onnx

    if value.type.WhichOneof("value") != "tensor_type":
        raise ModelError(
            f"{path}: {value.name} is not a tensor but a {value.type.WhichOneof('value') or 'nothing'}",
            hint="export the network without a sequence or map (scikit-learn: zipmap=False)",
        )
    tensor = value.type.tensor_type
    try:
        dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type).name
    except KeyError as error:
        raise damaged(path, "ONNX file", f"{value.name} has no known type") from error
    # a size of 0 is how some exporters write a free one
    shape = tuple(size.dim_value or None for size in tensor.shape.dim)
    return TensorSpec(value.name, shape, dtype)


def _companions(path: Path, model: ModelProto) -> list[Path]:
    """The other files that hold weights, by name; ModelError where one is not there or too short."""
    from onnx import TensorProto

    needs: dict[str, int] = {}
    for tensor in _tensors(model.graph):
        if tensor.data_location != TensorProto.EXTERNAL:
            continue
        entries = {entry.key: entry.value for entry in tensor.external_data}
        location = entries.get("location", "")
        try:
            end = int(entries.get("offset", 0)) + int(entries.get("length", 0))
        except ValueError as error:
            raise damaged(path, "ONNX file", f"its external weights {location} have no numbers") from error
        needs[location] = max(needs.get(location, 0), end)
    folder = path.parent.resolve()
    companions = []
    for location, length in sorted(needs.items()):
        companion = (folder / location).resolve()
        if not location or not companion.is_relative_to(folder):
            raise ModelError(
                f"{path} keeps its weights in {location!r}, outside its own folder",
                hint="export it again with the weights beside it",
            )
        _check_companion(path, companion, location, length)
        companions.append(companion)
    return companions


def _check_companion(path: Path, companion: Path, location: str, length: int) -> None:
    if not companion.is_file():
        raise ModelError(
            f"{path} keeps its external weights in {location}, which is not beside it",
            hint=f"copy {location} into {path.parent}, or export the network as one file",
        )
    refuse_what_is_no_network(companion)
    size = companion.stat().st_size
    if size < length:
        raise ModelError(
            f"{path} needs {length:,} bytes of external weights in {location}, "
            f"which is truncated: its size is {size:,} bytes",
            hint=f"copy {location} again",
        )


def _tensors(graph: GraphProto) -> Iterator[TensorProto]:
    """Every constant of a graph and of the graphs inside its If and Loop."""
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
            if attribute.HasField("g"):
                yield from _tensors(attribute.g)
            for inner in attribute.graphs:
                yield from _tensors(inner)
