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


def spot(
    path: Path,
    shape: Sequence[Side] = (1, 3, 64, 64),
    dtype: str = "float32",
    *,
    layout: str = "nchw",
    mean: Sequence[float] = (0.0,),
    std: Sequence[float] = (1.0,),
    metadata: dict[str, str] | None = None,
) -> Path:
    """A network that really looks: a row x1, y1, x2, y2, score, class for what is brighter than 0.5.

    The score is the spot's brightness 0..1, the class its brightest channel, if the picture comes in
    ``layout`` as (x / 255 - mean) / std, for uint8 as it is.
    """
    kind = _TYPES[dtype]

    def number(name: str, value: Any, of: str = "float32") -> TensorProto:
        return numpy_helper.from_array(np.asarray(value, of), name)

    constants = [
        number("unit", 255.0 if dtype == "uint8" else 1.0),
        number("mean", np.reshape(mean, (1, -1, 1, 1))),
        number("std", np.reshape(std, (1, -1, 1, 1))),
        number("dark", 0.5), number("nothing", 0), number("one", 1), number("axis", 1, "int64"),
        number("at", [1], "int64"),
    ]  # fmt: skip
    order = [0, 3, 1, 2] if layout == "nhwc" else [0, 1, 2, 3]
    nodes = [
        helper.make_node("Cast", ["picture"], ["float"], to=TensorProto.FLOAT),
        helper.make_node("Transpose", ["float"], ["planar"], perm=order),
        helper.make_node("Div", ["planar", "unit"], ["sized"]),
        helper.make_node("Mul", ["sized", "std"], ["spread"]),
        helper.make_node("Add", ["spread", "mean"], ["seen"]),
        helper.make_node("ReduceMax", ["seen"], ["brightest"], axes=[1], keepdims=1),
        helper.make_node("Greater", ["brightest", "dark"], ["bright"]),
        helper.make_node("Cast", ["bright"], ["mask"], to=TensorProto.FLOAT),
    ]  # fmt: skip
    for side, axes in (("x", [1, 2]), ("y", [1, 3])):
        nodes += [
            helper.make_node("ReduceMax", ["mask"], [f"{side}any"], axes=axes, keepdims=0),
            helper.make_node("Mul", [f"{side}any", "nothing"], [f"{side}zero"]),
            helper.make_node("Add", [f"{side}zero", "one"], [f"{side}ones"]),
            helper.make_node("CumSum", [f"{side}ones", "axis"], [f"{side}index"]),
            helper.make_node("ReduceMax", [f"{side}index"], [f"{side}size"], axes=[1], keepdims=1),
            helper.make_node("Mul", [f"{side}any", f"{side}index"], [f"{side}ends"]),
            helper.make_node("ReduceMax", [f"{side}ends"], [f"{side}2"], axes=[1], keepdims=1),
            helper.make_node("Sub", [f"{side}size", f"{side}index"], [f"{side}left"]),
            helper.make_node("Add", [f"{side}left", "one"], [f"{side}back"]),
            helper.make_node("Mul", [f"{side}any", f"{side}back"], [f"{side}starts"]),
            helper.make_node("ReduceMax", [f"{side}starts"], [f"{side}far"], axes=[1], keepdims=1),
            helper.make_node("Sub", [f"{side}size", f"{side}far"], [f"{side}1"]),
        ]
    nodes += [
        helper.make_node("ReduceMax", ["seen"], ["peaks"], axes=[2, 3], keepdims=0),
        helper.make_node("ReduceMax", ["peaks"], ["score"], axes=[1], keepdims=1),
        helper.make_node("ArgMax", ["peaks"], ["channel"], axis=1, keepdims=1),
        helper.make_node("Cast", ["channel"], ["class"], to=TensorProto.FLOAT),
        helper.make_node("Concat", ["x1", "y1", "x2", "y2", "score", "class"], ["row"], axis=1),
        helper.make_node("Unsqueeze", ["row", "at"], ["rows"]),
        helper.make_node("Cast", ["rows"], ["output0"], to=kind if dtype == "float16" else TensorProto.FLOAT),
    ]
    takes = [helper.make_tensor_value_info("picture", kind, list(shape))]
    gives = [
        helper.make_tensor_value_info(
            "output0", kind if dtype == "float16" else TensorProto.FLOAT, [shape[0], 1, 6]
        )
    ]
    return _save(path, helper.make_graph(nodes, "spot", takes, gives, constants), metadata)
