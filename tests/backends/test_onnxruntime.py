"""ONNX Runtime's own options and failures."""

from __future__ import annotations

import statistics
import time
from pathlib import Path

import pytest

from edge_infer import cores
from edge_infer.backends.onnxruntime import OnnxRuntime
from edge_infer.errors import BackendError, ModelError
from edge_infer.model.card import InputCard, ModelCard
from tests.support import networks


@pytest.fixture
def card(tmp_path: Path) -> ModelCard:
    return networks.card_for(
        networks.echo(tmp_path / "echo.onnx", (1, 3, 64, 96)), InputCard((64, 96), name="picture")
    )


def test_an_absent_provider_is_an_error_and_never_the_cpu(card: ModelCard) -> None:
    # ONNX Runtime itself warns and runs on the CPU
    with pytest.raises(BackendError, match="no device CUDA here; devices on this machine: CPU"):
        OnnxRuntime(device="CUDA").open(card)


def test_azure_is_not_offered_as_a_device(card: ModelCard) -> None:
    with pytest.raises(BackendError) as refused:
        OnnxRuntime(device="Azure").open(card)
    assert str(refused.value).endswith("devices on this machine: CPU")


def test_an_ir_is_refused_with_the_backend_that_runs_it(tmp_path: Path) -> None:
    network = networks.as_ir(networks.echo(tmp_path / "echo.onnx", (1, 3, 64, 96)))
    with pytest.raises(ModelError, match="openvino"):
        OnnxRuntime().open(networks.card_for(network, InputCard((64, 96), name="picture")))


@pytest.mark.parametrize("usable", [1, 2, 6])
def test_threads_are_those_this_process_may_use_shared_by_its_requests(
    card: ModelCard, monkeypatch: pytest.MonkeyPatch, usable: int
) -> None:
    monkeypatch.setattr(cores, "usable", lambda: usable)
    for keys, requests, threads in (
        ({}, 1, usable),
        ({"profile": "throughput"}, usable, 1),
        ({"requests": 2}, 2, max(1, usable // 2)),
        ({"requests": 16}, 16, 1),
        ({"threads": 3}, 1, 3),
        ({"threads": 3, "profile": "throughput"}, 3, 1),
    ):
        backend = OnnxRuntime.model_validate(keys).open(card)
        with backend.request() as request:
            options = request._session.get_session_options()
        assert (backend.requests, options.intra_op_num_threads) == (requests, threads)
        backend.close()


@pytest.mark.parametrize(
    ("keys", "alone", "spinning"),
    [
        ({}, True, "1"),
        ({}, False, "0"),
        ({"profile": "throughput"}, True, "0"),
        ({"requests": 2}, True, "0"),
        ({"spinning": True}, False, "1"),
        ({"spinning": False}, True, "0"),
    ],
)
def test_threads_spin_for_one_frame_at_a_time_while_nothing_else_is_at_work(
    card: ModelCard, monkeypatch: pytest.MonkeyPatch, keys: dict[str, object], alone: bool, spinning: str
) -> None:
    monkeypatch.setattr(cores, "usable", lambda: 4)
    backend = OnnxRuntime.model_validate(keys).in_profile("latency", alone=alone).open(card)
    with backend.request() as request:
        options = request._session.get_session_options()
    assert options.get_session_config_entry("session.intra_op.allow_spinning") == spinning
    assert options.get_session_config_entry("session.force_spinning_stop") == "1"
    backend.close()


def test_between_frames_no_thread_is_busy(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cores, "usable", lambda: 2)
    network = shared / "assets/yolox_nano/yolox_nano.onnx"
    opened = OnnxRuntime().open(networks.card_for(network, InputCard((416, 416), name="images")))
    spent_s = []
    with opened.request() as request:
        for _ in range(10):
            request.infer({})
            before_s = time.process_time()
            time.sleep(0.02)
            spent_s.append(time.process_time() - before_s)
    opened.close()
    # a thread that spins is busy all the time
    assert statistics.median(spent_s) < 0.005


def test_a_failure_is_one_line_and_nothing_else_is_printed(
    shared: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for name in ("A33/model.onnx", "A32/short_.onnx", "A35/cut60.onnx"):
        network = shared / "cases/open" / name
        with pytest.raises(ModelError) as refused:
            OnnxRuntime().open(networks.card_for(network, InputCard((320, 320), name="images")))
        assert "\n" not in str(refused.value)
    printed = capfd.readouterr()
    assert (printed.out, printed.err) == ("", "")


def test_a_graph_that_refuses_fixed_sizes_runs_with_free_ones(shared: Path) -> None:
    network = shared / "cases/open/A25/model.onnx"
    backend = OnnxRuntime().open(networks.card_for(network, InputCard((640, 640), name="images")))
    assert backend.inputs[0].shape == (1, 3, 640, 640)
    backend.close()
