"""Builds networks of convolutions, with weights drawn from a seed and outputs that stay around one.

Random weights without running statistics give activations that grow, or shrink until they are denormals,
which distort every figure of speed. So a network is built twice with the same weights: once with
normalisation by the statistics of the pictures that it is shown, then with those folded into its weights.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

Floats = NDArray[np.float32]
Statistics = Mapping[str, tuple[Floats, Floats]]
"""Name of a convolution -> mean and variance of each of its channels."""

_OPSET, _IR = 18, 10
_EPSILON = 1e-5


class Graph:
    """One network in the making; every method adds nodes and returns the name of their output."""

    def __init__(self, size: int, statistics: Statistics | None) -> None:
        """``size``: pixels on a side of the picture. Without ``statistics`` they are made outputs."""
        self.size = size
        self._statistics = statistics
        self._random = np.random.default_rng(20)
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        self._names: list[str] = []
        self.channels: dict[str, int] = {"picture": 3}

    def constant(self, value: object, dtype: Any = np.float32) -> str:
        """A tensor of the network."""
        name = f"c{len(self._constants)}"
        self._constants.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def node(self, kind: str, *inputs: str, channels: int | None = None, **attributes: Any) -> str:
        """One operation; as many channels as its first input has, unless told."""
        name = f"{kind.lower()}{len(self._nodes)}"
        self._nodes.append(helper.make_node(kind, list(inputs), [name], name=name, **attributes))
        self.channels[name] = channels if channels is not None else self.channels.get(inputs[0], 0)
        return name

    def convolve(
        self,
        x: str,
        channels: int,
        kernel: int = 1,
        stride: int = 1,
        *,
        groups: int = 1,
        act: Callable[[Graph, str], str] | None = None,
        gain: float = 1.0,
        bias: float | Floats = 0.0,
    ) -> str:
        """A convolution whose channels have mean ``bias`` and deviation ``gain`` over the pictures shown."""
        fan_in = self.channels[x] // groups * kernel * kernel
        shape = (channels, self.channels[x] // groups, kernel, kernel)
        weights = self._random.normal(0, fan_in**-0.5, shape).astype(np.float32)
        # as trained networks have it: channels differ
        scale = gain * self._random.uniform(0.7, 1.3, channels).astype(np.float32)
        shift = np.broadcast_to(np.asarray(bias, np.float32), (channels,))
        shift = shift + 0.2 * gain * self._random.normal(0, 1, channels).astype(np.float32)
        attributes = {
            "kernel_shape": [kernel, kernel],
            "strides": [stride, stride],
            "pads": [(kernel - 1) // 2] * 4,
            "group": groups,
        }
        name = f"layer{len(self._names)}"
        self._names.append(name)
        if self._statistics is None:
            raw = self.node("Conv", x, self.constant(weights), channels=channels, **attributes)
            y = self._normalised(name, raw, scale, shift)
        else:
            mean, variance = self._statistics[name]
            factor = scale / np.sqrt(variance + _EPSILON)
            folded = self.constant(weights * factor[:, None, None, None])
            y = self.node(
                "Conv", x, folded, self.constant(shift - mean * factor), channels=channels, **attributes
            )
        return act(self, y) if act else y

    def _normalised(self, name: str, raw: str, scale: Floats, shift: Floats) -> str:
        axes = self.constant([0, 2, 3], np.int64)
        mean = self.node("ReduceMean", raw, axes, keepdims=1)
        centred = self.node("Sub", raw, mean)
        variance = self.node("ReduceMean", self.node("Mul", centred, centred), axes, keepdims=1)
        for what, value in (("mean", mean), ("variance", variance)):
            self._nodes.append(helper.make_node("Identity", [value], [f"{name}.{what}"]))
        deviation = self.node("Sqrt", self.node("Add", variance, self.constant(_EPSILON)))
        unit = self.node("Div", centred, deviation)
        scaled = self.node("Mul", unit, self.constant(scale[:, None, None]))
        y = self.node("Add", scaled, self.constant(shift[:, None, None]))
        self.channels[y] = self.channels[raw]
        return y

    def concat(self, *parts: str, axis: int = 1) -> str:
        """Side by side."""
        return self.node("Concat", *parts, channels=sum(self.channels[one] for one in parts), axis=axis)

    def split(self, x: str, *channels: int) -> list[str]:
        """Its channels in parts."""
        first = f"split{len(self._nodes)}"
        names = [f"{first}.{i}" for i in range(len(channels))]
        sizes = self.constant(channels, np.int64)
        self._nodes.append(helper.make_node("Split", [x, sizes], names, name=first, axis=1))
        self.channels |= dict(zip(names, channels, strict=True))
        return names

    def reshape(self, x: str, *shape: int) -> str:
        """0 keeps a side, -1 is what is left."""
        return self.node("Reshape", x, self.constant(shape, np.int64), channels=shape[1])

    def pool(self, x: str, kernel: int, stride: int) -> str:
        """The largest of each neighbourhood."""
        sides: dict[str, Any] = {
            "kernel_shape": [kernel, kernel],
            "strides": [stride, stride],
            "pads": [kernel // 2] * 4,
        }
        return self.node("MaxPool", x, **sides)

    def model(self, output: str, shape: Sequence[int], metadata: Mapping[str, str]) -> onnx.ModelProto:
        """Checked; its batch is free while statistics are gathered."""
        gathering = self._statistics is None
        batch: int | str = "batch" if gathering else 1
        picture = helper.make_tensor_value_info(
            "picture", TensorProto.FLOAT, [batch, 3, self.size, self.size]
        )
        self._nodes.append(helper.make_node("Identity", [output], ["output0"]))
        outputs = [helper.make_tensor_value_info("output0", TensorProto.FLOAT, [batch, *shape[1:]])]
        if gathering:
            outputs += [
                helper.make_tensor_value_info(f"{name}.{what}", TensorProto.FLOAT, [1, "channels", 1, 1])
                for name in self._names
                for what in ("mean", "variance")
            ]
        graph = helper.make_graph(self._nodes, "benchmark", [picture], outputs, self._constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR)
        helper.set_model_props(model, dict(metadata))
        onnx.checker.check_model(model)
        return model


def silu(graph: Graph, x: str) -> str:
    """x · sigmoid(x)."""
    return graph.node("Mul", x, graph.node("Sigmoid", x))


def relu(graph: Graph, x: str) -> str:
    """max(x, 0)."""
    return graph.node("Relu", x)


def relu6(graph: Graph, x: str) -> str:
    """Between 0 and 6."""
    return graph.node("Clip", x, graph.constant(0.0), graph.constant(6.0))


def run(model: onnx.ModelProto, pictures: Floats) -> dict[str, Floats]:
    """Every output for ``pictures`` (N, 3, size, size)."""
    import onnxruntime

    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [one.name for one in session.get_outputs()]
    answers = session.run(names, {"picture": pictures})
    return dict(zip(names, answers, strict=True))


def gather(model: onnx.ModelProto, pictures: Floats) -> dict[str, tuple[Floats, Floats]]:
    """The statistics of a network that was built without."""
    outputs = run(model, pictures)
    names = [name.removesuffix(".mean") for name in outputs if name.endswith(".mean")]
    return {name: (outputs[f"{name}.mean"].ravel(), outputs[f"{name}.variance"].ravel()) for name in names}


def save(model: onnx.ModelProto, path: Path) -> None:
    """Replaces the file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(model, path)
