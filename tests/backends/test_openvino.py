"""OpenVINO's own devices, properties and files."""

from __future__ import annotations

import re
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import openvino
import pytest

from edge_infer import cores
from edge_infer.backends import Backend
from edge_infer.backends.openvino import OpenVino, _Request
from edge_infer.errors import BackendError, ModelError
from edge_infer.model.card import InputCard, ModelCard
from edge_infer.model.network_file import read_network
from edge_infer.tensor import PictureSpec
from tests.support import networks
from tests.support.preprocessing import Fresh


@pytest.fixture
def card(tmp_path: Path) -> ModelCard:
    return networks.card_for(
        networks.echo(tmp_path / "echo.onnx", (1, 3, 64, 96)), InputCard((64, 96), name="picture")
    )


@pytest.mark.parametrize("device", ["AUTO", "AUTO:CPU", "MULTI:CPU", "HETERO:CPU", "cpu"])
def test_devices_that_are_there_are_taken_and_what_runs_is_told(card: ModelCard, device: str) -> None:
    backend = OpenVino(device=device).open(card)
    assert (backend.requested, backend.running) == (device, "CPU")
    backend.close()


@pytest.mark.parametrize(
    ("device", "absent"),
    [
        ("AUTO:NPU,CPU", "NPU"), ("AUTO:CPU,NPU", "NPU"), ("MULTI:NPU,CPU", "NPU"), ("HETERO:CPU,GPU", "GPU"),
        ("AUTO:-CPU", "-CPU"), ("MULTI", "MULTI"), ("HETERO:", "HETERO"), ("BATCH:CPU(4)", "BATCH"),
        ("GPU.1", "GPU.1"), ("CPU.1", "CPU.1"),
    ],
)  # fmt: skip
def test_a_virtual_device_needs_every_device_that_it_names(card: ModelCard, device: str, absent: str) -> None:
    # OpenVINO itself compiles AUTO:NPU,CPU without a word and runs it on the CPU
    with pytest.raises(BackendError) as refused:
        OpenVino(device=device).open(card)
    assert absent in str(refused.value)
    assert "devices on this machine: CPU" in str(refused.value)


def compiled_by(backend: Backend) -> Any:
    with backend.request() as request:
        assert isinstance(request, _Request)
        return request._request.get_compiled_model()


def test_networks_compute_in_float32_and_share_the_cores(card: ModelCard) -> None:
    # some CPUs take bf16 by themselves; pinned threads of two networks share the same first cores
    for device in ("CPU", "AUTO"):
        backend = OpenVino(device=device).open(card)
        compiled = compiled_by(backend)
        if device == "AUTO":
            properties = compiled.get_property("DEVICE_PROPERTIES")["CPU"]
        else:
            names = ("INFERENCE_PRECISION_HINT", "ENABLE_CPU_PINNING")
            properties = {name: compiled.get_property(name) for name in names}
        assert "float32" in str(properties["INFERENCE_PRECISION_HINT"])
        assert properties["ENABLE_CPU_PINNING"] is False


def test_a_profile_sizes_the_requests_to_the_device(card: ModelCard) -> None:
    for profile, hint in (("latency", "LATENCY"), ("throughput", "THROUGHPUT")):
        backend = OpenVino(profile=profile).open(card)  # type: ignore[arg-type]  # a Literal
        compiled = compiled_by(backend)
        assert str(compiled.get_property("PERFORMANCE_HINT")).endswith(hint)
        at_once = compiled.get_property("OPTIMAL_NUMBER_OF_INFER_REQUESTS")
        assert backend.requests == (1 if profile == "latency" else at_once + 2)
        backend.close()
    assert OpenVino(profile="throughput", requests=3).open(card).requests == 3


def test_a_device_without_memory_for_the_requests_cannot_run_the_network(
    card: ModelCard, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: object) -> None:
        raise RuntimeError("Exception from src/plugin.cpp:1:\n[GPU] out of memory")

    monkeypatch.setattr(openvino.CompiledModel, "create_infer_request", full)
    with pytest.raises(BackendError, match=r"cannot run .* on CPU: \[GPU\] out of memory"):
        OpenVino().open(card)


def test_it_takes_no_more_threads_than_it_was_given(card: ModelCard, monkeypatch: pytest.MonkeyPatch) -> None:
    def threads(backend: Backend) -> int:
        return int(compiled_by(backend).get_property("INFERENCE_NUM_THREADS"))

    assert threads(OpenVino(threads=1, profile="throughput").open(card)) == 1
    # a quota of the control group, which the runtime does not look at
    monkeypatch.setattr(cores, "usable", lambda: 1)
    monkeypatch.setattr(cores, "allowed", lambda: 2)
    assert threads(OpenVino().open(card)) == 1


