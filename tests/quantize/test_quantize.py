"""INT8 networks made in a process of its own."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import numpy as np
import onnx
import openvino
import pytest
from onnx import TensorProto, helper, numpy_helper

from edge_infer import quantize
from edge_infer.model.load import load_model
from edge_infer.quantize import METHODS, SUFFIX, Job, QuantizeError, missing, quantise
from edge_infer.tune.calibration import Calibration, write_tensors
from edge_infer.tune.frames import divide
from tests.support.line_frames import write_line
from tests.support.strangers import strangers_asked

BOTTLES = Path(__file__).parents[2] / "models/bottles"


@pytest.fixture(scope="module")
def calibration(tmp_path_factory: pytest.TempPathFactory) -> Calibration:
    """Tensors of the bundled model."""
    folder = tmp_path_factory.mktemp("calibration")
    frames = divide(write_line(folder / "line", 40), calibration=6, held_out=20)
    return write_tensors(load_model(BOTTLES), frames.calibration, folder / "calibration.npy")


def job(method: str, folder: Path, calibration: Calibration, network: Path, parent: int) -> Job:
    others = folder / "others.npz"
    np.savez(others)
    return Job(
        method, str(network), str(folder / f"{method}{SUFFIX[method]}"), calibration.picture,
        str(calibration.tensors), str(others), str(folder / "answer.json"), parent,
    )  # fmt: skip


@pytest.mark.parametrize("method", ["nncf", "onnxruntime-qdq"])
def test_no_telemetry_leaves_while_it_quantises(
    method: str, tmp_path: Path, calibration: Calibration
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    # the child's parent is a shell here, which says who it is
    told = asdict(job(method, tmp_path, calibration, BOTTLES / "model.onnx", 0))
    script = (
        "import json, os, subprocess, sys; told = json.loads(sys.argv[1]) | {'parent': os.getpid()}; "
        "sys.exit(subprocess.call([sys.executable, '-m', 'edge_infer.quantize', json.dumps(told)]))"
    )
    asked = strangers_asked([sys.executable, "-c", script, json.dumps(told)], home, tmp_path / "trace")
    assert (tmp_path / f"{method}{SUFFIX[method]}").is_file()
    assert asked == []
    assert list(home.iterdir()) == []


def test_the_head_of_the_network_stays_in_float(tmp_path: Path, calibration: Calibration) -> None:
    out = quantise(
        "onnxruntime-qdq", BOTTLES / "model.onnx", tmp_path / "int8.onnx",
        picture=calibration.picture, tensors=calibration.tensors, others={},
    )  # fmt: skip
    graph = onnx.load(out).graph
    kinds = {node.op_type for node in graph.node}
    assert {"QuantizeLinear", "DequantizeLinear", "Conv"} <= kinds
    made_by = {name: node for node in graph.node for name in node.output}
    wanted, reached, scales = [graph.output[0].name], set(), set()
    while wanted:
        node = made_by.get(wanted.pop())
        if node is not None and node.op_type == "DequantizeLinear":
            # a convolution's own answer, with a scale of its own
            scales.add(made_by[made_by[node.input[0]].input[0]].op_type)
        elif node is not None:
            reached.add(node.op_type)
            wanted += [] if node.op_type == "Conv" else node.input
    assert {"Concat", "Sigmoid"} <= reached
    assert scales == {"Conv"}
    # only the network itself is left
    assert list(tmp_path.iterdir()) == [out]


def test_depthwise_convolutions_and_gates_stay_in_float(tmp_path: Path) -> None:
    shape = [1, 4, 16, 16]
    rng = np.random.default_rng(1)
    weights = [
        numpy_helper.from_array(rng.normal(size=size).astype(np.float32), name)
        for name, size in (("dense", (4, 4, 3, 3)), ("deep", (4, 1, 3, 3)))
    ]
    nodes = [
        helper.make_node("Conv", ["picture", "dense"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("Sigmoid", ["a"], ["s"]),
        helper.make_node("Mul", ["a", "s"], ["b"]),
        helper.make_node("Conv", ["b", "deep"], ["c"], pads=[1, 1, 1, 1], group=4),
    ]
    graph = helper.make_graph(
        nodes, "g",
        [helper.make_tensor_value_info("picture", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("c", TensorProto.FLOAT, shape)],
        weights,
    )  # fmt: skip
    network = tmp_path / "silu.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), network)
    tensors = tmp_path / "tensors.npy"
    np.save(tensors, rng.normal(size=(4, *shape)).astype(np.float32))
    # what a convolution's picture comes from; the gate gets what the convolution gave
    fed = {}
    for method in ("nncf", "nncf-dense"):
        out = quantise(
            method, network, tmp_path / f"{method}.xml", picture="picture", tensors=tensors, others={}
        )
        operations = openvino.Core().read_model(out).get_ordered_ops()
        fed[method] = {
            one.get_type_name(): one.input_value(0).get_node().get_type_name()
            for one in operations
            if one.inputs()
        }
    assert fed["nncf"]["Convolution"] == fed["nncf-dense"]["Convolution"] == "FakeQuantize"
    assert fed["nncf"]["GroupConvolution"] == "FakeQuantize"
    assert fed["nncf-dense"]["GroupConvolution"] != "FakeQuantize"
    assert "FakeQuantize" not in {
        told[gate] for told in fed.values() for gate in ("Sigmoid", "Swish") if gate in told
    }


def without_weights(path: Path, *, opset: int = 17, domain: str = "") -> Path:
    """A network of one operation, of an unknown domain where one is named."""
    node = helper.make_node("Relu", ["picture"], ["echo"], domain=domain)
    shape = [1, 3, 240, 320]
    graph = helper.make_graph(
        [node], "g",
        [helper.make_tensor_value_info("picture", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("echo", TensorProto.FLOAT, shape)],
        [numpy_helper.from_array(np.zeros(1, np.float32), "unused")],
    )  # fmt: skip
    imports = [helper.make_opsetid("", opset), *([helper.make_opsetid(domain, 1)] if domain else [])]
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=8), path)
    return path


@pytest.mark.parametrize("method", ["nncf", "onnxruntime-qdq"])
def test_a_network_that_cannot_be_quantised_is_told_with_the_reason(
    method: str, tmp_path: Path, calibration: Calibration
) -> None:
    network = without_weights(tmp_path / "odd.onnx", domain="com.example")
    with pytest.raises(QuantizeError, match=f"{method} cannot quantise it: .*com.example") as told:
        quantise(
            method, network, tmp_path / f"out{SUFFIX[method]}",
            picture="picture", tensors=calibration.tensors, others={},
        )  # fmt: skip
    assert "\n" not in str(told.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["odd.onnx"]


def test_a_quantiser_that_crashes_takes_nobody_with_it(
    tmp_path: Path, calibration: Calibration, monkeypatch: pytest.MonkeyPatch
) -> None:
    crash = "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"
    monkeypatch.setattr(quantize, "_COMMAND", (sys.executable, "-c", crash))
    with pytest.raises(QuantizeError, match="its process died of SIGSEGV"):
        quantise(
            "nncf", BOTTLES / "model.onnx", tmp_path / "out.xml",
            picture="picture", tensors=calibration.tensors, others={},
        )  # fmt: skip


def test_the_child_does_not_outlive_its_parent(tmp_path: Path, calibration: Calibration) -> None:
    script = (
        "import sys; from pathlib import Path; from edge_infer.quantize import quantise; "
        "quantise('nncf', Path(sys.argv[1]), Path(sys.argv[2]), picture=sys.argv[3], "
        "tensors=Path(sys.argv[4]), others={})"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", script, str(BOTTLES / "model.onnx"), str(tmp_path / "out.xml"),
         calibration.picture, str(calibration.tensors)],
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    children = Path(f"/proc/{parent.pid}/task/{parent.pid}/children")
    while not (pids := children.read_text().split()):
        assert parent.poll() is None
    child = os.pidfd_open(int(pids[0]))
    try:
        parent.send_signal(signal.SIGKILL)
        parent.wait()
        assert select.select([child], [], [], 30)[0], "it went on"
    finally:
        os.close(child)


def test_what_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [missing(method) for method in METHODS] == [[]] * len(METHODS)
    monkeypatch.setitem(quantize.NEEDS, "nncf", ("nncf", "no_such_package"))
    assert missing("nncf") == ["no_such_package"]
