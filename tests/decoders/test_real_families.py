"""Real networks on real pictures, on both backends, against their own documentation written once more."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

import cv2
import numpy as np
import onnxruntime
import pytest
from numpy.typing import NDArray

from edge_infer.backends import BACKENDS
from edge_infer.findings import Detection
from edge_infer.model.load import load_model
from edge_infer.network import Network
from edge_infer.picture import read
from edge_infer.registry import resolve

Pixels = NDArray[np.uint8]
Values = NDArray[np.float32]
Wanted = list[tuple[int, float, list[float]]]

PHOTOS = ["cat_720p.jpg", "pets.jpg", "kite_and_cold.jpg"]
THRESHOLD, IOU = 0.3, 0.45


def _see(card: Path, backend: str, pixels: Pixels) -> list[Detection]:
    settings = resolve(BACKENDS, backend)()
    network = Network.open(load_model(card), settings)
    try:
        detections = network.infer(pixels).findings.detections
    finally:
        network.close()
    assert detections is not None
    return list(detections)


def _card(folder: Path, network: Path, *lines: str) -> Path:
    text = [
        "format: 1", "name: x", f"network: {network}", f"score_threshold: {THRESHOLD}", f"nms_iou: {IOU}",
        *lines,
    ]  # fmt: skip
    (folder / "model.yaml").write_text("\n".join(text) + "\n")
    return folder


def _answers(network: Path, tensor: NDArray[np.floating]) -> dict[str, Values]:
    session = onnxruntime.InferenceSession(network, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    given = {session.get_inputs()[0].name: np.ascontiguousarray(tensor, np.float32)}
    return dict(zip(names, session.run(names, given), strict=True))


def _overlap(a: Sequence[float], b: Sequence[float]) -> float:
    width, height = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    both = max(width, 0) * max(height, 0)
    return both / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - both)


def _one_each(rows: Wanted) -> Wanted:
    kept: Wanted = []
    for row in sorted(rows, key=lambda row: -row[1]):
        if all(other[0] != row[0] or _overlap(other[2], row[2]) <= IOU for other in kept):
            kept.append(row)
    return kept


def _assert_same(found: list[Detection], wanted: Wanted, pixels: Pixels, tolerance: float = 1e-3) -> None:
    assert [one.class_id for one in found] == [class_id for class_id, _, _ in wanted]
    height, width = pixels.shape[:2]
    for one, (_, score, box) in zip(found, wanted, strict=True):
        assert one.score == pytest.approx(score, abs=tolerance)
        assert _overlap(one.box, np.clip(box, 0, [width, height] * 2).tolist()) > 0.99


def _nanodet(network: Path, pixels: Pixels) -> Wanted:
    """NanoDet: letterboxed on black, mean and std of BGR, distances as distributions around cell middles."""
    size = 320
    height, width = pixels.shape[:2]
    scale = min(size / width, size / height)
    new_width, new_height = round(width * scale), round(height * scale)
    left, top = (size - new_width) // 2, (size - new_height) // 2
    canvas = np.zeros((size, size, 3), np.uint8)
    canvas[top : top + new_height, left : left + new_width] = cv2.resize(pixels, (new_width, new_height))
    tensor = (canvas - np.array([103.53, 116.28, 123.675])) / np.array([57.375, 57.12, 58.395])
    answers = _answers(network, tensor.transpose(2, 0, 1)[None])
    rows: Wanted = []
    for stride in (8, 16, 32):
        scores = answers[f"cls_pred_stride_{stride}"][0]
        sides = answers[f"dis_pred_stride_{stride}"][0].astype(np.float64)
        for index in np.flatnonzero(scores.max(axis=1) >= THRESHOLD).tolist():
            y, x = divmod(index, size // stride)
            middle = np.array([x, y]) * stride + 0.5 * (stride - 1)
            raised = np.exp(sides[index].reshape(4, 8))
            reach = raised @ np.arange(8) / raised.sum(axis=1) * stride
            corners = np.array([*(middle - reach[:2]), *(middle + reach[2:])])
            box = (corners - [left, top, left, top]) / ([new_width / width, new_height / height] * 2)
            rows.append((int(scores[index].argmax()), float(scores[index].max()), box.tolist()))
    return _one_each(rows)


def _fastestdet(network: Path, pixels: Pixels) -> Wanted:
    """FastestDet's example: stretched by area, BGR / 255, one grid of fractions."""
    size = 352
    tensor = cv2.resize(pixels, (size, size), interpolation=cv2.INTER_AREA).transpose(2, 0, 1)[None] / 255
    (grid,) = _answers(network, tensor)["758"].astype(np.float64)
    _, lines, columns = grid.shape
    height, width = pixels.shape[:2]
    rows: Wanted = []
    for y in range(lines):
        for x in range(columns):
            cell = grid[:, y, x]
            score = float(cell[0] * cell[5:].max())
            if score >= THRESHOLD:
                middle = (np.array([x, y]) + np.tanh(cell[1:3])) / [columns, lines] * [width, height]
                half = 1 / (1 + np.exp(-cell[3:5])) / 2 * [width, height]
                rows.append((int(cell[5:].argmax()), score, [*(middle - half), *(middle + half)]))
    return _one_each(rows)