@pytest.mark.parametrize("device", ["CPU", "AUTO", "MULTI:CPU", "HETERO:CPU"])
@pytest.mark.parametrize("precision", ["f32", "bf16"])
def test_what_a_network_computes_in_is_what_was_asked_for_and_f32_unless_something_else_was(
    card: ModelCard, device: str, precision: str
) -> None:
    keys = {} if precision == "f32" else {"precision": precision}
    backend = OpenVino(device=device, **keys).open(card)  # type: ignore[arg-type]  # a Literal
    assert backend.precision == precision
    backend.close()


def test_a_device_that_computes_in_fewer_bits_than_asked_is_refused(
    card: ModelCard, monkeypatch: pytest.MonkeyPatch
) -> None:
    # a plug-in that takes the wish and does something else
    monkeypatch.setattr(
        "edge_infer.backends.openvino._hints", lambda *_: {"INFERENCE_PRECISION_HINT": "bf16"}
    )
    with pytest.raises(BackendError, match="on CPU in bf16 instead of f32; say `precision: bf16` under"):
        OpenVino().open(card)


def test_a_precision_that_a_device_does_not_have_is_told(
    card: ModelCard, caplog: pytest.LogCaptureFixture
) -> None:
    backend = OpenVino(precision="f16").open(card)
    told = f"was to run in f16, on CPU it runs in {backend.precision}"
    assert (told in caplog.text) == (backend.precision != "f16")
    backend.close()


def test_a_frame_takes_no_memory_anew_for_its_outputs(tmp_path: Path) -> None:
    side = 256
    network = networks.echo(tmp_path / "echo.onnx", (1, 3, side, side))
    card = networks.card_for(network, InputCard(size=(side, side), name="picture"))
    backend = OpenVino(type="openvino").open(card)
    with backend.request() as request:
        # the first one makes what stays
        request.infer({})
        tracemalloc.start()
        try:
            (echo,) = request.infer({}).values()
            _, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert echo.shape == (1, 3, side, side)
        assert most < echo.nbytes / 10
    backend.close()


def test_an_ir_gives_the_answers_of_the_onnx_file_it_was_made_from(tmp_path: Path) -> None:
    answer = np.arange(12, dtype=np.float32).reshape(1, 2, 6)
    onnx_file = networks.rows(tmp_path / "rows.onnx", answer)
    card_input = InputCard((64, 64), name="picture")
    for network in (onnx_file, networks.as_ir(onnx_file)):
        backend = OpenVino().open(networks.card_for(network, card_input))
        (spec,) = backend.inputs
        assert isinstance(spec, PictureSpec)
        tensor, _ = Fresh(card_input, spec)(np.zeros((64, 64, 3), np.uint8))
        np.testing.assert_array_equal(backend.infer({"picture": tensor})["output0"], answer)
        backend.close()


def test_an_ir_whose_tensors_have_no_names_is_read_and_run_under_the_same_ones(tmp_path: Path) -> None:
    answer = np.arange(12, dtype=np.float32).reshape(1, 2, 6)
    ir = networks.as_ir(networks.rows(tmp_path / "rows.onnx", answer))
    ir.write_text(re.sub(r' (output_)?names="[^"]*"', "", ir.read_text()))
    told = read_network(ir)
    (name,) = (spec.name for spec in told.inputs)
    card_input = InputCard((64, 64), name=name)
    backend = OpenVino().open(networks.card_for(ir, card_input))
    (spec,) = backend.inputs
    assert isinstance(spec, PictureSpec)
    tensor, _ = Fresh(card_input, spec)(np.zeros((64, 64, 3), np.uint8))
    assert list(backend.infer({name: tensor})) == [spec.name for spec in told.outputs] == ["output0"]
    backend.close()


def test_a_failure_is_one_line_without_places_in_its_source(shared: Path) -> None:
    network = shared / "cases/open/A33/model.onnx"
    with pytest.raises(ModelError) as refused:
        OpenVino().open(networks.card_for(network, InputCard((320, 320), name="images")))
    assert "\n" not in str(refused.value)
    assert "Exception from" not in str(refused.value)


def test_a_size_that_the_network_cannot_take_is_refused_when_it_is_loaded(tmp_path: Path) -> None:
    network = networks.echo(tmp_path / "echo.onnx", (1, 3, 64, 96))
    with pytest.raises(ModelError, match="no input other"):
        OpenVino().open(networks.card_for(network, InputCard((64, 96), name="other")))
