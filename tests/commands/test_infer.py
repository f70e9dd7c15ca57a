"""``edge-infer infer``."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from edge_infer import cli
from tests.support import networks


@pytest.fixture
def run(
    monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> Callable[..., tuple[int, list[str], str]]:
    """Exit code, lines on standard output, text on standard error."""

    def call(*arguments: object) -> tuple[int, list[str], str]:
        monkeypatch.setattr(sys, "argv", ["edge-infer", "infer", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        printed = capfdbinary.readouterr()
        error = printed.err.decode()
        assert "Traceback" not in error
        return int(ended.value.code or 0), printed.out.decode().splitlines(), error.strip()

    return call


Run = Callable[..., tuple[int, list[str], str]]


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    path = tmp_path / "part.png"
    cv2.imwrite(str(path), np.full((64, 64, 3), 90, np.uint8))
    return path


def model(folder: Path, labels: Sequence[str] = ("cap", "tear"), *, found: bool = True) -> Path:
    """A folder whose network finds the second label in every picture."""
    rows = np.zeros((1, 3, 6), np.float32)
    if found:
        rows[0, 0] = [8, 16, 40, 48, 0.91, 1]
    networks.rows(folder / "model.onnx", rows)
    (folder / "model.yaml").write_text(
        "format: 1\nname: seals\nversion: '3'\nnetwork: model.onnx\ndecoder: yolo-end2end\n"
        f"labels: {json.dumps(list(labels), ensure_ascii=False)}\n",
        encoding="utf-8",
    )
    return folder


def test_one_json_object_an_image_has_exactly_these_keys(tmp_path: Path, picture: Path, run: Run) -> None:
    code, lines, error = run(model(tmp_path), picture, "--json", "--backend", "openvino")
    assert (code, error) == (0, "")
    (answer,) = map(json.loads, lines)
    assert list(answer) == [
        "image", "width", "height", "detections", "warnings", "timing_ms", "model", "backend", "device",
    ]  # fmt: skip
    assert (answer["image"], answer["width"], answer["height"]) == (str(picture), 64, 64)
    (found,) = answer["detections"]
    assert found == {"label": "tear", "class_id": 1, "score": 0.91, "box": [8, 16, 40, 48]}
    assert list(answer["timing_ms"]) == ["preprocess", "infer", "postprocess"]
    assert list(answer["model"]) == ["name", "version", "sha256"]
    assert (answer["model"]["name"], answer["model"]["version"]) == ("seals", "3")
    assert answer["backend"] == "openvino"
    assert answer["device"] == {"requested": "CPU", "running": "CPU"}
    assert answer["warnings"] == []


def test_a_finding_of_nothing_is_an_empty_list(tmp_path: Path, picture: Path, run: Run) -> None:
    _, lines, _ = run(model(tmp_path, found=False), picture, "--json")
    assert json.loads(lines[0])["detections"] == []


def test_the_image_is_named_as_it_was_given(
    tmp_path: Path, picture: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = model(tmp_path)
    monkeypatch.chdir(tmp_path)
    _, lines, _ = run(folder, "./part.png", picture, "part.png", "--json")
    assert [json.loads(line)["image"] for line in lines] == ["./part.png", str(picture), "part.png"]


def test_a_picture_that_cannot_be_read_is_an_error_of_its_own_and_the_others_go_on(
    tmp_path: Path, picture: Path, run: Run
) -> None:
    empty = tmp_path / "empty.jpg"
    empty.touch()
    given = [tmp_path / "none.png", picture, empty, tmp_path, picture]
    code, lines, error = run(model(tmp_path), *given, "--json")
    answers = [json.loads(line) for line in lines]
    assert (code, error) == (1, "")
    assert [answer["image"] for answer in answers] == [str(path) for path in given]
    assert ["error" in answer for answer in answers] == [True, False, True, True, False]
    assert all(list(answer) == ["image", "error"] for answer in answers if "error" in answer)


def test_without_json_findings_go_to_standard_output_and_errors_do_not(
    tmp_path: Path, picture: Path, run: Run
) -> None:
    code, lines, error = run(model(tmp_path), picture, tmp_path / "none.png")
    assert code == 1
    assert lines == [f"{picture}: 64x64, 1 found", "  tear 0.910 at 8 16 40 48"]
    assert "none.png" in error
    assert len(error.splitlines()) == 1


@pytest.mark.parametrize(
    ("name", "content"),
    [("model.onnx", b""), ("model.onnx", b"junk"), ("model.xml", b"<net"), ("model.pt", b"PK\x03\x04")],
)
def test_a_network_file_that_cannot_be_used_is_one_line_and_exit_1(
    tmp_path: Path, picture: Path, run: Run, name: str, content: bytes
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    code, lines, error = run(path, picture, "--json")
    assert (code, lines, len(error.splitlines())) == (1, [], 1)
    assert str(path) in error


def test_a_missing_or_wrong_card_is_exit_78_and_no_output(tmp_path: Path, picture: Path, run: Run) -> None:
    code, lines, error = run(tmp_path, picture, "--json")
    assert (code, lines) == (78, [])
    assert "model.yaml" in error
    (tmp_path / "model.yaml").write_text("format: 1\nname: x\nnetwrok: model.onnx\n")
    code, lines, error = run(tmp_path, picture, "--json")
    assert (code, lines) == (78, [])
    assert f"{tmp_path}/model.yaml:3:1: netwrok" in error


def test_a_device_that_is_not_there_and_an_unknown_backend_are_told(
    tmp_path: Path, picture: Path, run: Run
) -> None:
    folder = model(tmp_path)
    for backend in ("onnxruntime", "openvino"):
        code, lines, error = run(folder, picture, "--json", "--backend", backend, "--device", "NPU")
        assert (code, lines, len(error.splitlines())) == (1, [], 1)
        assert "devices on this machine: CPU" in error
    assert run(folder, picture, "--backend", "tensorrt")[0] == 2
    assert run(folder)[0] == 2


def test_an_ir_runs_on_openvino_without_being_told(tmp_path: Path, picture: Path, run: Run) -> None:
    folder = model(tmp_path)
    networks.as_ir(folder / "model.onnx")
    card = folder / "model.yaml"
    card.write_text(card.read_text().replace("model.onnx", "model.xml"))
    code, lines, error = run(folder, picture, "--json")
    assert (code, error) == (0, "")
    assert json.loads(lines[0])["backend"] == "openvino"


def test_save_draws_into_copies_and_never_over_a_picture_that_was_given(
    tmp_path: Path, picture: Path, run: Run
) -> None:
    folder = model(tmp_path)
    trap = tmp_path / "part.found.png"
    trap.write_bytes(picture.read_bytes())
    before = picture.read_bytes()
    (tmp_path / "other").mkdir()
    namesake = tmp_path / "other/part.png"
    namesake.write_bytes(before)

    code, _, error = run(folder, picture, namesake, trap, "--save", tmp_path)

    assert (code, error) == (0, "")
    assert picture.read_bytes() == trap.read_bytes() == namesake.read_bytes() == before
    drawn = sorted(path.name for path in tmp_path.glob("*.found*.png") if path != trap)
    assert drawn == ["part-2.found.png", "part-3.found.png", "part.found.found.png"]
    image = cv2.imread(str(tmp_path / "part-2.found.png"))
    assert image is not None
    assert image.shape == (64, 64, 3)
    assert np.any(image != 90)


def test_save_makes_its_folder_and_says_where_it_cannot(tmp_path: Path, picture: Path, run: Run) -> None:
    folder = model(tmp_path)
    assert run(folder, picture, "--save", tmp_path / "new/deep")[0] == 0
    assert (tmp_path / "new/deep/part.found.png").is_file()
    code, _, error = run(folder, picture, "--save", picture / "inside")
    assert code == 1
    assert str(picture / "inside") in error


@pytest.mark.parametrize("labels", [("瓶盖", "Füllstand ß"), ("крышка", "缺陷"), ("a", "\U0001f600")])
def test_labels_of_every_script_are_json_text_and_are_drawn_without_a_crash(
    tmp_path: Path, picture: Path, run: Run, labels: tuple[str, str]
) -> None:
    folder = model(tmp_path, labels)
    code, lines, error = run(folder, picture, "--json", "--save", tmp_path / "drawn")
    assert (code, error) == (0, "")
    assert json.loads(lines[0])["detections"][0]["label"] == labels[1]
    assert (tmp_path / "drawn/part.found.png").is_file()


def process(*arguments: object, **options: Any) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "edge_infer", "infer", *map(str, arguments)]
    return subprocess.run(command, check=False, timeout=60, **options)


def test_a_terminal_that_lacks_the_labels_script_is_no_reason_to_fail(tmp_path: Path, picture: Path) -> None:
    folder = model(tmp_path, ("瓶盖", "缺陷"))
    latin = {**os.environ, "PYTHONIOENCODING": "iso-8859-1"}
    done = process(folder, picture, env=latin, capture_output=True)
    assert done.returncode == 0
    assert b"\\u7f3a\\u9677 0.910" in done.stdout
    # JSON is UTF-8 whatever the terminal is
    done = process(folder, picture, "--json", env=latin, capture_output=True)
    assert json.loads(done.stdout.decode("utf-8"))["detections"][0]["label"] == "缺陷"


def test_a_file_name_that_is_not_utf8_is_an_answer_too(tmp_path: Path, picture: Path) -> None:
    odd = os.fsencode(tmp_path) + b"/f\xfcll.png"
    os.link(picture, odd)
    command: list[str | bytes] = [
        sys.executable,
        "-m",
        "edge_infer",
        "infer",
        str(model(tmp_path)),
        odd,
        "--json",
    ]
    done = subprocess.run(command, check=False, timeout=60, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")
    assert os.fsencode(json.loads(done.stdout)["image"]) == odd


def test_a_bar_is_shown_only_on_a_terminal_and_never_among_the_json(tmp_path: Path, picture: Path) -> None:
    folder = model(tmp_path)
    reader, writer = pty.openpty()
    done = process(folder, picture, picture, picture, "--json", stdout=subprocess.PIPE, stderr=writer)
    os.close(writer)
    shown = os.read(reader, 100_000)
    os.close(reader)
    assert b"pictures" in shown
    assert b"100%" in shown
    assert len([json.loads(line) for line in done.stdout.splitlines()]) == 3

    reader, writer = pty.openpty()
    done = process(folder, picture, picture, stdout=subprocess.PIPE, stderr=writer)
    os.close(writer)
    os.close(reader)
    assert done.stdout.decode().splitlines() == [
        f"{picture}: 64x64, 1 found", "  tear 0.910 at 8 16 40 48",
    ] * 2  # fmt: skip

    quiet = process(folder, picture, picture, "--json", capture_output=True)
    assert quiet.stderr == b""
