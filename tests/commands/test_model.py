"""``edge-infer model inspect``."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import pytest

from edge_infer import cli
from tests.support import networks

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """Exit code, standard output, standard error."""

    def call(*arguments: object, command: str = "inspect") -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["edge-infer", "model", command, *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        printed = capfd.readouterr()
        assert "Traceback" not in printed.err
        return int(ended.value.code or 0), printed.out, printed.err.strip()

    return call


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    networks.rows(tmp_path / "model.onnx", np.zeros((1, 3, 6)))
    (tmp_path / "model.yaml").write_text(
        "format: 1\nname: seals\nnetwork: model.onnx\ndecoder: yolo-end2end\nlabels: [cap, 二]\n"
        "input: {color: bgr}\n",
        encoding="utf-8",
    )
    return tmp_path


def test_every_value_is_told_with_where_it_comes_from(folder: Path, run: Run) -> None:
    code, out, error = run(folder)
    assert (code, error) == (0, "")
    rows = {line.split()[0]: line.split()[1:] for line in out.splitlines() if line[:1].isalpha()}
    assert rows["decoder"] == ["yolo-end2end", "card"]
    assert rows["labels"] == ["cap,", "二", "card"]
    assert rows["input.size"] == ["64,", "64", "network"]
    assert rows["input.color"] == ["bgr", "card"]
    assert rows["input.pad_value"] == ["114", "default"]
    assert "ONNX opset 17" in out
    assert "output output0: float32 1 x 3 x 6" in out
    assert "NPU: it could run on one" in out


def test_json_is_one_object_with_the_same(folder: Path, run: Run) -> None:
    code, out, error = run(folder, "--json")
    assert (code, error) == (0, "")
    answer = json.loads(out)
    assert answer["values"]["input.color"] == {"value": "bgr", "from": "card"}
    assert answer["npu"] == {"possible": True, "why_not": []}
    assert answer["values"]["score_threshold"] == {"value": 0.25, "from": "default"}
    assert answer["inputs"] == [{"name": "picture", "shape": [1, 3, 64, 64], "dtype": "float32"}]
    assert len(answer["sha256"]) == 64
    assert answer["warnings"] == []
    assert "backends" not in answer


def test_what_is_still_a_guess_is_said(shared: Path, run: Run) -> None:
    network = shared / "cases/open/A30/model.onnx"
    assert "guess: nothing names the 3 classes" in run(network)[1]
    answer = json.loads(run(network, "--json")[1])
    assert answer["values"]["labels"]["from"] == "guess"
    assert "nothing names the 3 classes" in answer["warnings"][0]


def test_verify_loads_it_on_every_backend(folder: Path, run: Run) -> None:
    code, out, _ = run(folder, "--verify", "--json")
    assert code == 0
    assert [(check["backend"], check["ok"]) for check in json.loads(out)["backends"]] == [
        ("onnxruntime", True),
        ("openvino", True),
    ]
    assert run(folder, "--verify")[1].count("loads in") == 2


def test_verify_of_an_ir_leaves_out_the_backend_that_cannot_run_it(folder: Path, run: Run) -> None:
    networks.as_ir(folder / "model.onnx")
    card = folder / "model.yaml"
    card.write_text(card.read_text(encoding="utf-8").replace("model.onnx", "model.xml"), encoding="utf-8")
    code, out, _ = run(folder, "--verify")
    assert code == 0
    assert "onnxruntime CPU: not tried" in out
    assert "openvino CPU f32 (OpenVINO " in out


def test_verify_fails_where_a_backend_cannot_run_it(tmp_path: Path, run: Run) -> None:
    # the file promises a head that its graph does not have
    network = networks.shaped(
        tmp_path / "m.onnx", {"output0": (1, 6, 8400)}, metadata=networks.ultralytics(["a", "b"])
    )
    code, out, _ = run(network, "--verify", "--json")
    assert code == 1
    assert all(not check["ok"] and check["error"] for check in json.loads(out)["backends"])


def test_a_model_that_cannot_be_used_is_one_line(tmp_path: Path, run: Run) -> None:
    for path, code in ((tmp_path, 78), (tmp_path / "none.onnx", 1), (tmp_path / "none", 78)):
        ended, out, error = run(path, "--json")
        assert (ended, out, len(error.splitlines())) == (code, "", 1)


def test_verify_runs_golden_pictures_on_every_backend_and_says_how_far_they_are(
    shared: Path, tmp_path: Path, run: Run
) -> None:
    case = shared / "cases/open/A43"
    shutil.copyfile(case / "model.onnx", tmp_path / "model.onnx")
    (tmp_path / "model.yaml").write_text(
        "format: 1\nname: colours\nnetwork: model.onnx\nlabels: [red, green, blue]\n"
    )
    code, out, error = run(tmp_path, case / "p_1280x720.png", command="golden")
    assert (code, error) == (0, "")
    assert out.splitlines()[0].startswith("reference: ONNX Runtime 1.")
    assert out.splitlines()[1:] == [f"{tmp_path}/golden/p_1280x720.json: 3 found"]

    code, out, error = run(tmp_path, "--json", "--verify")
    assert (code, error) == (0, "")
    for check in json.loads(out)["backends"]:
        assert check["precision"] == "f32"
        assert check["golden"]["pictures"] == 1
        assert check["golden"]["lowest_iou"] >= 0.99
        assert check["golden"]["largest_score_difference"] <= 0.001
        assert check["golden"]["problems"] == []
    assert "golden picture: largest score difference" in run(tmp_path, "--verify")[1]

    shutil.copyfile(case / "model_bgr.onnx", tmp_path / "model.onnx")
    code, out, _ = run(tmp_path, "--verify")
    assert code == 1
    assert "onnxruntime CPU: fails: p_1280x720.png: " in out


def test_a_golden_picture_in_which_nothing_is_found_is_said(folder: Path, tmp_path: Path, run: Run) -> None:
    grey = tmp_path / "grey.png"
    cv2.imwrite(str(grey), np.full((48, 64, 3), 90, np.uint8))
    code, _, error = run(folder, grey, command="golden")
    assert code == 0
    assert error.endswith("golden/grey.png: nothing is found in it, so it tells little; add one with objects")
    code, _, error = run(folder / "model.onnx", grey, command="golden")
    assert code == 78
    assert "write a model.yaml beside the network" in error


def test_what_keeps_a_network_from_an_npu_is_told(tmp_path: Path, run: Run) -> None:
    networks.spot(tmp_path / "m.onnx", (4, 3, 64, 64), metadata=networks.ultralytics(["a"], end2end="True"))
    code, out, _ = run(tmp_path / "m.onnx")
    assert code == 0
    assert "NPU: no: its batch is fixed at 4, an NPU takes 1" in out
