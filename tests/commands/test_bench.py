"""``edge-infer bench``."""

from __future__ import annotations

import json
import math
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edge_infer import cli
from tests.support import networks
from tests.support.sites import CARD, write_model

KEYS = [
    "model", "backend", "device", "precision", "input", "bare_fps", "pipeline_fps", "ratio", "latency_ms",
    "bare_latency_ms", "cpu_ms_per_frame", "peak_rss_mb", "versions",
]  # fmt: skip
"""As it was promised."""
Run = Callable[..., tuple[int, list[str], str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Run:
    """Exit code, lines on standard output, text on standard error."""

    def call(*arguments: object, seconds: float = 0.6) -> tuple[int, list[str], str]:
        words = [*map(str, arguments), "--seconds", str(seconds)]
        monkeypatch.setattr(sys, "argv", ["edge-infer", "bench", *words])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        printed = capfdbinary.readouterr()
        error = printed.err.decode()
        assert "Traceback" not in error
        return int(ended.value.code or 0), printed.out.decode().splitlines(), error.strip()

    return call


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_model(tmp_path / "seals")


@pytest.fixture
def at_model(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(model.parent)


def site(folder: Path, stations: int = 2, **backend: Any) -> Path:
    write_model(folder / "seals")
    rule = {"name": "no-tear", "count": {"labels": ["tear"], "at_most": 0}}
    written = {
        "format": 1,
        "site": "plant1",
        "line": "l3",
        "device": "ipc7",
        "mqtt": {"host": "localhost"},
        "cameras": {"top": {"type": "synthetic"}},
        "models": {"seals": {"path": "seals", "backend": {"type": "onnxruntime", **backend}}},
        "stations": {f"s{i}": {"camera": "top", "model": "seals", "rules": [rule]} for i in range(stations)},
    }
    path = folder / "site.yaml"
    path.write_text(json.dumps(written), encoding="utf-8")
    return path


@pytest.mark.parametrize("backend", ["onnxruntime", "openvino"])
def test_one_json_object_has_exactly_the_promised_keys(backend: str, model: Path, run: Run) -> None:
    code, lines, error = run(model, "--backend", backend, "--json")
    assert (code, error) == (0, "")
    (answer,) = map(json.loads, lines)
    assert list(answer) == KEYS
    assert (answer["model"], answer["backend"], answer["device"]) == ("seals", backend, "CPU")
    assert answer["precision"] == "f32"
    assert answer["input"] == {"source": "drawn", "width": 1920, "height": 1080, "network": [64, 64]}
    assert list(answer["latency_ms"]) == ["p50", "p95", "p99"]
    assert 0 < answer["latency_ms"]["p50"] <= answer["latency_ms"]["p95"] <= answer["latency_ms"]["p99"]
    for key in ("bare_fps", "pipeline_fps", "ratio", "bare_latency_ms", "cpu_ms_per_frame", "peak_rss_mb"):
        assert answer[key] > 0, key
    runtime = {"onnxruntime": "ONNX Runtime", "openvino": "OpenVINO"}[backend]
    assert list(answer["versions"]) == ["edge-infer", runtime, "OpenCV", "numpy", "Python"]


def test_a_bare_network_file_is_a_model(tmp_path: Path, run: Run) -> None:
    rows = np.zeros((1, 6, 84), np.float32)
    network = networks.rows(tmp_path / "bare.onnx", rows, metadata=networks.ultralytics(("a", "b")))
    code, lines, _ = run(network, "--json")
    assert code == 0
    assert json.loads(lines[0])["model"] == "bare"


def test_a_person_reads_both_rates_and_their_ratio(model: Path, run: Run) -> None:
    code, lines, error = run(model, "--backend", "openvino", "--profile", "latency")
    assert (code, error) == (0, "")
    assert lines[0] == "seals on openvino CPU in f32, for latency with 1 request(s)"
    text = "\n".join(lines)
    for said in ("pipeline", "bare runtime", "ratio", "frames/s", "CPU ms/frame", "capture to result", "p99"):
        assert said in text
    assert "fastest" in text
    assert "peak memory" in text


def test_of_a_site_every_station_is_told_beside_the_promised_keys(tmp_path: Path, run: Run) -> None:
    code, lines, error = run(site(tmp_path, stations=3), "--json")
    assert (code, error) == (0, "")
    (answer,) = map(json.loads, lines)
    assert list(answer) == [*KEYS, "stations", "fairness"]
    assert [one["station"] for one in answer["stations"]] == ["s0", "s1", "s2"]
    assert list(answer["stations"][0]) == ["station", "model", "fps", "share", "dropped", "undefined"]
    assert sum(one["share"] for one in answer["stations"]) == pytest.approx(1, abs=1e-3)


def test_of_a_site_a_person_reads_a_line_a_station(tmp_path: Path, run: Run) -> None:
    code, lines, _ = run(site(tmp_path), "--backend", "openvino")
    assert code == 0
    assert lines[0].startswith("seals on openvino CPU in f32, for throughput")
    told = [line.split() for line in lines if line.startswith(("s0 ", "s1 "))]
    assert [one[:2] for one in told] == [["s0", "seals"], ["s1", "seals"]]
    assert all(one[3].endswith("%") for one in told)


def test_the_profile_that_a_site_says_is_kept_unless_another_is_asked_for(tmp_path: Path, run: Run) -> None:
    path = site(tmp_path, profile="latency")
    assert "for latency" in run(path)[1][0]
    assert "for throughput" in run(path, "--profile", "throughput")[1][0]


def test_other_pictures_may_be_named(model: Path, run: Run, shared: Path) -> None:
    photo = shared / "assets" / "photos" / "pets.jpg"
    code, lines, _ = run(model, "--source", photo, "--json")
    assert code == 0
    asked = json.loads(lines[0])["input"]
    assert (asked["source"], asked["width"], asked["height"]) == (str(photo), 512, 430)


@pytest.mark.usefixtures("at_model")
@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["nowhere"], 78, "there is no such folder"),
        (["nowhere.onnx"], 1, "nowhere.onnx"),
        (["nowhere.yaml"], 78, "nowhere.yaml"),
        (["seals", "--source", "nowhere.png"], 1, "there is no nowhere.png"),
        (["seals", "--device", "NOSUCH"], 1, "NOSUCH"),
        (["seals", "--device", ""], 2, "--device"),
        (["seals", "--backend", "openvino", "--device", "NOSUCH"], 1, "NOSUCH"),
        (["seals", "--backend", "riddle"], 2, "riddle"),
        (["seals", "--profile", "fast"], 2, "fast"),
        ([], 2, "MODEL|CONFIG"),
    ],
)
def test_what_cannot_be_measured_is_told_in_words(
    arguments: list[str], code: int, says: str, run: Run
) -> None:
    ended, lines, error = run(*arguments)
    assert (ended, lines) == (code, [])
    assert says in error


