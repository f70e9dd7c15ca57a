"""An anomaly network that really looks: its map is the picture's brightest channel."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def heat(
    path: Path,
    size: tuple[int, int] = (64, 64),
    *,
    batch: int = 1,
    graph_crop: tuple[int, int] | None = None,
    names: Sequence[str] = ("pred_score", "anomaly_map"),
    per_picture: bool = False,
    external: bool = False,
) -> Path:
    """anomalib v2's outputs, the score the map's highest value; with one name only the map.

    ``graph_crop``: the network cuts that out of the middle first. ``per_picture``: PatchCore's score has the
    shape (batch,), else (batch, 1).
    """
    height, width = size
    crop_height, crop_width = graph_crop or size
    top, left = (height - crop_height) // 2, (width - crop_width) // 2
    constants = {
        "from": [top, left], "to": [top + crop_height, left + crop_width], "sides": [2, 3],
        "score.shape": [batch] if per_picture else [batch, 1],
    }  # fmt: skip
    map_name = names[-1]
    nodes = [
        helper.make_node("Mul", ["input", "one"], ["seen"]),
        helper.make_node("Slice", ["seen", "from", "to", "sides"], ["middle"]),
        helper.make_node("ReduceMax", ["middle"], [map_name], axes=[1], keepdims=1),
    ]
    gives = [helper.make_tensor_value_info(map_name, TensorProto.FLOAT, [batch, 1, crop_height, crop_width])]
    if len(names) > 1:
        nodes += [
            helper.make_node("ReduceMax", [map_name], ["highest"], axes=[1, 2, 3], keepdims=0),
            helper.make_node("Reshape", ["highest", "score.shape"], [names[0]]),
        ]
        gives.insert(0, helper.make_tensor_value_info(names[0], TensorProto.FLOAT, constants["score.shape"]))
    tensors = [numpy_helper.from_array(np.array(value, np.int64), name) for name, value in constants.items()]
    tensors.append(numpy_helper.from_array(np.ones((1, 3, height, width), np.float32), "one"))
    takes = [helper.make_tensor_value_info("input", TensorProto.FLOAT, [batch, 3, height, width])]
    graph = helper.make_graph(nodes, "test", takes, gives, tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    if external:
        onnx.save(model, path, save_as_external_data=True, location=f"{path.name}.data", size_threshold=1024)
    else:
        onnx.save(model, path)
    return path
