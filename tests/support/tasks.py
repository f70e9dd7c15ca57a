"""Heads of other tasks than boxes, made by hand: decoders for them, and networks that answer them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from edge_infer.decoders import DECODERS, TASK_DECODERS, Decoder, decoder_name
from edge_infer.findings import Findings
from edge_infer.geometry import Transform, letterbox
from edge_infer.model.card import InputCard, ModelCard
from edge_infer.registry import resolve
from edge_infer.tensor import TensorSpec

SIZE = (96, 160)
"""height, width: not square, so that nothing exchanged stays unseen."""
FRAME = (501, 299)
"""width, height: letterboxed with a fraction of a pixel left over."""
TRANSFORM = letterbox(*FRAME, SIZE[1], SIZE[0], "center").transform((0, 0, *FRAME), *FRAME)


def card(task: Any, decoder: str, labels: Sequence[str] = ("cap", "tear"), **more: Any) -> ModelCard:
    """For a picture of ``SIZE``."""
    picture = more.pop("input", InputCard(SIZE))
    return ModelCard("test", Path("test.onnx"), "0", task, decoder, tuple(labels), picture, **more)


def decoder_of(model: ModelCard, answers: Mapping[str, NDArray[Any]]) -> Decoder:
    """As a network makes it."""
    outputs = tuple(TensorSpec(name, each.shape, each.dtype.name) for name, each in answers.items())
    decoder: Decoder = resolve(TASK_DECODERS | DECODERS, decoder_name(model))(model, outputs)
    return decoder


def decode(
    model: ModelCard, answers: Mapping[str, NDArray[Any]], transform: Transform = TRANSFORM
) -> Findings:
    """Once."""
    return decoder_of(model, answers).decode(answers, transform)


def network(
    path: Path,
    answers: Mapping[str, NDArray[Any]],
    *,
    shape: Sequence[int] = (1, 3, *SIZE),
    last: str | None = None,
    inputs: Sequence[tuple[str, str, Sequence[int]]] = (),
    metadata: Mapping[str, str] | None = None,
    external: bool = False,
) -> Path:
    """Answers the same whatever the picture is; ``last``: an operation on each float, along axis 1.

    ``external``: its weights lie in a file of their own.
    """
    nodes = [
        helper.make_node("ReduceMax", ["input"], ["highest"], keepdims=0),
        helper.make_node("Mul", ["highest", "nothing"], ["zero"]),
    ]
    constants = [numpy_helper.from_array(np.array(0, np.float32), "nothing")]
    gives = []
    for name, answer in answers.items():
        constants.append(numpy_helper.from_array(answer.astype(np.float32), f"{name}.is"))
        kind = helper.np_dtype_to_tensor_dtype(answer.dtype)
        nodes.append(helper.make_node("Add", [f"{name}.is", "zero"], [f"{name}.sum"]))
        if last and kind == TensorProto.FLOAT:
            more: dict[str, Any] = {"axis": 1} if "oftmax" in last else {}
            nodes.append(helper.make_node(last, [f"{name}.sum"], [name], **more))
        else:
            nodes.append(helper.make_node("Cast", [f"{name}.sum"], [name], to=kind))
        gives.append(helper.make_tensor_value_info(name, kind, list(answer.shape)))
    takes = [helper.make_tensor_value_info("input", TensorProto.FLOAT, list(shape))]
    for name, dtype, sides in inputs:
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        takes.append(helper.make_tensor_value_info(name, kind, list(sides)))
    graph = helper.make_graph(nodes, "test", takes, gives, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    helper.set_model_props(model, dict(metadata or {}))
    if external:
        onnx.save(model, path, save_as_external_data=True, location=f"{path.name}.data", size_threshold=0)
    else:
        onnx.save(model, path)
    return path
