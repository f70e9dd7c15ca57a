"""Reads an OpenVINO IR (.xml with its .bin): no runtime, no entities, weights are only measured."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from edge_infer.errors import ModelError
from edge_infer.model.network_file import (
    MOVES_VALUES,
    NetworkFile,
    damaged,
    refuse_what_is_no_network,
    sha256,
)
from edge_infer.tensor import TensorSpec

_NEWEST_IR = 11
_FLOATS = {"f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16", "boolean": "bool"}
_INTEGERS = {f"{name[0]}{bits}": f"{name}{bits}" for name in ("int", "uint") for bits in (8, 16, 32, 64)}
# a Parameter says f32, a port FP32
_PORTS = {"fp64": "float64", "fp32": "float32", "fp16": "float16", "bool": "bool"}
_DTYPES = _FLOATS | _INTEGERS | _PORTS


def read_ir(path: Path) -> NetworkFile:
    """Read ``path``; ModelError where it cannot be a network that runs here."""
    root = _parse(path)
    if root.tag != "net":
        raise ModelError(
            f"{path} is XML but not an OpenVINO network: its root is <{root.tag}>",
            hint="name the .xml file that OpenVINO or the exporter wrote",
        )
    version = _integer(path, root.get("version"))
    if version > _NEWEST_IR:
        raise ModelError(
            f"{path} is IR version {version}, this edge-infer knows up to {_NEWEST_IR}",
            hint="convert it again with the OpenVINO installed here, or update edge-infer and its runtimes",
        )
    if version < 10:
        raise ModelError(
            f"{path} is IR version {version}, older than the oldest that OpenVINO still reads (10)",
            hint="convert the original network again",
        )
    layers = root.findall("./layers/layer")
    weights = _weights(path, layers)
    names = _port_names(layers)
    edges = {
        edge.get("to-layer"): (edge.get("from-layer"), edge.get("from-port")) for edge in root.iter("edge")
    }
    results = [layer for layer in layers if layer.get("type") == "Result"]
    outputs = tuple(
        _output(path, index, layer, names.get(edges.get(layer.get("id"), ("", "")), ()))
        for index, layer in enumerate(results)
    )
    info = root.find("./rt_info")
    return NetworkFile(
        path=path,
        format="ir",
        sha256=sha256(path, weights),
        weights=weights,
        written_for=f"OpenVINO IR {version}",
        inputs=tuple(_input(path, layer) for layer in layers if layer.get("type") == "Parameter"),
        outputs=outputs,
        last=MappingProxyType(
            {
                output.name: _last_operation(result, layers, root)
                for output, result in zip(outputs, results, strict=True)
            }
        ),
        exporter=_beside(path) or _entries(info, "framework"),
        model_info=_entries(info, "model_info"),
    )


def _last_operation(result: Element, layers: list[Element], root: Element) -> str:
    by_id = {layer.get("id"): layer for layer in layers}
    # an operation's first input is what it moves around; the others say how
    first = {
        edge.get("to-layer"): edge.get("from-layer")
        for edge in root.iter("edge")
        if edge.get("to-port", "0") == "0"
    }
    layer: Element | None = result
    for _ in layers:
        if layer is None or layer.get("type") not in MOVES_VALUES:
            break
        layer = by_id.get(first.get(layer.get("id")))
    return layer.get("type", "") if layer is not None else ""


def _parse(path: Path) -> Element:
    builder = TreeBuilder()
    parser = expat.ParserCreate()
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.data

    def refuse_doctype(*_: object) -> None:
        # entities can grow a few lines into gigabytes; no exporter writes a DOCTYPE
        raise ModelError(f"{path} has a DOCTYPE, which no OpenVINO network has", hint="export it again")

    parser.StartDoctypeDeclHandler = refuse_doctype
    try:
        with path.open("rb") as file:
            parser.ParseFile(file)
    except expat.ExpatError as error:
        raise damaged(path, "OpenVINO network", str(error)) from error
    except OSError as error:
        raise ModelError(f"cannot read {path}: {error.strerror}") from error
    return builder.close()


def _integer(path: Path, text: str | None) -> int:
    try:
        return int(text or "")
    except ValueError as error:
        raise damaged(path, "OpenVINO network", f"{text!r} where a number belongs") from error


def _weights(path: Path, layers: list[Element]) -> tuple[Path, ...]:
    """The .bin where there must be one; ModelError where it is not there or too short."""
    needs = 0
    for layer in layers:
        data = layer.find("data")
        if layer.get("type") == "Const" and data is not None:
            needs = max(needs, _integer(path, data.get("offset")) + _integer(path, data.get("size")))
    weights = path.with_suffix(".bin")
    if not needs:
        return ()
    if not weights.is_file():
        raise ModelError(
            f"{path} has no weights: {weights.name} is not beside it",
            hint=f"copy {weights.name} into {path.parent}",
        )
    refuse_what_is_no_network(weights)
    size = weights.stat().st_size
    if size < needs:
        raise ModelError(
            f"{path} needs {needs:,} bytes of weights, "
            f"{weights.name} is truncated: its size is {size:,} bytes",
            hint=f"copy {weights.name} again",
        )
    return (weights,)


def _port_names(layers: list[Element]) -> dict[tuple[str | None, str | None], tuple[str, ...]]:
    return {
        (layer.get("id"), port.get("id")): _names(port.get("names"))
        for layer in layers
        for port in layer.iterfind("./output/port")
        if port.get("names")
    }


def _names(text: str | None) -> tuple[str, ...]:
    return tuple(sorted(name for name in (text or "").split(",") if name))


def _input(path: Path, layer: Element) -> TensorSpec:
    data, port = layer.find("data"), layer.find("./output/port")
    if data is None or port is None:
        raise damaged(path, "OpenVINO network", f"the input {layer.get('name')} has no shape")
    shape = tuple(_sizes(data.get("shape", "").split(",")))
    names = _names(port.get("names")) or (layer.get("name", ""),)
    return TensorSpec(names[0], shape, _dtype(data.get("element_type")))


def _output(path: Path, index: int, layer: Element, names: tuple[str, ...]) -> TensorSpec:
    port = layer.find("./input/port")
    if port is None:
        raise damaged(path, "OpenVINO network", f"the output {layer.get('name')} has no shape")
    shape = tuple(_sizes(size.text or "" for size in port.findall("dim")))
    known = _names(layer.get("output_names")) or names
    name = output_name(index, layer.get("name", ""), known)
    return TensorSpec(name, shape, _dtype(port.get("precision")))


def output_name(index: int, result: str, names: Collection[str]) -> str:
    """One name for an output that may have several or none; ``result`` is what its Result layer is called.

    Of several names that is the original one, which the file of another format has too.
    """
    original = result.partition("/sink_port_")[0]
    return original if original in names else min(names, default=f"output{index}")


def _sizes(texts: Iterator[str] | list[str]) -> Iterator[int | None]:
    # a fixed size, else free: "?", "-1", "1..8"
    for text in texts:
        if text.strip():
            yield int(text) if text.strip().isdecimal() else None


def _dtype(text: str | None) -> str:
    return _DTYPES.get((text or "").lower(), text or "unknown")


def _entries(info: Element | None, group: str) -> Mapping[str, str]:
    found = info.find(group) if info is not None else None
    return MappingProxyType({} if found is None else {entry.tag: entry.get("value", "") for entry in found})


def _beside(path: Path) -> Mapping[str, object]:
    """Ultralytics' metadata.yaml, which names labels better than rt_info does."""
    file = path.parent / "metadata.yaml"
    if not file.is_file():
        return MappingProxyType({})
    import yaml

    try:
        # BaseLoader keeps every scalar as its text: a label `no` stays "no"
        found = yaml.load(file.read_text(encoding="utf-8-sig"), Loader=yaml.BaseLoader)  # noqa: S506 - builds text only
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ModelError(
            f"{file} beside the network cannot be read: {' '.join(str(error).split())}",
            hint="export the network again, or remove the file and say what it said in model.yaml",
        ) from error
    return MappingProxyType(found if isinstance(found, dict) else {})
