"""A network alone on its runtime, whatever the runtime: the limit that the pipeline is measured against."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import openvino
import pytest

from edge_infer.backends import BACKENDS, BackendSettings
from edge_infer.backends.bare import BARE, Bare, open_bare, tensors
from edge_infer.backends.bare_onnxruntime import BareOnnxRuntime
from edge_infer.backends.onnxruntime import OnnxRuntime
from edge_infer.backends.openvino import OpenVino, compile_as_stored
from edge_infer.errors import BackendError
from edge_infer.model.card import InputCard, ModelCard
from edge_infer.registry import resolve
from edge_infer.tensor import TensorSpec
from tests.support import networks
from tests.support.networks import card_for

RUNTIMES = sorted(BARE)


def settings(runtime: str, **more: Any) -> BackendSettings:
    made: BackendSettings = resolve(BACKENDS, runtime)(type=runtime, **more)
    return made


def card(network: Path, size: tuple[int, int] = (64, 64)) -> ModelCard:
    return card_for(network, InputCard(size=size, name="picture"))


def after(frames: int) -> Callable[[], bool]:
    """Asks to stop after so many."""
    left = iter(range(frames))
    return lambda: next(left, None) is None


@pytest.fixture(params=RUNTIMES)
def bare(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bare]:
    network = networks.echo(tmp_path / "echo.onnx", (1, 3, 32, 32))
    opened = open_bare(settings(request.param, threads=2), card(network, size=(32, 32)))
    yield opened
    opened.close()


def test_every_backend_has_its_bare_runtime() -> None:
    assert sorted(BACKENDS) == RUNTIMES


def test_every_way_does_the_frames_that_it_counts_and_stops_when_told(bare: Bare) -> None:
    assert len(bare.ways) > 1
    for name, run in bare.ways.items():
        assert run(after(7)) == 7, name
        assert run(after(1)) == 1, name


def test_one_frame_is_done_when_it_returns(bare: Bare) -> None:
    assert bare.infer_once
    for once in bare.infer_once.values():
        once()


def test_it_closes_twice(bare: Bare) -> None:
    bare.close()
    bare.close()


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_free_sizes_are_those_of_the_card(runtime: str, tmp_path: Path) -> None:
    network = networks.echo(tmp_path / "free.onnx", ("batch", 3, "height", "width"))
    opened = open_bare(settings(runtime), card(network, size=(32, 64)))
    for run in opened.ways.values():
        assert run(after(2)) == 2
    opened.close()


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_device_that_is_not_there_is_told(runtime: str, tmp_path: Path) -> None:
    network = networks.echo(tmp_path / "echo.onnx", (1, 3, 32, 32))
    with pytest.raises(BackendError, match="NOSUCH"):
        open_bare(settings(runtime, device="NOSUCH"), card(network, size=(32, 32)))


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_an_input_that_nobody_knows_is_told(runtime: str, tmp_path: Path) -> None:
    answer = np.zeros((1, 6, 84), np.float32)
    network = networks.rows(tmp_path / "two.onnx", answer, inputs=[("riddle", "float32", (1,))])
    with pytest.raises(BackendError, match="riddle"):
        open_bare(settings(runtime), card(network))


def test_openvino_gets_the_network_as_its_file_has_it(tmp_path: Path) -> None:
    network = networks.echo(tmp_path / "echo.onnx", (1, 3, 32, 32))
    compiled = compile_as_stored(
        card(network, size=(32, 32)), OpenVino(type="openvino", profile="throughput")
    )
    port = compiled.inputs[0]
    assert (port.element_type, list(port.shape)) == (openvino.Type.f32, [1, 3, 32, 32])
    assert compiled.get_property("PERFORMANCE_HINT") == "THROUGHPUT"
    # nothing that the pipeline does not have: the same numbers come out of both
    assert compiled.get_property("INFERENCE_PRECISION_HINT") == openvino.Type.f32


def test_where_the_pipeline_has_batches_the_bare_runtime_may_have_them_too(tmp_path: Path) -> None:
    network = networks.echo(tmp_path / "free.onnx", ("batch", 3, 32, 32))
    opened = open_bare(settings("openvino", batch=4), card(network, size=(32, 32)))
    alone, batched, _ = opened.ways
    assert (batched.endswith("batches of 4"), "batches" in alone) == (True, False)
    # it asks before each batch
    assert (opened.ways[alone](after(3)), opened.ways[batched](after(3))) == (3, 12)
    opened.close()


def test_onnx_runtimes_callers_work_at_the_same_time(tmp_path: Path) -> None:
    network = networks.echo(tmp_path / "echo.onnx", (1, 3, 32, 32))
    opened = BareOnnxRuntime(OnnxRuntime(threads=3), card(network, size=(32, 32)))
    assert opened.version == f"ONNX Runtime {onnxruntime.__version__}"
    together, alone, spinning = opened.ways
    assert together == "3 callers, 1 thread"
    assert (alone, spinning) == ("1 caller, 3 threads", "1 caller, 3 threads that spin")
    asked: set[int] = set()

    def until_all_asked() -> bool:
        asked.add(threading.get_ident())
        return len(asked) == 3

    # with fewer callers it would never end
    assert opened.ways[together](until_all_asked) >= 2
    opened.close()


@pytest.mark.parametrize(
    ("dtype", "most"), [("float32", 1.0), ("uint8", 255)], ids=["normalised", "as pixels are"]
)
def test_the_picture_is_in_the_range_that_the_network_knows(dtype: str, most: float, tmp_path: Path) -> None:
    network = networks.echo(tmp_path / "echo.onnx", (1, 3, 8, 8), dtype)
    spec = TensorSpec("picture", (1, 3, 8, 8), dtype)
    (given,) = tensors(card(network, size=(8, 8)), [spec]).values()
    assert (given.shape, given.dtype) == ((1, 3, 8, 8), np.dtype(dtype))
    assert 0 <= given.min() < given.max() <= most
    assert given.max() > most / 2
