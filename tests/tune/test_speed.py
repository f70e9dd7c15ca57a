"""How fast a network runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edge_infer.backends.openvino import OpenVino
from edge_infer.errors import BackendError
from edge_infer.model.card import InputCard
from edge_infer.network import Inference, Network
from edge_infer.tune.energy import Meter
from edge_infer.tune.speed import Speed, measure, median
from tests.support import networks

PICTURES = [np.full((64, 64, 3), level, np.uint8) for level in (10, 200)]


@pytest.fixture
def network(tmp_path: Path) -> Network:
    file = networks.spot(tmp_path / "m.onnx")
    card = networks.card_for(file, InputCard((64, 64), name="picture"), labels=("r", "g", "b"))
    return Network.open(card, OpenVino(profile="throughput", requests=2))


def test_frames_are_counted_over_all_requests(network: Network, tmp_path: Path) -> None:
    speed = measure(network, PICTURES, 0.2, Meter(tmp_path))
    assert speed.fps > 10
    assert 0 < speed.p50_ms <= speed.p95_ms
    assert speed.cpu_ms > 0
    assert speed.joules is None
    # two at once: more frames a second than one after the other in that time
    assert speed.fps * speed.p50_ms / 1000 > 1.2


def test_a_network_that_fails_meanwhile_is_told(
    network: Network, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, calls = network.infer, iter(range(10))

    def infer(pixels: np.ndarray[tuple[int, ...], np.dtype[np.uint8]]) -> Inference:
        if next(calls, None) is None:
            raise BackendError("the driver gave up")
        return whole(pixels)

    monkeypatch.setattr(network, "infer", infer)
    with pytest.raises(BackendError, match="the driver gave up"):
        measure(network, PICTURES, 0.5, Meter(tmp_path))


def test_of_several_windows_the_median_counts() -> None:
    one = Speed(10, 5, 6, 7, 1.0, 0.0)
    told = median([one, replace(one, fps=30, joules=None), replace(one, fps=20, p50_ms=1)])
    assert (told.fps, told.p50_ms, told.joules) == (20, 5, 1.0)
