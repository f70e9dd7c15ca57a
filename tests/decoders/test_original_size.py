"""RT-DETR and D-FINE ask for the picture's size; told the network's own, their boxes fit every frame."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edge_infer.backends import BACKENDS
from edge_infer.model.load import load_model
from edge_infer.network import Network
from edge_infer.registry import resolve

HEIGHT, WIDTH = 96, 160
FRACTIONS = np.array([[[0.1, 0.2, 0.5, 0.6], [0.5, 0.5, 1.0, 1.0]]], np.float32)


def _own_export(path: Path, dtype: str, shape: tuple[int | str, ...]) -> Path:
    """boxes = fractions x (width, height, width, height), as their postprocessor computes them."""
    kinds = {"int64": TensorProto.INT64, "int32": TensorProto.INT32, "float32": TensorProto.FLOAT}
    nodes = [
        helper.make_node("ReduceMax", ["images"], ["highest"], keepdims=0),
        helper.make_node("Mul", ["highest", "nothing"], ["zero"]),
        helper.make_node("Cast", ["orig_target_sizes"], ["size"], to=TensorProto.FLOAT),
        helper.make_node("Reshape", ["size", "pair"], ["row"]),
        helper.make_node("Concat", ["row", "row"], ["twice"], axis=0),
        helper.make_node("Mul", ["fractions", "twice"], ["exact"]),
        helper.make_node("Add", ["exact", "zero"], ["boxes"]),
        helper.make_node("Add", ["given", "zero"], ["scores"]),
        helper.make_node("Identity", ["classes"], ["labels"]),
    ]
    constants = {
        "nothing": np.array(0, np.float32), "pair": np.array([2]), "fractions": FRACTIONS,
        "given": np.array([[0.9, 0.8]], np.float32), "classes": np.array([[1, 0]]),
    }  # fmt: skip
    graph = helper.make_graph(
        nodes,
        "test",
        [
            helper.make_tensor_value_info("images", TensorProto.FLOAT, [1, 3, HEIGHT, WIDTH]),
            helper.make_tensor_value_info("orig_target_sizes", kinds[dtype], list(shape)),
        ],
        [
            helper.make_tensor_value_info("labels", TensorProto.INT64, [1, 2]),
            helper.make_tensor_value_info("boxes", TensorProto.FLOAT, [1, 2, 4]),
            helper.make_tensor_value_info("scores", TensorProto.FLOAT, [1, 2]),
        ],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path)
    return path


@pytest.mark.parametrize("backend", list(BACKENDS))
@pytest.mark.parametrize(
    ("dtype", "shape"),
    [
        ("int64", (1, 2)), ("int64", ("batch", 2)), ("int32", (1, 2)), ("float32", (1, 2)), ("int64", (2,)),
        ("int64", ("batch", "two")),
    ],
)  # fmt: skip
@pytest.mark.parametrize("resize", ["stretch", "letterbox"])
def test_boxes_of_an_own_export_lie_in_the_frame(
    tmp_path: Path, backend: str, dtype: str, shape: tuple[int | str, ...], resize: str
) -> None:
    _own_export(tmp_path / "m.onnx", dtype, shape)
    (tmp_path / "model.yaml").write_text(
        f"format: 1\nname: x\nnetwork: m.onnx\nlabels: [a, b]\ninput: {{resize: {resize}}}\n"
    )
    card = load_model(tmp_path)
    assert card.decoder == "rtdetr"
    network = Network.open(card, resolve(BACKENDS, backend)())
    # letterboxed, 16 rows of padding lie above and 16 below
    detections = network.infer(np.full((256, 640, 3), 128, np.uint8)).findings.detections
    network.close()
    assert detections is not None
    boxes = FRACTIONS[0] * [WIDTH, HEIGHT, WIDTH, HEIGHT]
    above, by = (16, 4) if resize == "letterbox" else (0, 256 / HEIGHT)
    expected = (boxes - [0, above, 0, above]) * [4, by, 4, by]
    np.testing.assert_allclose(detections.boxes, np.clip(expected, 0, [640, 256] * 2), atol=1e-3)
    assert detections.labels == ("b", "a")
