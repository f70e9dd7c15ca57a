"""NPU readiness on a machine that has none: what could run there, and a compiler that dies alone."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from edge_infer.backends import npu
from edge_infer.backends.openvino import OpenVino, npu_obstacles
from edge_infer.errors import BackendError
from edge_infer.model.card import InputCard, ModelCard
from edge_infer.model.load import load_model
from tests.support import networks, real_networks

INPUT = InputCard((64, 96), name="picture")


@pytest.fixture
def card(tmp_path: Path) -> ModelCard:
    return networks.card_for(networks.echo(tmp_path / "echo.onnx", (1, 3, 64, 96), twice=2.0), INPUT)


def with_nms(path: Path) -> Path:
    """A network that suppresses boxes itself."""
    nodes = [
        helper.make_node("ReduceMax", ["picture"], ["highest"], keepdims=0),
        helper.make_node("Mul", ["boxes", "highest"], ["some"]),
        helper.make_node("NonMaxSuppression", ["some", "scores"], ["kept"]),
    ]
    constants = [
        onnx.numpy_helper.from_array(np.ones((1, 8, 4), np.float32), "boxes"),
        onnx.numpy_helper.from_array(np.ones((1, 1, 8), np.float32), "scores"),
    ]
    takes = [helper.make_tensor_value_info("picture", TensorProto.FLOAT, [1, 3, 64, 96])]
    gives = [helper.make_tensor_value_info("kept", TensorProto.INT64, ["n", 3])]
    graph = helper.make_graph(nodes, "nms", takes, gives, constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def with_sizes_of_its_own(path: Path) -> Path:
    """A network whose answer is as long as there is something in the picture."""
    takes = [helper.make_tensor_value_info("picture", TensorProto.FLOAT, [1, 3, 64, 96])]
    gives = [helper.make_tensor_value_info("where", TensorProto.INT64, [4, "n"])]
    graph = helper.make_graph([helper.make_node("NonZero", ["picture"], ["where"])], "free", takes, gives)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def test_free_sizes_are_no_obstacle_once_the_card_fixes_them(tmp_path: Path) -> None:
    network = networks.echo(tmp_path / "free.onnx", ("batch", 3, "height", "width"))
    assert npu_obstacles(networks.card_for(network, INPUT)) == ()


@pytest.mark.parametrize(
    "name", ["ultraface/version-RFB-320", "nanodet_m/nanodet_m_320", "yolox_nano/yolox_nano"]
)
def test_real_networks_could_run_there(shared: Path, tmp_path: Path, name: str) -> None:
    assert npu_obstacles(load_model(real_networks.write_card(tmp_path, shared, name))) == ()


def test_a_batch_nms_inside_and_sizes_that_depend_on_the_picture_are_told(tmp_path: Path) -> None:
    (batch,) = npu_obstacles(networks.card_for(networks.echo(tmp_path / "b.onnx", (4, 3, 64, 96)), INPUT))
    assert batch == "its batch is fixed at 4, an NPU takes 1"
    (nms,) = npu_obstacles(networks.card_for(with_nms(tmp_path / "n.onnx"), INPUT))
    assert "NonMaxSuppression" in nms
    assert "export it without NMS" in nms
    (free,) = npu_obstacles(networks.card_for(with_sizes_of_its_own(tmp_path / "f.onnx"), INPUT))
    assert "depend on the picture (first in NonZero" in free


def test_a_network_compiled_in_a_child_gives_the_same_answer(
    card: ModelCard, monkeypatch: pytest.MonkeyPatch
) -> None:
    # the CPU plays the NPU: the child, the blob and its import are the real ones
    monkeypatch.setattr("edge_infer.backends.openvino._NPU", "CPU")
    backend = OpenVino().open(card)
    assert backend.running == "CPU"
    picture = np.full((1, 64, 96, 3), 51, np.uint8)
    np.testing.assert_allclose(backend.infer({"picture": picture})["echo"], 0.4, atol=2e-3)
    backend.close()


@pytest.mark.parametrize("device", ["CPU", "AUTO", "AUTO:CPU", "HETERO:CPU"])
def test_a_compiler_that_kills_its_process_is_only_an_error_here(
    card: ModelCard, monkeypatch: pytest.MonkeyPatch, device: str
) -> None:
    monkeypatch.setattr("edge_infer.backends.openvino._NPU", "CPU")
    monkeypatch.setattr(npu, "_COMMAND", ("sh", "-c", "kill -SEGV $$"))
    with pytest.raises(BackendError, match=r"cannot compile for CPU: its compiler died of SIGSEGV"):
        OpenVino(device=device).open(card)


def test_what_a_childs_compiler_says_is_told(card: ModelCard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edge_infer.backends.openvino._NPU", "CPU")
    monkeypatch.setattr(npu, "_COMMAND", (sys.executable, "-c", "import sys; sys.exit('no such platform')"))
    with pytest.raises(BackendError, match=r"cannot compile for CPU: no such platform"):
        OpenVino().open(card)


def test_a_compiler_that_never_ends_is_ended(card: ModelCard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edge_infer.backends.openvino._NPU", "CPU")
    monkeypatch.setattr(npu, "_COMMAND", (sys.executable, "-c", "import time; time.sleep(60)"))
    monkeypatch.setattr(npu, "COMPILE_S", 0.2)
    with pytest.raises(BackendError, match=r"was not done after 0\.2 s"):
        OpenVino().open(card)


def test_a_network_with_an_obstacle_never_reaches_the_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edge_infer.backends.openvino._NPU", "CPU")
    monkeypatch.setattr(npu, "_COMMAND", ("sh", "-c", "kill -SEGV $$"))
    batch = networks.card_for(networks.echo(tmp_path / "b.onnx", (4, 3, 64, 96)), INPUT)
    with pytest.raises(BackendError, match=r"b\.onnx cannot run on CPU: its batch is fixed at 4"):
        OpenVino().open(batch)
