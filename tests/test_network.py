"""One frame's way through a network."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from edge_infer.backends import BACKENDS, Backend, BackendSettings
from edge_infer.backends.blobs import Blobs
from edge_infer.backends.onnxruntime import OnnxRuntime, OnnxRuntimeBackend
from edge_infer.errors import BackendError, ModelError
from edge_infer.findings import Detections, Findings
from edge_infer.geometry import Transform
from edge_infer.model.card import InputCard, ModelCard
from edge_infer.model.load import load_model
from edge_infer.network import Network
from edge_infer.picture import read
from edge_infer.registry import resolve
from edge_infer.tensor import Tensor
from tests.support import networks


@pytest.fixture(params=sorted(BACKENDS))
def settings(request: pytest.FixtureRequest) -> Callable[..., BackendSettings]:
    name: str = request.param
    return lambda **keys: resolve(BACKENDS, name)(type=name, **keys)


def yolox_nano(shared: Path, folder: Path) -> Path:
    """The card of the real network, as its documentation describes it."""
    (folder / "model.yaml").write_text(
        "format: 1\nname: yolox-nano\nversion: '0.1.1'\ndecoder: yolox-raw\n"
        f"network: {shared}/assets/yolox_nano/yolox_nano.onnx\n"
        f"labels_file: {shared}/assets/coco80.txt\n"
        "input: {size: [416, 416], align: top_left, color: bgr, scale: 1}\n"
        "score_threshold: 0.3\n"
    )
    return folder


def detections(network: Network, pixels: NDArray[np.uint8]) -> Detections:
    found = network.infer(pixels).findings.detections
    assert found is not None
    return found


def overlap(a: NDArray[np.float32], b: NDArray[np.float32]) -> float:
    width = min(a[2], b[2]) - max(a[0], b[0])
    height = min(a[3], b[3]) - max(a[1], b[1])
    both = max(width, 0) * max(height, 0)
    areas = sum((box[2] - box[0]) * (box[3] - box[1]) for box in (a, b))
    return float(both / (areas - both))


# computed once with an independent decode after YOLOX's own demo
REAL = {
    "cat_720p.jpg": [("cat", 0.787)],
    "pets.jpg": [("dog", 0.910), ("dog", 0.841)],
    "kite_and_cold.jpg": [
        ("kite", 0.855), ("person", 0.832), ("person", 0.814), ("kite", 0.743), ("person", 0.616),
        ("person", 0.464), ("kite", 0.462), ("person", 0.429), ("person", 0.379), ("kite", 0.353),
    ],
}  # fmt: skip


@pytest.mark.parametrize("photo", REAL)
def test_a_real_network_finds_what_is_in_real_photos_and_both_backends_agree(
    shared: Path, tmp_path: Path, photo: str
) -> None:
    card = load_model(yolox_nano(shared, tmp_path))
    pixels = read(shared / "assets/photos" / photo).pixels
    answers = []
    for name in BACKENDS:
        network = Network.open(card, resolve(BACKENDS, name)(type=name))
        answers.append(detections(network, pixels))
        network.close()
    one, other = answers
    assert one.labels == other.labels == tuple(label for label, _ in REAL[photo])
    np.testing.assert_allclose(one.scores, [score for _, score in REAL[photo]], atol=2e-3)
    np.testing.assert_allclose(one.scores, other.scores, atol=1e-3)
    for a, b in zip(one.boxes, other.boxes, strict=True):
        assert overlap(a, b) >= 0.99


def test_boxes_found_in_a_region_are_pixels_of_the_whole_frame(
    shared: Path, settings: Callable[..., BackendSettings]
) -> None:
    folder = shared / "cases/open/A01"
    picture = read(folder / "p_641x333.png").pixels
    frame = np.full((700, 900, 3), 114, np.uint8)
    frame[200:533, 150:791] = picture
    frame.flags.writeable = False
    network = Network.open(load_model(folder / "model.onnx"), settings())
    alone = detections(network, picture)
    inside = network.infer(frame, (150, 200, 791, 533)).findings.detections
    assert inside is not None
    assert inside.labels == alone.labels == ("red", "green", "blue")
    np.testing.assert_allclose(inside.boxes, alone.boxes + np.array([150, 200, 150, 200]), atol=1e-3)
    network.close()


def test_it_says_who_it_is_and_where_it_runs(
    shared: Path, tmp_path: Path, settings: Callable[..., BackendSettings]
) -> None:
    network = Network.open(load_model(yolox_nano(shared, tmp_path)), settings(requests=2))
    assert (network.identity.name, network.identity.version) == ("yolox-nano", "0.1.1")
    assert network.identity.sha256 == network.card.sha256
    assert (network.device.requested, network.device.running) == ("CPU", "CPU")
    assert network.backend_name == settings().type
    assert network.requests == 2
    network.close()
    network.close()
    with pytest.raises(BackendError, match="closed"):
        network.infer(np.zeros((10, 10, 3), np.uint8))


def test_as_many_threads_as_requests_get_the_findings_of_their_own_frame(
    shared: Path, settings: Callable[..., BackendSettings]
) -> None:
    folder = shared / "cases/open/A01"
    network = Network.open(load_model(folder / "model.onnx"), settings(requests=2))
    frames = [read(folder / name).pixels for name in ("p_1280x720.png", "p_720x1280.png")]
    alone = [detections(network, frame).boxes for frame in frames]
    with ThreadPoolExecutor(2) as threads:
        found = list(threads.map(lambda i: detections(network, frames[i % 2]).boxes, range(12)))
    for i, boxes in enumerate(found):
        np.testing.assert_array_equal(boxes, alone[i % 2])
    network.close()


def test_no_frame_enters_before_the_answer_to_the_one_before_it_was_read(
    shared: Path, settings: Callable[..., BackendSettings], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = shared / "cases/open/A01"
    network = Network.open(load_model(folder / "model.onnx"), settings(requests=1))
    frames = [read(folder / name).pixels for name in ("p_1280x720.png", "p_720x1280.png")]
    alone = [detections(network, frame).boxes for frame in frames]
    decode = network._decoder.decode
    others: list[Future[NDArray[np.float32]]] = []
    with ThreadPoolExecutor(1) as threads:

        def slowly(outputs: Mapping[str, Tensor], transform: Transform) -> Findings:
            if not others:
                others.append(threads.submit(lambda: detections(network, frames[1]).boxes))
                # it would be through in a fraction of that
                assert not wait(others, 0.5).done
            return decode(outputs, transform)

        monkeypatch.setattr(network._decoder, "decode", slowly)
        np.testing.assert_array_equal(detections(network, frames[0]).boxes, alone[0])
        np.testing.assert_array_equal(others[0].result(10), alone[1])
    network.close()


def test_of_a_fixed_batch_the_first_answer_counts(
    tmp_path: Path, settings: Callable[..., BackendSettings]
) -> None:
    rows = np.zeros((2, 4, 6), np.float32)
    rows[0, 0] = [8, 8, 40, 40, 0.9, 1]
    rows[1, :] = [1, 1, 60, 60, 0.99, 0]
    path = networks.rows(tmp_path / "batch.onnx", rows, (2, 3, 64, 64))
    network = Network.open(networks.card_for(path, InputCard((64, 64), name="picture")), settings())
    found = detections(network, np.zeros((64, 64, 3), np.uint8))
    assert found.labels == ("b",)
    np.testing.assert_allclose(found.boxes, [[8, 8, 40, 40]])
    network.close()


def test_an_input_that_nobody_knows_is_named_when_it_is_opened(tmp_path: Path) -> None:
    path = networks.rows(tmp_path / "two.onnx", np.zeros((1, 4, 6)), inputs=[("sensitivity", "float32", ())])
    card = networks.card_for(path, InputCard((64, 64), name="picture"))
    for name in BACKENDS:
        with pytest.raises(ModelError, match="sensitivity"):
            Network.open(card, resolve(BACKENDS, name)(type=name))


def test_a_head_that_does_not_fit_its_card_is_refused_before_the_first_frame(
    tmp_path: Path, settings: Callable[..., BackendSettings]
) -> None:
    path = networks.rows(tmp_path / "m.onnx", np.zeros((1, 4, 7)))
    with pytest.raises(ModelError, match=r"m\.onnx"):
        Network.open(networks.card_for(path, InputCard((64, 64), name="picture")), settings())


def test_a_network_that_is_refused_leaves_no_open_backend(tmp_path: Path) -> None:
    opened: list[Backend] = []

    class Watched(OnnxRuntime):
        def open(self, card: ModelCard, blobs: Blobs | None = None) -> OnnxRuntimeBackend:
            backend = super().open(card, blobs)
            opened.append(backend)
            return backend

    path = networks.rows(tmp_path / "m.onnx", np.zeros((1, 4, 7)))
    with pytest.raises(ModelError):
        Network.open(networks.card_for(path, InputCard((64, 64), name="picture")), Watched())
    with pytest.raises(BackendError, match="closed"), opened[0].request():
        pass


def test_rows_that_are_not_finite_are_dropped_and_counted(
    tmp_path: Path, settings: Callable[..., BackendSettings]
) -> None:
    rows = np.zeros((1, 3, 6), np.float32)
    rows[0, 0] = [8, 8, 40, 40, 0.9, 1]
    rows[0, 1] = [np.nan, 8, 40, 40, 0.9, 1]
    path = networks.rows(tmp_path / "m.onnx", rows)
    network = Network.open(networks.card_for(path, InputCard((64, 64), name="picture")), settings())
    findings = network.infer(np.zeros((64, 64, 3), np.uint8)).findings
    assert findings.nan_rows == 1
    assert findings.undefined is None
    assert findings.detections is not None
    assert len(findings.detections) == 1
    network.close()


def test_the_time_of_each_step_is_told(shared: Path, settings: Callable[..., BackendSettings]) -> None:
    folder = shared / "cases/open/A01"
    network = Network.open(load_model(folder / "model.onnx"), settings())
    image = cv2.imread(str(folder / "p_1280x720.png"))
    assert image is not None
    inference = network.infer(np.asarray(image, np.uint8))
    assert min(inference.preprocess_ms, inference.infer_ms, inference.postprocess_ms) > 0
    network.close()
