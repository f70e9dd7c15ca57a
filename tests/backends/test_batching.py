"""Frames of several threads in one batch: each gets its own answer, none waits longer than it was told."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from edge_infer.backends import Backend
from edge_infer.backends.openvino import OpenVino
from edge_infer.errors import BackendError, ModelError
from edge_infer.model.card import InputCard
from edge_infer.model.load import load_model
from edge_infer.network import Network
from edge_infer.scene import Scene
from tests.support import networks
from tests.support.real_networks import bundled, write_card


def echo(tmp_path: Path, *, batch: int = 3, wait_ms: float = 50, requests: int = 1) -> Backend:
    card_input = InputCard((64, 96), name="picture")
    network = networks.echo(tmp_path / "echo.onnx", ("n", 3, 64, 96))
    settings = OpenVino(batch=batch, batch_wait_ms=wait_ms, requests=requests)
    return settings.open(networks.card_for(network, card_input))


def grey(backend: Backend, level: int) -> float:
    """What the network saw, 0..255; fails where it saw more than one level."""
    with backend.request() as request:
        request.picture.fill(np.full(request.picture.tensor.shape, level, np.uint8))
        answer = request.infer({})["echo"]
        assert answer.shape == (1, 3, 64, 96)
        # decoding takes time, while others come
        time.sleep(0.001)
        assert np.ptp(answer) == 0
        return float(answer.flat[0]) * 255


def test_each_frame_gets_its_own_answer_whoever_shares_its_batch(tmp_path: Path) -> None:
    backend = echo(tmp_path, wait_ms=2, requests=2)
    assert backend.requests == 6
    assert backend.inputs[0].shape == (1, 64, 96, 3)
    # more threads than places
    levels = [level % 256 for level in range(600)]
    with ThreadPoolExecutor(9) as threads:
        answers = list(threads.map(lambda level: grey(backend, level), levels))
    assert answers == pytest.approx(levels, abs=1e-3)
    backend.close()


def test_a_full_batch_does_not_wait(tmp_path: Path) -> None:
    backend = echo(tmp_path, wait_ms=1000, batch=4)
    started_s = time.monotonic()
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(lambda level: grey(backend, level), range(4))) == pytest.approx(
            range(4), abs=1e-3
        )
    assert time.monotonic() - started_s < 0.9
    backend.close()


def test_a_frame_alone_goes_when_its_time_is_up(tmp_path: Path) -> None:
    backend = echo(tmp_path, wait_ms=100)
    for _ in range(3):
        started_s = time.monotonic()
        assert grey(backend, 9) == pytest.approx(9, abs=1e-3)
        assert 0.09 < time.monotonic() - started_s < 5
    backend.close()


def test_a_frame_waits_for_those_of_the_batch_before_it_to_be_read(tmp_path: Path) -> None:
    backend = echo(tmp_path, batch=2, wait_ms=1)
    begun, go = threading.Event(), threading.Event()

    def slow() -> float:
        with backend.request() as request:
            request.picture.fill(np.full((1, 64, 96, 3), 5, np.uint8))
            answer = request.infer({})["echo"]
            begun.set()
            assert go.wait(10)
            return float(answer.flat[0]) * 255

    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(slow)
        assert begun.wait(10)
        second = threads.submit(grey, backend, 200)
        time.sleep(0.1)
        assert not second.done()
        go.set()
        assert first.result(10) == pytest.approx(5, abs=1e-3)
        assert second.result(10) == pytest.approx(200, abs=1e-3)
    backend.close()


def test_a_failure_is_told_to_everyone_of_the_batch_and_the_next_one_runs(tmp_path: Path) -> None:
    backend = echo(tmp_path, batch=2, wait_ms=1000)

    def wrong(_: int) -> str:
        with backend.request() as request:
            try:
                request.infer({"absent": np.zeros(1)})
            except (BackendError, KeyError) as error:
                return type(error).__name__
        return "no error"

    with ThreadPoolExecutor(2) as threads:
        assert len(set(threads.map(wrong, range(2))) - {"no error"}) == 1
        assert list(threads.map(lambda level: grey(backend, level), (1, 2))) == pytest.approx(
            [1, 2], abs=1e-3
        )
    backend.close()


def test_a_frame_that_is_given_up_before_it_ran_holds_up_nobody(tmp_path: Path) -> None:
    backend = echo(tmp_path, batch=2, wait_ms=1000)
    for _ in range(3):
        with pytest.raises(ZeroDivisionError), backend.request():
            raise ZeroDivisionError
    with ThreadPoolExecutor(2) as threads:
        answers = threads.map(lambda level: grey(backend, level), (1, 2, 3, 4))
        assert list(answers) == pytest.approx([1, 2, 3, 4], abs=1e-3)
    backend.close()


def test_who_is_in_a_batch_while_the_backend_closes_gets_an_answer(tmp_path: Path) -> None:
    backend = echo(tmp_path, batch=2, wait_ms=200)
    asked = threading.Event()

    def waiting() -> float:
        with backend.request() as request:
            request.picture.fill(np.full((1, 64, 96, 3), 7, np.uint8))
            asked.set()
            return float(request.infer({})["echo"].flat[0]) * 255

    with ThreadPoolExecutor(1) as threads:
        answer = threads.submit(waiting)
        assert asked.wait(10)
        backend.close()
        assert answer.result(10) == pytest.approx(7, abs=1e-3)
    with pytest.raises(BackendError, match="closed"), backend.request():
        pass


def test_a_real_network_finds_the_same_alone_and_in_a_batch() -> None:
    scene = Scene(5, 10, defect_rate=0.5)
    pictures = [scene.pixels(scene.arrival(number)) for number in range(8)]
    card = load_model(bundled()[0])
    alone = Network.open(card, OpenVino())
    together = Network.open(card, OpenVino(batch=4, batch_wait_ms=1000))
    with ThreadPoolExecutor(4) as threads:
        found = [one.findings.detections for one in threads.map(together.infer, pictures)]
    for picture, detections in zip(pictures, found, strict=True):
        expected = alone.infer(picture).findings.detections
        assert expected is not None
        assert detections is not None
        assert len(expected) > 0
        assert list(detections.class_ids) == list(expected.class_ids)
        np.testing.assert_allclose(detections.boxes, expected.boxes, atol=1e-2)
        np.testing.assert_allclose(detections.scores, expected.scores, atol=1e-4)
    alone.close()
    together.close()


@pytest.mark.parametrize("name", ["yolox_nano/yolox_nano", "fastestdet/FastestDet"])
def test_a_network_that_takes_one_picture_only_is_refused(shared: Path, tmp_path: Path, name: str) -> None:
    card = load_model(write_card(tmp_path, shared, name))
    with pytest.raises(ModelError, match="batches of 4") as refused:
        OpenVino(batch=4).open(card)
    assert str(refused.value).endswith("export it with a free batch, or remove `batch` under `backend:`")
