"""Small networks made by hand, and cards for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from edge_infer.model.card import InputCard, ModelCard
from edge_infer.model.network_file import sha256

Side = int | str
_TYPES = {"float32": TensorProto.FLOAT, "float16": TensorProto.FLOAT16, "uint8": TensorProto.UINT8}


def echo(path: Path, shape: Sequence[Side], dtype: str = "float32", *, twice: float = 1.0) -> Path:
    """A network that answers ``echo``: its picture times ``twice``."""
    kind = _TYPES[dtype]
    factor = numpy_helper.from_array(np.array(twice, dtype), "factor")
    nodes = [helper.make_node("Mul", ["picture", "factor"], ["echo"])]
    inputs = [helper.make_tensor_value_info("picture", kind, list(shape))]
    outputs = [helper.make_tensor_value_info("echo", kind, list(shape))]
    return _save(path, helper.make_graph(nodes, "test", inputs, outputs, [factor]))


def rows(
    path: Path,
    answer: NDArray[Any],
    shape: Sequence[Side] = (1, 3, 64, 64),
    *,
    name: str = "output0",
    metadata: dict[str, str] | None = None,
    inputs: Sequence[tuple[str, str, Sequence[Side]]] = (),
) -> Path:
    """A network that answers ``answer`` whatever the picture is; ``inputs``: others it asks for."""
    nodes = [
        helper.make_node("ReduceMax", ["picture"], ["highest"], keepdims=0),
        helper.make_node("Mul", ["highest", "nothing"], ["zero"]),
        helper.make_node("Add", ["answer", "zero"], [name]),
    ]
    constants = [
        numpy_helper.from_array(np.asarray(answer, np.float32), "answer"),
        numpy_helper.from_array(np.array(0, np.float32), "nothing"),
    ]
    asked = [("picture", "float32", shape), *inputs]
    takes = [helper.make_tensor_value_info(each, _TYPES[dtype], list(sides)) for each, dtype, sides in asked]
    gives = [helper.make_tensor_value_info(name, TensorProto.FLOAT, list(answer.shape))]
    return _save(path, helper.make_graph(nodes, "test", takes, gives, constants), metadata)


def shaped(
    path: Path,
    outputs: Mapping[str, Sequence[Side]],
    picture: Sequence[Side] = (1, 3, 640, 640),
    *,
    metadata: dict[str, str] | None = None,
    dtype: str = "float32",
) -> Path:
    """A file that promises such outputs; it can be read, not run."""
    nodes = [helper.make_node("Identity", ["picture"], [name]) for name in outputs]
    takes = [helper.make_tensor_value_info("picture", _TYPES[dtype], list(picture))]
    gives = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, list(shape)) for name, shape in outputs.items()
    ]
    return _save(path, helper.make_graph(nodes, "test", takes, gives), metadata)


def ultralytics(labels: Sequence[str], **more: str) -> dict[str, str]:
    """What Ultralytics writes into an ONNX file."""
    return {
        "stride": "32",
        "task": "detect",
        "imgsz": "[640, 640]",
        "names": repr(dict(enumerate(labels))),
        **more,
    }


def _save(path: Path, graph: onnx.GraphProto, metadata: dict[str, str] | None = None) -> Path:
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    helper.set_model_props(model, metadata or {})
    onnx.save(model, path)
    return path


def card_for(network: Path, picture: InputCard, **more: Any) -> ModelCard:
    """A card with the picture's input given; decoder yolo-end2end unless another is."""
    values: dict[str, Any] = {"task": "detect", "decoder": "yolo-end2end", "labels": ("a", "b"), **more}
    return ModelCard(name=network.stem, network=network, sha256=sha256(network), input=picture, **values)


def as_ir(network: Path) -> Path:
    """The same network as OpenVINO IR beside it."""
    import openvino

    target = network.with_suffix(".xml")
    openvino.save_model(openvino.Core().read_model(network), target, compress_to_fp16=False)
    return target
