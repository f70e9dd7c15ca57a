"""``edge-infer infer`` of networks of other tasks than boxes: JSON, text and saved pictures."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from edge_infer import cli
from tests.support import networks, tasks
from tests.support.heat import heat

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Run:
    """Exit code, standard output, standard error."""

    def call(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["edge-infer", "infer", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        printed = capfdbinary.readouterr()
        return int(ended.value.code or 0), printed.out.decode(), printed.err.decode()

    return call


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    path = tmp_path / "part.png"
    pixels = np.full((96, 160, 3), 20, np.uint8)
    pixels[24:48, 80:120] = 204
    cv2.imwrite(str(path), pixels)
    return path


def _segmenter(tmp_path: Path) -> Path:
    rows = np.zeros((1, 300, 9), np.float32)
    rows[0, 0] = [10, 20, 60, 70, 0.9, 1, 1, 0, 0]
    rows[0, 1] = [80, 24, 120, 48, 0.8, 0, 1, 0, 0]
    answers = {"output0": rows, "output1": np.ones((1, 3, 24, 40), np.float32)}
    metadata = networks.ultralytics(["cap", "tear"], task="segment", end2end="True")
    return tasks.network(tmp_path / "m.onnx", answers, metadata=metadata)


def _answers(out: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.splitlines()]


def test_masks_are_saved_at_the_pictures_size_and_their_paths_open_from_here(
    tmp_path: Path, picture: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    model = _segmenter(tmp_path)
    code, out, _ = run(model, picture, "--json", "--save", "saved")
    [answer] = _answers(out)
    assert code == 0
    for found in answer["detections"]:
        assert not Path(found["mask"]).is_absolute()
        mask = cv2.imread(found["mask"], cv2.IMREAD_UNCHANGED)
        assert mask is not None
        assert mask.shape == (96, 160)
        x1, y1, x2, y2 = (round(side) for side in found["box"])
        assert (mask > 0).sum() == (x2 - x1) * (y2 - y1)
        assert (mask[y1:y2, x1:x2] == 255).all()
    assert len({found["mask"] for found in answer["detections"]}) == 2
    assert list(answer["detections"][0]) == ["label", "class_id", "score", "box", "mask"]


def test_nothing_that_was_given_is_written_over_and_no_two_pictures_share_a_mask(
    tmp_path: Path, picture: Path, run: Run
) -> None:
    model = _segmenter(tmp_path)
    run(model, picture, "--save", tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    given = [picture, tmp_path / "part.mask0.png", tmp_path / "part.found.png"]
    os.link(picture, other / "part.png")
    before = [path.read_bytes() for path in given]
    code, out, _ = run(model, *given, other / "part.png", "--json", "--save", tmp_path)
    assert code == 0
    assert [path.read_bytes() for path in given] == before
    paths = [found["mask"] for answer in _answers(out) for found in answer["detections"]]
    assert len(set(paths)) == len(paths) == 8
    assert not {Path(path).resolve() for path in paths} & set(given)


def test_an_anomaly_is_told_with_its_map_only_where_it_is_saved(
    tmp_path: Path, picture: Path, run: Run
) -> None:
    model = heat(tmp_path / "model.onnx", tasks.SIZE)
    code, out, _ = run(model, picture, "--json", "--save", tmp_path / "saved")
    [answer] = _answers(out)
    assert code == 0
    assert list(answer["anomaly"]) == ["score", "threshold", "is_anomalous", "hot_box", "map"]
    assert "detections" not in answer
    assert "classes" not in answer
    assert answer["anomaly"]["hot_box"] == pytest.approx([80, 24, 120, 48], abs=1)
    [plain] = _answers(run(model, picture, "--json")[1])
    assert list(plain["anomaly"]) == ["score", "threshold", "is_anomalous", "hot_box"]


def test_classes_are_told_best_first(tmp_path: Path, picture: Path, run: Run) -> None:
    model = tasks.network(tmp_path / "m.onnx", {"scores": np.array([[1, 3]], np.float32)})
    code, out, _ = run(model, picture, "--json", "--save", tmp_path / "saved")
    [answer] = _answers(out)
    assert code == 0
    assert [(one["label"], one["class_id"]) for one in answer["classes"]] == [("class1", 1), ("class0", 0)]
    assert sum(one["score"] for one in answer["classes"]) == pytest.approx(1, abs=1e-5)
    assert "detections" not in answer
    assert (tmp_path / "saved/part.found.png").is_file()


def test_key_points_and_turned_boxes_are_told_as_numbers(tmp_path: Path, picture: Path, run: Run) -> None:
    rows = np.zeros((1, 300, 12), np.float32)
    rows[0, 0] = [10, 20, 60, 70, 0.9, 0, 12, 22, 0.75, 58, 68, 0.125]
    metadata = networks.ultralytics(["cap"], task="pose", kpt_shape="[2, 3]", end2end="True")
    pose = tasks.network(tmp_path / "pose.onnx", {"output0": rows}, metadata=metadata)
    [answer] = _answers(run(pose, picture, "--json")[1])
    assert answer["detections"][0]["keypoints"] == [[12, 22, 0.75], [58, 68, 0.125]]

    turned = np.zeros((1, 300, 7), np.float32)
    turned[0, 0] = [80, 48, 40, 20, 0.9, 0, np.pi / 2]
    metadata = networks.ultralytics(["cap"], task="obb", end2end="True")
    obb = tasks.network(tmp_path / "obb.onnx", {"output0": turned}, metadata=metadata)
    [answer] = _answers(run(obb, picture, "--json")[1])
    found = answer["detections"][0]
    assert found["angle"] == pytest.approx(np.pi / 2, abs=1e-4)
    assert found["corners"] == pytest.approx(np.array([[90, 28], [90, 68], [70, 68], [70, 28]]), abs=0.01)
    assert found["box"] == pytest.approx([70, 28, 90, 68], abs=0.01)


def test_the_text_says_what_a_person_wants_to_know(tmp_path: Path, picture: Path, run: Run) -> None:
    code, out, _ = run(heat(tmp_path / "a.onnx", tasks.SIZE), picture)
    assert (code, out) == (0, f"{picture}: 160x96, not normal: 0.800 of 0.5 at 80 24 120 48\n")
    model = tasks.network(tmp_path / "c.onnx", {"scores": np.array([[1, 3]], np.float32)})
    lines = run(model, picture)[1].splitlines()
    assert lines == [f"{picture}: 160x96, class1", "  class1 0.881", "  class0 0.119"]


def test_an_answer_that_is_no_number_saves_nothing(
    tmp_path: Path, picture: Path, run: Run, shared: Path
) -> None:
    model = shared / "cases/open/A42/anomaly_nan.onnx"
    code, out, _ = run(model, picture, "--json", "--save", tmp_path / "saved")
    assert code == 0
    assert _answers(out)[0]["undefined"] == ["nan"]
    assert list((tmp_path / "saved").iterdir()) == []
