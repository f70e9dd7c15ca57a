"""Outputs keep their names, types and order on their way through both runtimes, also as OpenVINO IR."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from edge_infer.backends import BACKENDS
from edge_infer.model.load import load_model
from edge_infer.network import Network
from edge_infer.registry import resolve
from tests.support import networks

HEIGHT, WIDTH = 96, 160
BOX = [32.0, 24.0, 96.0, 72.0]
"""x1, y1, x2, y2 of the only object, in network pixels."""
FRACTIONS = [0.2, 0.25, 0.6, 0.75]
MIDDLE = [0.4, 0.5, 0.4, 0.5]
FRAME = [64.0, 48.0, 192.0, 144.0]

Outputs = dict[str, NDArray[Any]]


def _rows(*values: float, room: int = 3) -> NDArray[np.float32]:
    rows = np.zeros((1, room, len(values)), np.float32)
    rows[0, 0] = values
    return rows


def _logits(*first: float) -> NDArray[np.float32]:
    rows = np.full((1, 3, len(first)), -20, np.float32)
    rows[..., -1] = 20
    rows[0, 0] = first
    return rows


def _tf() -> Outputs:
    y_first = [FRACTIONS[1], FRACTIONS[0], FRACTIONS[3], FRACTIONS[2]]
    return {
        "num_detections": np.array([1], np.float32), "detection_scores": _rows(0.9)[..., 0],
        "detection_classes": _rows(2)[..., 0], "detection_boxes": _rows(*y_first),
    }  # fmt: skip


CELLS = 12 * 20 + 6 * 10 + 3 * 5
ANSWERS: dict[str, tuple[Outputs, str]] = {
    "nms": (
        {
            "num_dets": np.array([[1]], np.int32), "det_boxes": _rows(*BOX), "det_scores": _rows(0.9)[..., 0],
            "det_classes": np.array([[1, 0, 0]], np.int32),
        },
        "",
    ),
    "nms of mmdeploy": ({"dets": _rows(*BOX, 0.9), "labels": np.array([[1, 0, 0]])}, ""),
    "ssd": ({"detection_out": np.array([[[[0, 2, 0.9, *FRACTIONS], [-1, *[0] * 6]]]], np.float32)}, ""),
    "tf-detection": (_tf(), ""),
    "detr": ({"logits": _logits(0, 2.9, 0), "pred_boxes": _rows(*MIDDLE)}, ""),
    "rfdetr": ({"labels": _logits(-9, 2.2, 9), "dets": _rows(*MIDDLE)}, ""),
    "rtdetr": ({"logits": _logits(-9, 2.2, 9)[..., :2], "pred_boxes": _rows(*MIDDLE)}, ""),
    "yolo-nas": (
        {"scores": _rows(0, 0.9, room=CELLS), "boxes": _rows(*BOX, room=CELLS)},
        "",
    ),
}  # fmt: skip


def _network(
    path: Path,
    outputs: Outputs,
    picture: tuple[int | str, ...],
    dtype: str,
    others: Sequence[onnx.ValueInfoProto] = (),
) -> Path:
    kinds = {"uint8": TensorProto.UINT8, "float32": TensorProto.FLOAT}
    nodes, constants = [], []
    for name, value in outputs.items():
        constants.append(numpy_helper.from_array(value, f"{name}_constant"))
        nodes.append(helper.make_node("Identity", [f"{name}_constant"], [name]))
    graph = helper.make_graph(
        nodes,
        "test",
        [helper.make_tensor_value_info("picture", kinds[dtype], list(picture)), *others],
        [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
            for name, value in outputs.items()
        ],
        constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path)
    return path


def _assert_finds_it(card: Path, backend: str) -> None:
    network = Network.open(load_model(card), resolve(BACKENDS, backend)())
    # twice as large as the network's input
    detections = network.infer(np.zeros((2 * HEIGHT, 2 * WIDTH, 3), np.uint8)).findings.detections
    network.close()
    assert detections is not None
    (found,) = detections
    assert (found.label, found.class_id) == ("tear", 1)
    assert found.score == pytest.approx(0.9, abs=0.01)
    assert found.box == pytest.approx(FRAME, abs=0.01)


def _card(folder: Path, network: Path, more: str) -> Path:
    (folder / "model.yaml").write_text(
        f"format: 1\nname: x\nnetwork: {network.name}\nlabels: [cap, tear]\n{more}\n"
    )
    return folder


@pytest.mark.parametrize("backend", list(BACKENDS))
@pytest.mark.parametrize("name", list(ANSWERS))
def test_the_only_object_is_found(tmp_path: Path, name: str, backend: str) -> None:
    outputs, more = ANSWERS[name]
    network = _network(tmp_path / "m.onnx", outputs, (1, 3, HEIGHT, WIDTH), "float32")
    card = _card(tmp_path, network, more)
    _assert_finds_it(card, backend)
    assert load_model(card).decoder == name.partition(" ")[0]


@pytest.mark.parametrize("name", list(ANSWERS))
def test_the_only_object_is_found_by_the_same_network_as_ir(tmp_path: Path, name: str) -> None:
    outputs, more = ANSWERS[name]
    network = networks.as_ir(_network(tmp_path / "m.onnx", outputs, (1, 3, HEIGHT, WIDTH), "float32"))
    _assert_finds_it(_card(tmp_path, network, more), "openvino")


@pytest.mark.parametrize("backend", list(BACKENDS))
def test_bytes_of_free_sizes_are_what_tensorflow_takes(tmp_path: Path, backend: str) -> None:
    network = _network(tmp_path / "m.onnx", _tf(), (1, "height", "width", 3), "uint8")
    _assert_finds_it(_card(tmp_path, network, ""), backend)


@pytest.mark.parametrize("backend", list(BACKENDS))
@pytest.mark.parametrize("shape", [(1, 64, 64), ("batch", 64, 64), ("batch", "height", "width")])
def test_the_mask_of_a_batch_that_detr_asks_for_says_that_all_is_picture(
    tmp_path: Path, shape: tuple[int | str, ...], backend: str
) -> None:
    mask = helper.make_tensor_value_info("pixel_mask", TensorProto.INT64, list(shape))
    network = _network(tmp_path / "m.onnx", {}, (1, 3, HEIGHT, WIDTH), "float32", [mask])
    model = onnx.load(network)
    outputs = ANSWERS["detr"][0]
    # a query counts as far as the mask says so
    nodes = [
        helper.make_node("Cast", ["pixel_mask"], ["mask"], to=TensorProto.FLOAT),
        helper.make_node("ReduceMin", ["mask"], ["least"], keepdims=0),
        helper.make_node("Mul", ["given", "least"], ["logits"]),
        helper.make_node("Identity", ["places"], ["pred_boxes"]),
    ]
    model.graph.node.extend(nodes)
    model.graph.initializer.extend(
        [
            numpy_helper.from_array(outputs["logits"], "given"),
            numpy_helper.from_array(outputs["pred_boxes"], "places"),
        ]
    )
    model.graph.output.extend(
        helper.make_tensor_value_info(name, TensorProto.FLOAT, value.shape) for name, value in outputs.items()
    )
    onnx.save(model, network)
    _assert_finds_it(_card(tmp_path, network, ""), backend)