@pytest.mark.parametrize("seconds", [0.0, math.nan])
def test_no_time_is_a_mistake_of_usage(model: Path, run: Run, seconds: float) -> None:
    code, lines, error = run(model, seconds=seconds)
    assert (code, lines) == (2, [])
    assert "--seconds" in error


def test_a_network_file_that_is_none_is_told_in_one_line(tmp_path: Path, run: Run) -> None:
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"no network")
    code, lines, error = run(broken, "--json")
    assert (code, lines) == (1, [])
    assert len(error.splitlines()) == 1


def test_mistakes_of_a_site_are_told_at_their_place(tmp_path: Path, run: Run) -> None:
    path = site(tmp_path)
    path.write_text(path.read_text().replace('"line"', '"lime"'), encoding="utf-8")
    code, lines, error = run(path)
    assert (code, lines) == (78, [])
    assert "lime" in error


def test_a_sites_broken_network_is_a_mistake_of_the_site(tmp_path: Path, run: Run) -> None:
    path = site(tmp_path)
    (tmp_path / "seals" / "model.onnx").write_bytes(b"no network")
    code, lines, error = run(path)
    assert (code, lines) == (78, [])
    assert "model.onnx" in error


def test_onnx_runtime_is_refused_an_ir_with_the_way_out(tmp_path: Path, run: Run) -> None:
    folder = write_model(tmp_path / "seals")
    networks.as_ir(folder / "model.onnx")
    (folder / "model.yaml").write_text(CARD.replace("model.onnx", "model.xml"), encoding="utf-8")
    code, lines, error = run(folder, "--backend", "onnxruntime")
    assert (code, lines) == (1, [])
    assert "openvino" in error


def test_a_person_sees_progress_and_a_script_does_not(model: Path) -> None:
    parent, child = pty.openpty()
    command = [sys.executable, "-m", "edge_infer", "bench", str(model), "--json", "--seconds", "1"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=child)
    os.close(child)
    shown = b""
    while True:
        try:
            part = os.read(parent, 4096)
        except OSError:
            # the last writer is gone
            break
        if not part:
            break
        shown += part
    os.close(parent)
    assert process.stdout is not None
    assert list(json.loads(process.stdout.read())) == KEYS
    process.stdout.close()
    assert process.wait(30) == 0
    assert b"of the bare runtime" in shown
