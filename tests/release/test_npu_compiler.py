"""The bundled network through the compiler of real NPUs, which `make test-release` brings."""

from __future__ import annotations

import shutil
import sys
from importlib.resources import files
from pathlib import Path

import onnx
import pytest
from onnx import helper

from edge_infer import cli
from edge_infer.backends import npu, openvino
from edge_infer.errors import BackendError
from edge_infer.model.load import load_model

BOTTLES = Path(str(files("edge_infer.bundled").joinpath("bottles")))
COMPILER = Path(sys.prefix, "npu", "openvino", "libs", "npu_compile.exe")


@pytest.fixture(autouse=True)
def under_wine(monkeypatch: pytest.MonkeyPatch) -> None:
    """The product's child process is the compiler of OpenVINO for Windows, which needs no NPU."""
    if not COMPILER.is_file():
        pytest.fail(f"the NPU's compiler is missing ({COMPILER}): make test-release")
    monkeypatch.setenv("WINEPREFIX", str(Path(sys.prefix, "npu", "wine")))
    monkeypatch.setenv("WINEDEBUG", "-all")
    # a newer Wine renews its folder, and would ask for what it can download
    monkeypatch.setenv("WINEDLLOVERRIDES", "mscoree,mshtml=")
    monkeypatch.setattr(npu, "_COMMAND", ("wine", str(COMPILER)))


def compiled_for(device: str) -> bytes:
    network = openvino.network_as_compiled(load_model(BOTTLES))
    (picture,) = network.inputs
    assert (picture.element_type.get_type_name(), list(picture.shape)) == ("u8", [1, 240, 320, 3])
    assert npu.obstacles(network) == ()
    return npu.compile_blob(network, device, openvino._hints(openvino.OpenVino(device=device), device))


@pytest.mark.parametrize("platform", ["3720", "4000", "5010"])
def test_the_bundled_network_compiles_with_its_preprocessing(platform: str) -> None:
    # its weights alone have 0.6 MB in f16
    assert len(compiled_for(f"NPU.{platform}")) > 600_000


def test_what_the_compiler_says_of_an_unknown_platform_is_told() -> None:
    with pytest.raises(BackendError, match=r"for NPU\.4010: .*Unknown value for platform: 4010"):
        compiled_for("NPU.4010")


def test_a_network_with_sizes_of_its_own_is_refused_by_name_and_never_reaches_the_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    free = shutil.copytree(BOTTLES, tmp_path / "free")
    _depend_on_the_picture(free / "model.onnx")
    why = "sizes inside depend on the picture (first in NonZero where)"

    monkeypatch.setattr(sys, "argv", ["edge-infer", "model", "inspect", str(free)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert not ended.value.code
    assert f"NPU: no: {why}" in capsys.readouterr().out

    # as if an NPU were here; the compiler would be recognised by what it says
    monkeypatch.setattr(openvino, "refuse_absent", lambda *_: None)
    with pytest.raises(BackendError) as refused:
        openvino.OpenVino(device="NPU.4000").open(load_model(free))
    assert str(refused.value).startswith(f"{load_model(free).network} cannot run on NPU.4000: {why}")


def _depend_on_the_picture(path: Path) -> None:
    """Something inside becomes as long as there is something in the picture; the outputs keep their sizes."""
    model = onnx.load(path)
    (output,) = model.graph.output
    made_by = next(node for node in model.graph.node if output.name in node.output)
    made_by.output[list(made_by.output).index(output.name)] = "rows"
    model.graph.node.extend([
        helper.make_node("NonZero", [model.graph.input[0].name], ["where"], name="where"),
        helper.make_node("Cast", ["where"], ["numbers"], to=onnx.TensorProto.FLOAT),
        helper.make_node("ReduceMax", ["numbers"], ["most"], keepdims=0),
        helper.make_node("Add", ["rows", "most"], [output.name]),
    ])  # fmt: skip
    onnx.save(model, path)
