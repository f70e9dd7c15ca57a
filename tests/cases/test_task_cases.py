"""Problems that people reported with masks, oriented boxes, key points and anomaly networks."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from edge_infer import cli

BACKENDS = ("onnxruntime", "openvino")
Run = Callable[..., tuple[int, list[dict[str, Any]], str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Run:
    """The real entry point, in this process for speed: exit code, JSON lines, standard error."""

    def call(model: Path, pictures: Sequence[Path], *options: str) -> tuple[int, list[dict[str, Any]], str]:
        argv = ["edge-infer", "infer", str(model), *map(str, pictures), "--json", *options]
        monkeypatch.setattr(sys, "argv", argv)
        with pytest.raises(SystemExit) as ended:
            cli.main()
        printed = capfdbinary.readouterr()
        lines = [json.loads(line) for line in printed.out.splitlines()]
        return int(ended.value.code or 0), lines, printed.err.decode().strip()

    return call


def _expected(folder: Path) -> dict[str, Any]:
    expected: dict[str, Any] = json.loads((folder / "expected.json").read_text())
    return expected


def _pictures(folder: Path) -> list[Path]:
    return [folder / image["file"] for image in _expected(folder)["images"]]


def _assert_passes(folder: Path, lines: Sequence[dict[str, Any]], tmp_path: Path) -> None:
    """The cases' own judge, given masks and labels in its form."""
    images = {}
    for line in lines:
        judged = json.loads(json.dumps(line))
        for found in judged.get("detections", []):
            if "mask" in found:
                found["mask_png"] = found.pop("mask")
        if "anomaly" in judged:
            judged["anomaly"]["label"] = judged["anomaly"]["is_anomalous"]
        images[Path(line["image"]).name] = judged
    file = tmp_path / "results.json"
    file.write_text(json.dumps({"images": images, "warnings": []}))
    command = [sys.executable, str(folder.parents[1] / "check.py"), str(folder), str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def _pairs(folder: Path, lines: Sequence[dict[str, Any]]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """(found, expected) of every picture; every object once, in the order of scores, nothing else."""
    pairs = []
    for image, line in zip(_expected(folder)["images"], lines, strict=True):
        assert Path(line["image"]).name == image["file"]
        assert (line["width"], line["height"]) == (image["width"], image["height"])
        wanted = sorted(image["detections"], key=lambda each: -each["score"])
        assert [found["label"] for found in line["detections"]] == [each["label"] for each in wanted]
        for found, each in zip(line["detections"], wanted, strict=True):
            assert found["class_id"] == each["class_id"]
            assert found["score"] == pytest.approx(each["score"], abs=0.005)
            pairs.append((found, each))
    return pairs


@pytest.mark.parametrize("backend", BACKENDS)
def test_oriented_boxes_are_right_and_the_angle_is_no_class(
    shared: Path, tmp_path: Path, run: Run, backend: str
) -> None:
    folder = shared / "cases/open/A08"
    code, lines, error = run(folder / "model.onnx", _pictures(folder), "--backend", backend)
    assert code == 0, error
    _assert_passes(folder, lines, tmp_path)
    for found, wanted in _pairs(folder, lines):
        cx, cy, width, height, angle = wanted["xywhr"]
        assert found["angle"] == pytest.approx(angle, abs=0.02)
        corners = np.array(found["corners"])
        assert corners.mean(axis=0) == pytest.approx((cx, cy), abs=1)
        sides = np.linalg.norm(np.roll(corners, -1, axis=0) - corners, axis=1)
        assert sides == pytest.approx([width, height, width, height], abs=2)


@pytest.mark.parametrize("backend", BACKENDS)
def test_masks_are_right_at_the_size_of_the_picture(
    shared: Path, tmp_path: Path, run: Run, backend: str
) -> None:
    folder = shared / "cases/open/A10"
    saved = tmp_path / "saved"
    code, lines, error = run(
        folder / "model.onnx", _pictures(folder), "--backend", backend, "--save", str(saved)
    )
    assert code == 0, error
    _assert_passes(folder, lines, tmp_path)
    sizes = {Path(line["image"]).name: (line["height"], line["width"]) for line in lines}
    for line in lines:
        for found in line["detections"]:
            mask = cv2.imread(found["mask"], cv2.IMREAD_UNCHANGED)
            assert mask is not None
            assert mask.shape == sizes[Path(line["image"]).name]
    for found, wanted in _pairs(folder, lines):
        mask = cv2.imread(found["mask"], cv2.IMREAD_UNCHANGED)
        assert mask is not None
        x1, y1, x2, y2 = map(int, wanted["box"])
        right = np.zeros(mask.shape, np.bool_)
        right[y1:y2, x1:x2] = True
        assert ((mask > 0) & right).sum() / ((mask > 0) | right).sum() > 0.95
        assert found["box"] == pytest.approx(wanted["box"], abs=1)
    without = run(folder / "model.onnx", _pictures(folder), "--backend", backend)[1]
    assert all("mask" not in found for line in without for found in line["detections"])


@pytest.mark.parametrize("backend", BACKENDS)
def test_key_points_are_right_and_keep_their_visibility(
    shared: Path, tmp_path: Path, run: Run, backend: str
) -> None:
    folder = shared / "cases/open/A12"
    code, lines, error = run(folder / "model.onnx", _pictures(folder), "--backend", backend)
    assert code == 0, error
    _assert_passes(folder, lines, tmp_path)
    for found, wanted in _pairs(folder, lines):
        assert found["box"] == pytest.approx(wanted["box"], abs=1)
        for got, point in zip(found["keypoints"], wanted["keypoints"], strict=True):
            assert got[:2] == pytest.approx(point[:2], abs=1)
            assert got[2] == pytest.approx(point[2], abs=0.001)


@pytest.mark.parametrize("backend", BACKENDS)
def test_key_points_are_told_by_the_card_where_the_file_says_nothing(
    shared: Path, tmp_path: Path, run: Run, backend: str
) -> None:
    import onnx

    folder = shared / "cases/open/A12"
    network = onnx.load(folder / "model.onnx")
    del network.metadata_props[:]
    onnx.save(network, tmp_path / "model.onnx")
    card = "format: 1\nname: p\nnetwork: model.onnx\ntask: pose\nlabels: [part]\n"
    (tmp_path / "model.yaml").write_text(card)
    code, lines, error = run(tmp_path, _pictures(folder), "--backend", backend)
    assert code == 0, error
    # 6 columns are two points with their visibility or three without: a guess, and said
    assert "6 numbers may be 2 key points with or 3 without" in lines[0]["warnings"][0]
    _assert_passes(folder, lines, tmp_path)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("case", ["A37", "A39", "A40"])
def test_anomaly_scores_and_hot_areas_are_right_in_the_picture(
    shared: Path, tmp_path: Path, run: Run, case: str, backend: str
) -> None:
    folder = shared / "cases/open" / case
    saved = tmp_path / "saved"
    code, lines, error = run(
        folder / "model.onnx", _pictures(folder), "--backend", backend, "--save", str(saved)
    )
    assert code == 0, error
    _assert_passes(folder, lines, tmp_path)
    for image, line in zip(_expected(folder)["images"], lines, strict=True):
        found = line["anomaly"]
        assert found["score"] == pytest.approx(image["pred_score"], abs=0.005)
        assert found["threshold"] == 0.5
        assert found["is_anomalous"] is image["is_anomalous"]
        heat = cv2.imread(found["map"], cv2.IMREAD_UNCHANGED)
        assert heat is not None
        assert heat.shape == (image["height"], image["width"])
        hot = image["hot_box"]
        if hot is None:
            assert found["hot_box"] is None
            assert heat.max() < 128
        else:
            assert found["hot_box"] == pytest.approx(hot, abs=4)
            ys, xs = np.nonzero(heat >= 128)
            assert (xs.min(), ys.min(), xs.max() + 1, ys.max() + 1) == pytest.approx(hot, abs=4)


def test_a_raw_anomaly_map_without_its_metadata_is_refused_and_not_clipped_to_one(
    shared: Path, tmp_path: Path, run: Run
) -> None:
    folder = shared / "cases/open/A37"
    shutil.copy(folder / "model.onnx", tmp_path)
    code, lines, error = run(tmp_path / "model.onnx", _pictures(folder))
    assert (code, lines) == (1, [])
    assert "metadata.json" in error
    assert "`task: anomaly`" in error

    card = tmp_path / "model.yaml"
    card.write_text("format: 1\nname: a\nnetwork: model.onnx\ntask: anomaly\n")
    code, lines, error = run(tmp_path, _pictures(folder))
    assert (code, lines) == (78, [])
    assert "anomaly: {threshold" in error

    card.write_text(f"{card.read_text()}anomaly: {{threshold: 5, min: 2, max: 12}}\n")
    code, lines, error = run(tmp_path, _pictures(folder))
    assert code == 0, error
    _assert_passes(folder, lines, tmp_path)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_score_that_is_no_number_is_undefined_and_never_normal(
    shared: Path, run: Run, backend: str
) -> None:
    folder = shared / "cases/open/A42"
    code, lines, error = run(folder / "anomaly_nan.onnx", _pictures(folder), "--backend", backend)
    assert code == 0, error
    for line in lines:
        assert line["undefined"] == ["nan"]
        assert "anomaly" not in line
        assert any("not finite" in warning for warning in line["warnings"])
        assert not math.isnan(line["timing_ms"]["infer"])
