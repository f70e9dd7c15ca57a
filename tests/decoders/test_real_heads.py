"""Preprocessing and decoders over real networks, run by ONNX Runtime itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import onnxruntime
import pytest
from numpy.typing import NDArray

from edge_infer.decoders import DECODERS, Decoder
from edge_infer.findings import Findings
from edge_infer.model.card import InputCard, ModelCard
from edge_infer.picture import read
from edge_infer.registry import resolve
from edge_infer.tensor import PictureSpec, TensorSpec
from tests.support.preprocessing import Fresh


class _Network:
    """A card, ONNX Runtime and what lies before and behind it."""

    def __init__(self, path: Path, decoder: str, labels: list[str], **changes: Any) -> None:
        self.session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        (given,) = self.session.get_inputs()
        height, width = given.shape[2:]
        self.input = given.name
        scale = changes.pop("scale", 255)
        card = InputCard((height, width), scale=scale, **changes)
        spec = PictureSpec(
            given.name,
            tuple(given.shape),
            "float32",
            "nchw",
            height,
            width,
            card.color,
            scale,
            card.mean,
            card.std,
        )
        outputs = tuple(
            TensorSpec(output.name, tuple(output.shape), "float32") for output in self.session.get_outputs()
        )
        self.preprocess = Fresh(card, spec)
        model = ModelCard("test", path, "0", "detect", decoder, tuple(labels), card)
        self.decoder: Decoder = resolve(DECODERS, decoder)(model, outputs)

    def __call__(
        self, pixels: NDArray[np.uint8], region: tuple[int, int, int, int] | None = None
    ) -> Findings:
        tensor, transform = self.preprocess(pixels, region)
        names = [output.name for output in self.session.get_outputs()]
        answers = self.session.run(names, {self.input: tensor})
        return self.decoder.decode(dict(zip(names, answers, strict=True)), transform)


CASES = [
    ("A01", "model.onnx", "yolov8", "rgb"),
    ("A04", "model.onnx", "yolo-end2end", "rgb"),
    ("A05", "model.onnx", "yolov8", "rgb"),
    ("A22", "model.onnx", "yolov8", "rgb"),
    ("A42", "model.onnx", "yolov8", "rgb"),
    ("A43", "model.onnx", "yolo-end2end", "rgb"),
    ("A43", "model_bgr.onnx", "yolo-end2end", "bgr"),
    ("A45", "model.onnx", "yolov8", "rgb"),
]


@pytest.mark.parametrize(("case", "model", "decoder", "color"), CASES)
def test_reported_problems_are_answered_right(
    shared: Path, case: str, model: str, decoder: str, color: str
) -> None:
    folder = shared / "cases/open" / case
    expected = json.loads((folder / "expected.json").read_text())
    network = _Network(folder / model, decoder, expected["labels"], color=color)
    for image in expected["images"]:
        findings = network(read(folder / image["file"]).pixels)
        assert findings.undefined is None
        assert findings.detections is not None
        found = {detection.label: detection for detection in findings.detections}
        assert len(found) == len(findings.detections) == len(image["detections"])
        for wish in image["detections"]:
            detection = found[wish["label"]]
            assert np.abs(np.subtract(detection.box, wish["box"])).max() <= image["tol_px"]
            assert detection.score == pytest.approx(wish["score"], abs=expected["tol_score"])


def test_rows_that_are_not_finite_are_counted(shared: Path) -> None:
    folder = shared / "cases/open/A42"
    pixels = read(folder / "p_1280x720.png").pixels
    labels = ["red", "green", "blue"]
    assert _Network(folder / "model.onnx", "yolov8", labels)(pixels).nan_rows == 3
    assert _Network(folder / "model_allnan.onnx", "yolov8", labels)(pixels).undefined == "nan"


def test_swapped_colours_swap_what_is_seen(shared: Path) -> None:
    # the proof that the colours of the table above are looked at
    folder = shared / "cases/open/A43"
    findings = _Network(folder / "model_bgr.onnx", "yolo-end2end", ["red", "green", "blue"], color="rgb")(
        read(folder / "p_1280x720.png").pixels
    )
    assert findings.detections is not None
    first = next(one for one in findings.detections if one.box[0] < 200)
    assert first.label == "blue"


def test_a_12_bit_picture_gives_no_false_boxes(shared: Path) -> None:
    folder = shared / "cases/open/A45"
    picture = read(folder / "twelve_in_16.png")
    findings = _Network(folder / "model.onnx", "yolov8", ["red", "green", "blue"])(picture.pixels)
    assert findings.detections is not None
    assert len(findings.detections) == 0
    assert picture.warnings


def _yolox_as_documented(
    session: onnxruntime.InferenceSession, image: NDArray[np.uint8]
) -> list[tuple[int, float, list[float]]]:
    """YOLOX's own demo, written again: preproc, demo_postprocess, multiclass NMS per class."""
    padded = np.full((416, 416, 3), 114, np.uint8)
    ratio = min(416 / image.shape[0], 416 / image.shape[1])
    width, height = int(image.shape[1] * ratio), int(image.shape[0] * ratio)
    padded[:height, :width] = cv2.resize(image, (width, height), interpolation=cv2.INTER_LINEAR)
    tensor = np.ascontiguousarray(padded.transpose(2, 0, 1), np.float32)[None]
    (answer,) = session.run(None, {session.get_inputs()[0].name: tensor})
    rows = np.asarray(answer)[0]
    grids, strides = [], []
    for stride in (8, 16, 32):
        across, down = np.meshgrid(np.arange(416 // stride), np.arange(416 // stride))
        grid = np.stack((across, down), 2).reshape(-1, 2)
        grids.append(grid)
        strides.append(np.full((len(grid), 1), stride))
    stride_of = np.concatenate(strides)
    center = (rows[:, :2] + np.concatenate(grids)) * stride_of
    side = np.exp(rows[:, 2:4]) * stride_of
    # the demo divides by the wished ratio, which is up to 3 px beside what resizing to whole pixels did
    applied = np.array([width / image.shape[1], height / image.shape[0]] * 2)
    boxes = np.concatenate([center - side / 2, center + side / 2], 1) / applied
    scores = rows[:, 4:5] * rows[:, 5:]
    found = []
    for class_id in range(80):
        left = [row for row in np.argsort(-scores[:, class_id]).tolist() if scores[row, class_id] >= 0.3]
        while left:
            best = left.pop(0)
            found.append((class_id, float(scores[best, class_id]), boxes[best].tolist()))
            left = [row for row in left if _overlap(boxes[best], boxes[row]) <= 0.45]
    return sorted(found, key=lambda one: -one[1])


def _overlap(a: NDArray[np.floating], b: NDArray[np.floating]) -> float:
    width, height = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    both = max(width, 0) * max(height, 0)
    return float(both / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - both))


@pytest.fixture(scope="module")
def yolox(shared: Path) -> _Network:
    labels = (shared / "assets/coco80.txt").read_text().splitlines()
    path = shared / "assets/yolox_nano/yolox_nano.onnx"
    return _Network(path, "yolox-raw", labels, color="bgr", align="top_left", scale=1)


@pytest.mark.parametrize(
    ("photo", "seen"), [("cat_720p", {"cat"}), ("pets", {"dog"}), ("kite_and_cold", {"kite", "person"})]
)
def test_yolox_sees_in_a_real_photo_what_its_own_demo_sees(
    shared: Path, yolox: _Network, photo: str, seen: set[str]
) -> None:
    pixels = read(shared / f"assets/photos/{photo}.jpg").pixels
    found = yolox(pixels).detections
    assert found is not None
    sure = [one for one in found if one.score >= 0.3]
    assert {one.label for one in sure if one.score > 0.5} == seen
    expected = _yolox_as_documented(yolox.session, pixels)
    assert [one.class_id for one in sure] == [class_id for class_id, _, _ in expected]
    np.testing.assert_allclose([one.score for one in sure], [score for _, score, _ in expected], atol=1e-5)
    for one, (_, _, box) in zip(sure, expected, strict=True):
        height, width = pixels.shape[:2]
        inside = np.clip(box, 0, [width, height] * 2)
        assert _overlap(np.array(one.box), inside) > 0.99


def test_a_region_finds_the_same_dog_in_pixels_of_the_whole_frame(shared: Path, yolox: _Network) -> None:
    pixels = read(shared / "assets/photos/pets.jpg").pixels
    whole, part = yolox(pixels).detections, yolox(pixels, (301, 131, 512, 430)).detections
    assert whole is not None
    assert part is not None
    (right,) = [one for one in whole if one.label == "dog" and one.box[0] > 300]
    (found,) = [one for one in part if one.label == "dog"]
    assert _overlap(np.array(found.box), np.array(right.box)) > 0.9
