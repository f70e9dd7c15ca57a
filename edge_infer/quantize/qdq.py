"""ONNX Runtime's static quantisation: an ONNX file with QuantizeLinear and DequantizeLinear pairs (QDQ)."""

from __future__ import annotations

import logging
import platform
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edge_infer.quantize import Job
from edge_infer.quantize.given import Given

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto

_WEIGHTED = frozenset(("Conv", "ConvTranspose", "Gemm", "MatMul"))
_GATES = frozenset(("Sigmoid", "Mul", "HardSigmoid", "HardSwish"))
"""Of SiLU and of attention: in 8 bits they lose much and gain no time."""
_PER_CHANNEL_OPSET = 13
_WANTED_OPSET = 17


def quantise(job: Job) -> None:
    """8 bits for weights (a scale a channel) and activations."""
    import onnx
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    logging.disable(logging.WARNING)
    original = onnx.load(job.network)
    with tempfile.TemporaryDirectory(dir=Path(job.out).parent, prefix="qdq-") as folder:
        prepared = Path(folder, "prepared.onnx")
        newer = Path(folder, "newer.onnx")
        onnx.save(_newer(original), newer)
        # symbolic shapes would need sympy, and a picture's sizes are known
        quant_pre_process(newer, prepared, skip_symbolic_shape=True)
        quantised = Path(folder, "quantised.onnx")
        # x86 multiplies unsigned activations with signed weights; both signed take twice the time there
        activations = QuantType.QUInt8 if platform.machine() == "x86_64" else QuantType.QInt8
        network = onnx.load(prepared)
        for number, node in enumerate(network.graph.node):
            # what is left out is told by name
            node.name = node.name or f"{node.op_type}-{number}"
        quantize_static(
            network, quantised, _Reader(Given(job)), QuantFormat.QDQ,
            per_channel=True, activation_type=activations, weight_type=QuantType.QInt8,
            nodes_to_exclude=[*_tail(network.graph), *_gates(network.graph)],
        )  # fmt: skip
        made = onnx.load(quantised)
        # labels and key points may stand there
        del made.metadata_props[:]
        made.metadata_props.extend(original.metadata_props)
        part = Path(folder, "made.onnx")
        onnx.save(made, part)
        part.replace(job.out)


def _tail(graph: GraphProto) -> list[str]:
    """The operations behind the last weights: boxes and scores would share one scale there.

    Pixels up to 640 and scores up to 1 in one tensor of 8 bits leave nothing of the scores.
    """
    made_by = {name: node for node in graph.node for name in node.output}
    names, wanted = [], [output.name for output in graph.output]
    seen = set()
    while wanted:
        node = made_by.get(wanted.pop())
        if node is None or node.op_type in _WEIGHTED or node.name in seen:
            continue
        seen.add(node.name)
        names.append(node.name)
        wanted += node.input
    return names


def _gates(graph: GraphProto) -> list[str]:
    return [node.name for node in graph.node if node.op_type in _GATES]


def _newer(network: ModelProto) -> ModelProto:
    """A scale a channel came with opset 13."""
    import onnx

    opset = max(entry.version for entry in network.opset_import if entry.domain in ("", "ai.onnx"))
    if opset >= _PER_CHANNEL_OPSET:
        return network
    return onnx.version_converter.convert_version(network, _WANTED_OPSET)


class _Reader:
    """As ONNX Runtime asks for it."""

    def __init__(self, given: Given) -> None:
        self._rest: Iterator[dict[str, Any]] = iter(given)

    def get_next(self) -> dict[str, Any] | None:
        return next(self._rest, None)
