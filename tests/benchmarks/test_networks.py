"""The standard set's networks: drawn once, the same everywhere, and in the numbers of trained ones."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from tests.benchmarks.architectures import ARCHITECTURES, CANDIDATES
from tests.benchmarks.graphs import Floats, gather, run

SIZE = 128


@pytest.fixture(scope="module")
def pictures() -> Floats:
    """Blocks of chance: edges and areas, as pictures have them."""
    blocks = np.random.default_rng(1).random((3, 3, 16, 16), np.float32)
    return blocks.repeat(SIZE // 16, axis=2).repeat(SIZE // 16, axis=3)


@pytest.fixture(scope="module")
def detector(pictures: Floats) -> onnx.ModelProto:
    return ARCHITECTURES["yolo11n"](SIZE, pictures)


def test_a_network_is_the_same_to_the_last_bit_again(detector: onnx.ModelProto, pictures: Floats) -> None:
    assert ARCHITECTURES["yolo11n"](SIZE, pictures).SerializeToString() == detector.SerializeToString()


def test_the_detector_has_the_shape_and_size_of_the_public_one(detector: onnx.ModelProto) -> None:
    (output,) = detector.graph.output
    shape = [side.dim_value for side in output.type.tensor_type.shape.dim]
    assert shape == [1, 84, sum((SIZE // stride) ** 2 for stride in (8, 16, 32))]
    weights = sum(int(np.prod(one.dims)) for one in detector.graph.initializer)
    # 2.6 million are published for 80 classes
    assert 2_550_000 < weights < 2_700_000


def test_as_many_rows_pass_the_threshold_as_in_a_busy_picture(
    detector: onnx.ModelProto, pictures: Floats
) -> None:
    answer = run(detector, pictures[:1])["output0"][0]
    assert int((answer[4:].max(axis=0) > 0.25).sum()) == pytest.approx(CANDIDATES, abs=2)
    assert np.isfinite(answer).all()


@pytest.mark.parametrize("name", sorted(ARCHITECTURES))
def test_activations_neither_grow_nor_become_denormal(name: str, pictures: Floats) -> None:
    network = ARCHITECTURES[name](SIZE, pictures)
    values = onnx.helper.make_tensor_value_info
    # what each convolution says, beside the answer
    said = [node.output[0] for node in network.graph.node if node.op_type == "Conv"]
    network.graph.output.extend(values(one, onnx.TensorProto.FLOAT, None) for one in said)
    # a shape that nobody knows is left out
    outputs = run(network, pictures[:1])
    tiny = np.finfo(np.float32).tiny
    for one in said:
        tensor = outputs[one]
        assert np.abs(tensor).max() < 100, one
        denormal = (tensor != 0) & (np.abs(tensor) < tiny)
        assert denormal.mean() < 1e-3, one
        assert tensor.std() > 0.05, one


def test_statistics_are_gathered_of_every_convolution(pictures: Floats) -> None:
    from tests.benchmarks.architectures import _resnet18

    statistics = gather(_resnet18(SIZE, None), pictures)
    assert len(statistics) == 20
    assert all(mean.shape == variance.shape for mean, variance in statistics.values())
