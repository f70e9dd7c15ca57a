"""Networks of every task, run: the same answer on both backends, right in the picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edge_infer.answer import as_json
from edge_infer.backends import BACKENDS
from edge_infer.errors import ModelError
from edge_infer.findings import Anomaly, Findings
from edge_infer.model.load import load_model
from edge_infer.network import Network
from edge_infer.registry import resolve
from tests.support import networks, tasks
from tests.support.heat import heat

Pixels = NDArray[np.uint8]
BOTH = sorted(BACKENDS)


def _run(model: Path, pixels: Pixels, backend: str, region: Any = None) -> Findings:
    network = Network.open(load_model(model), resolve(BACKENDS, backend)(type=backend))
    try:
        return network.infer(pixels, region).findings
    finally:
        network.close()


def _anomaly(findings: Findings) -> Anomaly:
    assert findings.anomaly is not None
    return findings.anomaly


def _spot(width: int, height: int, box: tuple[int, int, int, int]) -> Pixels:
    frame = np.full((height, width, 3), 40, np.uint8)
    x1, y1, x2, y2 = box
    frame[y1:y2, x1:x2] = (30, 230, 30)
    return frame


@pytest.mark.parametrize("backend", BOTH)
@pytest.mark.parametrize("kind", ["one", "patchcore", "padim of two", "external", "ir"])
def test_an_anomaly_is_found_where_it_is_whatever_the_export(tmp_path: Path, backend: str, kind: str) -> None:
    batch = 2 if kind in ("patchcore", "padim of two") else 1
    model = heat(
        tmp_path / "model.onnx",
        (64, 96),
        batch=batch,
        per_picture=kind == "patchcore",
        external=kind == "external",
    )
    if kind == "ir":
        if backend == "onnxruntime":
            return
        model = networks.as_ir(model)
    card = load_model(model)
    assert any("batch is fixed at 2" in warning for warning in card.warnings) is (batch == 2)
    for width, height in ((960, 240), (200, 777), (96, 64)):
        box = (width // 2, height // 4, width * 3 // 4, height // 2)
        found = _anomaly(_run(model, _spot(width, height, box), backend))
        assert found.score == pytest.approx(230 / 255, abs=0.01)
        assert found.is_anomalous
        assert found.hot_box == pytest.approx(box, abs=4)
        normal = _anomaly(_run(model, _spot(width, height, (0, 0, 0, 0)), backend))
        assert (normal.is_anomalous, normal.hot_box) == (False, None)


@pytest.mark.parametrize("backend", BOTH)
def test_the_hot_box_of_a_region_is_given_in_the_whole_frame(tmp_path: Path, backend: str) -> None:
    model = heat(tmp_path / "model.onnx")
    frame = _spot(640, 480, (300, 200, 400, 260))
    found = _anomaly(_run(model, frame, backend, (200, 100, 500, 400)))
    assert found.hot_box == pytest.approx((300, 200, 400, 260), abs=4)
    elsewhere = _anomaly(_run(model, frame, backend, (0, 0, 200, 480)))
    assert elsewhere.hot_box is None


@pytest.mark.parametrize("backend", BOTH)
def test_a_map_of_the_middle_is_placed_before_it_is_enlarged(tmp_path: Path, backend: str) -> None:
    model = heat(tmp_path / "model.onnx", (64, 64), graph_crop=(56, 40))
    box = (300, 120, 420, 200)
    findings = _run(model, _spot(640, 320, box), backend)
    assert _anomaly(findings).hot_box == pytest.approx(box, abs=5)
    grid = _anomaly(findings).heat_map
    assert grid is not None
    assert grid.inside == (120, 20, 520, 300)


@pytest.mark.parametrize("backend", BOTH)
def test_sensitivities_are_fed_and_a_score_may_depend_on_them(tmp_path: Path, backend: str) -> None:
    import onnx
    from onnx import helper

    network = onnx.load(heat(tmp_path / "model.onnx"))
    # 0.5 each leave the score where it was
    for node in network.graph.node:
        if node.output[0] == "pred_score":
            node.output[0] = "plain"
    for name in ("image_sensitivity", "pixel_sensitivity"):
        network.graph.input.append(helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, []))
    network.graph.node.extend(
        [
            helper.make_node("Add", ["image_sensitivity", "pixel_sensitivity"], ["both"]),
            helper.make_node("Mul", ["plain", "both"], ["pred_score"]),
        ]
    )
    onnx.save(network, tmp_path / "model.onnx")
    frame = _spot(320, 160, (100, 40, 160, 80))
    assert _anomaly(_run(tmp_path / "model.onnx", frame, backend)).score == pytest.approx(0.9, abs=0.02)


@pytest.mark.parametrize("backend", BOTH)
def test_raw_scores_that_the_network_does_not_normalise_are_refused_with_the_key_to_set(
    tmp_path: Path, backend: str
) -> None:
    heat(tmp_path / "model.onnx")
    (tmp_path / "model.yaml").write_text("format: 1\nname: a\nnetwork: model.onnx\ninput: {scale: 1}\n")
    frame = _spot(320, 160, (100, 40, 160, 80))
    with pytest.raises(ModelError, match=r"anomaly score of 230.*`anomaly: "):
        _run(tmp_path, frame, backend)
    with (tmp_path / "model.yaml").open("a") as card:
        card.write("anomaly: {threshold: 100, min: 0, max: 400}\n")
    found = _anomaly(_run(tmp_path, frame, backend))
    assert found.score == pytest.approx(130 / 400 + 0.5, abs=0.01)
    assert found.hot_box == pytest.approx((100, 40, 160, 80), abs=4)


def _rows(decoder: str, extra: list[float]) -> NDArray[np.float32]:
    total = 315 if decoder == "yolov8" else 300
    matrix = np.zeros((total, 6 + len(extra)), np.float32)
    if decoder == "yolov8":
        matrix[3] = [80, 48, 60, 30, 0.1, 0.9, *extra]
        return np.ascontiguousarray(matrix.T)[None]
    matrix[0] = [50, 33, 110, 63, 0.9, 1, *extra]
    return matrix[None]


@pytest.mark.parametrize("decoder", ["yolov8", "yolo-end2end"])
@pytest.mark.parametrize("task", ["segment", "pose", "obb"])
def test_both_backends_give_the_same_answer_to_the_same_head(tmp_path: Path, task: str, decoder: str) -> None:
    extra = {"segment": [1.0, -2.0, 0.5], "pose": [60, 40, 0.7, 100, 55, 0.2], "obb": [0.4]}[task]
    answers: dict[str, NDArray[Any]] = {"output0": _rows(decoder, extra)}
    if task == "segment":
        answers["output1"] = np.random.default_rng(2).normal(size=(1, 3, 24, 40)).astype(np.float32)
    metadata = networks.ultralytics(
        ["cap", "tear"], task=task, kpt_shape="[2, 3]", end2end=str(decoder == "yolo-end2end")
    )
    model = tasks.network(tmp_path / "m.onnx", answers, metadata=metadata)
    frame = np.zeros((299, 501, 3), np.uint8)
    first, second = (_run(model, frame, backend) for backend in BOTH)
    assert as_json(first) == as_json(second)
    assert first.detections is not None
    assert first.detections.labels == ("tear",)
    if task == "segment":
        assert second.detections is not None
        one, other = first.detections.masks, second.detections.masks
        assert one is not None
        assert other is not None
        np.testing.assert_allclose(one[0].values, other[0].values, atol=1e-5)


@pytest.mark.parametrize("backend", BOTH)
@pytest.mark.parametrize("last", ["Softmax", None])
def test_class_scores_are_probabilities_once(tmp_path: Path, backend: str, last: str | None) -> None:
    model = tasks.network(tmp_path / "m.onnx", {"scores": np.array([[1, 3, -2]], np.float32)}, last=last)
    findings = _run(model, np.zeros((200, 300, 3), np.uint8), backend)
    assert findings.classes is not None
    assert [one.label for one in findings.classes] == ["class1", "class0", "class2"]
    assert sum(one.score for one in findings.classes) == pytest.approx(1, abs=1e-5)
    assert findings.classes[0].score == pytest.approx(0.8756, abs=1e-4)


@pytest.mark.parametrize("backend", BOTH)
def test_a_map_of_class_ids_of_any_type_is_read(tmp_path: Path, backend: str) -> None:
    classes = np.zeros((1, *tasks.SIZE), np.int64)
    classes[0, 24:48, 40:80] = 1
    for dtype in (np.int64, np.int32, np.uint8):
        tasks.network(tmp_path / "m.onnx", {"classes": classes.astype(dtype)})
        (tmp_path / "model.yaml").write_text(
            "format: 1\nname: s\nnetwork: m.onnx\nlabels: [background, tear]\n"
        )
        findings = _run(tmp_path, np.zeros((192, 320, 3), np.uint8), backend)
        assert findings.detections is not None
        [one] = findings.detections
        assert (one.label, one.class_id, one.score, one.box) == ("tear", 0, 1.0, (80, 48, 160, 96))
