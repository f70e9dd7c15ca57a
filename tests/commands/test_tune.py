"""``edge-infer tune``."""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from edge_infer.commands.tune import _beside
from edge_infer.model.load import load_model
from tests.support.line_frames import write_line

BOTTLES = Path(__file__).parents[2] / "models/bottles"
_QUICK = ("--backend", "onnxruntime", "--seconds", "0.05", "--rounds", "1")


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "edge_infer", "tune", *map(str, arguments)]


def run(*arguments: object) -> tuple[int, str, str]:
    done = subprocess.run(command(*arguments), capture_output=True, text=True, timeout=170, check=False)
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout, done.stderr.strip()


@pytest.fixture(scope="module")
def line(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_line(tmp_path_factory.mktemp("line"), 41)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "models/bottles"
    folder.mkdir(parents=True)
    for name in ("model.onnx", "model.yaml"):
        shutil.copyfile(BOTTLES / name, folder / name)
    return folder


def hashes(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


def test_it_writes_a_model_its_report_and_the_lines_for_the_site(
    model: Path, line: Path, tmp_path: Path
) -> None:
    before = hashes(model)
    code, out, error = run(model, "--data", line, *_QUICK)
    assert code == 0, error
    assert hashes(model) == before
    tuned = model.with_name("bottles-tuned")
    assert load_model(tuned).name == "bottles"
    assert f"to go back: path: {model}" in out

    report = json.loads((tuned / "tune-report.json").read_text(encoding="utf-8"))
    precisions = {one["precision"] for one in report["variants"]}
    assert precisions == {"FP32", "INT8"}
    assert {one["precision"] for one in report["candidates"]} <= precisions
    assert all(one["rejected"] or one["speed"]["fps"] > 0 for one in report["candidates"])
    assert report["chosen"] in report["candidates"]
    assert report["chosen"]["rejected"] is None
    assert set(report["fastest"]) == {"throughput", "latency"}
    assert report["data"]["held_out"] >= 20
    assert len(report["data"]["sha256"]) == 64
    assert "onnxruntime" in report["versions"]
    assert report["machine"]["usable_cores"] >= 1
    text = (tuned / "tune-report.md").read_text(encoding="utf-8")
    assert "**chosen**" in text
    assert "## Agreement with FP32" in text

    lines = out[out.index("models:") :].splitlines()[:2]
    site = {
        "format": 1, "site": "s", "line": "l", "device": "d", "mqtt": {"host": "localhost", "tls": None},
        "cameras": {"tape": {"type": "files", "path": str(line)}}, **yaml.safe_load("\n".join(lines)),
        "stations": {"cap": {
            "camera": "tape", "trigger": {"type": "continuous"}, "model": "bottles",
            "rules": [{"name": "cap", "count": {"labels": ["cap"], "at_least": 1}}],
        }},
    }  # fmt: skip
    del site["mqtt"]["tls"]
    config = tmp_path / "site.yaml"
    config.write_text(yaml.safe_dump(site), encoding="utf-8")
    checked = subprocess.run(
        [sys.executable, "-m", "edge_infer", "check", str(config)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr

    # the same place again is refused before any work
    code, out, error = run(model, "--data", line, *_QUICK)
    assert (code, out) == (1, "")
    assert error.startswith(f"{tuned} is there already and is not written over;")


def test_json_is_a_line_a_candidate_and_the_report(model: Path, line: Path, tmp_path: Path) -> None:
    out = tmp_path / "else where"
    code, printed, error = run(model, "--data", line, "--out", out, "--aim", "latency", "--json", *_QUICK)
    assert code == 0, error
    *candidates, last = (json.loads(each) for each in printed.splitlines())
    assert all(list(one) == ["candidate"] for one in candidates)
    assert [one["candidate"] for one in candidates] == last["report"]["candidates"]
    assert last["tuned"] == str(out)
    assert last["report"]["aim"] == "latency"
    assert last["models"]["bottles"]["path"] == str(out)
    assert last["models"]["bottles"]["backend"]["type"] == "onnxruntime"


def test_what_cannot_be_tuned_is_said_in_one_line(model: Path, line: Path, tmp_path: Path) -> None:
    few = tmp_path / "few"
    few.mkdir()
    for name in ("1.png", "2.png"):
        shutil.copyfile(line / name, few / name)
    code, out, error = run(model, "--data", few, *_QUICK)
    assert (code, out) == (1, "")
    assert "holds 2 different frames; at least 40 are needed" in error
    assert "\n" not in error
    assert run(tmp_path / "no", "--data", line)[0] == 78
    assert run(model, "--data", tmp_path / "no")[0] == 2
    assert run(model)[0] == 2
    assert [path.name for path in model.parent.iterdir()] == ["bottles"]


@pytest.mark.parametrize("option", ["--limit", "--seconds"])
def test_a_limit_that_is_no_number_lets_nothing_through(model: Path, line: Path, option: str) -> None:
    code, out, error = run(model, "--data", line, *_QUICK, option, "nan")
    assert (code, out) == (2, "")
    assert f"'{option}': nan is no number" in error
    assert [path.name for path in model.parent.iterdir()] == ["bottles"]


def test_the_tuned_model_lies_beside_the_original_however_that_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "seals.v2"
    folder.mkdir()
    for name in ("model.onnx", "model.yaml"):
        (folder / name).touch()
    assert _beside(folder) == _beside(folder / "model.yaml") == tmp_path / "seals.v2-tuned"
    assert _beside(folder / "model.onnx") == folder / "model-tuned"
    with contextlib.chdir(folder):
        assert _beside(Path()) == tmp_path / "seals.v2-tuned"


def started(arguments: Sequence[object], folder: Path) -> tuple[subprocess.Popen[bytes], list[Any]]:
    """A run that has begun to quantise, and its children."""
    process = subprocess.Popen(command(*arguments), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    watched = psutil.Process(process.pid)
    while not (children := watched.children()):
        assert process.poll() is None, "it ended before it quantised"
        time.sleep(0.02)  # nothing tells when a process starts a child
    assert [path.name for path in folder.iterdir() if path.name.endswith(".part")]
    return process, children


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_cancelling_leaves_nothing(model: Path, line: Path, number: signal.Signals, code: int) -> None:
    process, children = started((model, "--data", line, *_QUICK), model.parent)
    process.send_signal(number)
    assert process.wait(30) == code
    assert psutil.wait_procs(children, 10)[1] == []
    assert [path.name for path in model.parent.iterdir()] == ["bottles"]


def test_kill_9_leaves_nothing_half_written(model: Path, line: Path) -> None:
    before = hashes(model)
    process, children = started((model, "--data", line, *_QUICK), model.parent)
    process.kill()
    process.wait()
    assert psutil.wait_procs(children, 10)[1] == []
    assert not model.with_name("bottles-tuned").exists()
    assert hashes(model) == before
    # which the next run clears away
    assert sorted(path.name for path in model.parent.iterdir()) == [".bottles-tuned.part", "bottles"]