def _ultraface(network: Path, pixels: Pixels) -> Wanted:
    """UltraFace's example: stretched, RGB, (x - 127) / 128, the second column is a face."""
    picture = cv2.resize(cv2.cvtColor(pixels, cv2.COLOR_BGR2RGB), (320, 240))
    tensor = (picture.astype(np.float64) - 127) / 128
    answers = _answers(network, tensor.transpose(2, 0, 1)[None])
    height, width = pixels.shape[:2]
    rows: Wanted = [
        (0, float(score), (box * [width, height, width, height]).tolist())
        for (_, score), box in zip(answers["scores"][0], answers["boxes"][0], strict=True)
        if score >= THRESHOLD
    ]
    return _one_each(rows)


def _yunet(network: Path, pixels: Pixels) -> Wanted:
    """OpenCV's own detector, given the letterboxed picture."""
    size = 320
    height, width = pixels.shape[:2]
    scale = min(size / width, size / height)
    new_width, new_height = int(width * scale), int(height * scale)
    canvas = np.zeros((size, size, 3), np.uint8)
    canvas[:new_height, :new_width] = cv2.resize(pixels, (new_width, new_height))
    detector = cv2.FaceDetectorYN.create(str(network), "", (size, size), THRESHOLD, IOU)
    _, faces = detector.detect(canvas)
    rows: Wanted = []
    for x, y, w, h, *_, score in [] if faces is None else np.asarray(faces).tolist():
        by_x, by_y = width / new_width, height / new_height
        rows.append((0, score, [x * by_x, y * by_y, (x + w) * by_x, (y + h) * by_y]))
    return sorted(rows, key=lambda row: -row[1])


@pytest.fixture(scope="session")
def face() -> Pixels:
    """A real portrait, from the files of scikit-image."""
    files = metadata.files("scikit-image") or []
    (path,) = [file.locate() for file in files if file.name == "astronaut.png"]
    return read(Path(str(path))).pixels


@pytest.mark.parametrize("backend", list(BACKENDS))
@pytest.mark.parametrize("photo", PHOTOS)
def test_nanodet_finds_what_its_documentation_finds(
    shared: Path, tmp_path: Path, photo: str, backend: str
) -> None:
    network = shared / "assets/nanodet_m/nanodet_m_320.onnx"
    pixels = read(shared / "assets/photos" / photo).pixels
    found = _see(_card(tmp_path, network, f"labels_file: {shared}/assets/coco80.txt"), backend, pixels)
    assert {one.label for one in found} & {"cat", "dog", "kite"}
    _assert_same(found, _nanodet(network, pixels), pixels)


@pytest.mark.parametrize("backend", list(BACKENDS))
@pytest.mark.parametrize("photo", PHOTOS)
def test_fastestdet_finds_what_its_example_finds(
    shared: Path, tmp_path: Path, photo: str, backend: str
) -> None:
    network = shared / "assets/fastestdet/FastestDet.onnx"
    pixels = read(shared / "assets/photos" / photo).pixels
    found = _see(_card(tmp_path, network, f"labels_file: {shared}/assets/coco80.txt"), backend, pixels)
    assert {one.label for one in found} & {"cat", "dog", "kite"}
    _assert_same(found, _fastestdet(network, pixels), pixels)


@pytest.mark.parametrize("backend", list(BACKENDS))
@pytest.mark.parametrize("variant", ["RFB", "slim"])
def test_ultraface_finds_the_face_that_its_example_finds_with_nothing_configured(
    shared: Path, tmp_path: Path, face: Pixels, variant: str, backend: str
) -> None:
    network = shared / f"assets/ultraface/version-{variant}-320.onnx"
    (found,) = _see(_card(tmp_path, network), backend, face)
    assert (found.label, found.score > 0.99) == ("face", True)
    _assert_same([found], _ultraface(network, face), face)


@pytest.mark.parametrize("backend", list(BACKENDS))
def test_yunet_finds_the_face_that_opencv_finds_with_nothing_configured(
    shared: Path, tmp_path: Path, face: Pixels, backend: str
) -> None:
    network = shared / "assets/yunet/yunet_n_320_320.onnx"
    # once as it is and once wide, with the padding on another side
    for pixels in (face, face[40:240]):
        (found,) = _see(_card(tmp_path, network), backend, pixels)
        assert (found.label, found.score > 0.85) == ("face", True)
        _assert_same([found], _yunet(network, pixels), pixels)


@pytest.mark.parametrize("backend", list(BACKENDS))
def test_yunet_with_free_sizes_takes_the_size_of_the_card(
    shared: Path, tmp_path: Path, face: Pixels, backend: str
) -> None:
    network = shared / "assets/yunet/yunet_n_dynamic.onnx"
    (found,) = _see(_card(tmp_path, network, "input: {size: [256, 320]}"), backend, face)
    assert _overlap(found.box, (180, 60, 270, 177)) > 0.8


def test_a_picture_without_faces_has_none(shared: Path, tmp_path: Path) -> None:
    pixels = read(shared / "assets/photos/cat_720p.jpg").pixels
    for network in ("yunet/yunet_n_320_320.onnx", "ultraface/version-RFB-320.onnx"):
        assert _see(_card(tmp_path, shared / "assets" / network), "onnxruntime", pixels) == []
