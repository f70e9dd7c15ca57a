"""Runtimes that crash, hang or are torn are findings."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from edge_infer.doctor import runtimes
from tests.support.patients import root, runtime, subject, told
from tests.support.runs import site


def models(**backends: dict[str, Any]) -> dict[str, Any]:
    return {
        "models": {
            "m": {"path": "model"},
            **{k: {"path": "model", "backend": v} for k, v in backends.items()},
        }
    }


def test_both_are_run_here_each_with_its_version_and_devices(tmp_path: Path) -> None:
    backends: dict[str, dict[str, Any]] = {"o": {"type": "openvino"}, "r": {"type": "onnxruntime"}}
    patient = subject(root(tmp_path / "root"), site(tmp_path / "site", None, **models(**backends)))
    found = told(runtimes.check, patient)
    assert {one.status for one in found.values()} == {"ok"}
    assert found["runtimes.openvino"].found.startswith("OpenVINO 20")
    assert "CPU" in found["runtimes.onnxruntime"].found
    assert found["models.o"].found == "openvino CPU works"


def test_b03_b05_devices_that_are_not_there_fail_and_a_fallback_warns(tmp_path: Path) -> None:
    backends: dict[str, dict[str, Any]] = {
        "npu": {"type": "openvino", "device": "NPU"},
        "auto": {"type": "openvino", "device": "AUTO:NPU,CPU"},
        "cuda": {"type": "onnxruntime", "device": "CUDA"},
        "back": {"type": "openvino", "device": "NPU", "fallback": ["CPU"]},
    }
    patient = subject(root(tmp_path / "root"), site(tmp_path / "site", None, **models(**backends)))
    found = told(runtimes.check, patient)
    assert {name: found[f"models.{name}"].status for name in backends} == {
        "npu": "fail", "auto": "fail", "cuda": "fail", "back": "warn",
    }  # fmt: skip
    assert "devices on this machine: CPU" in found["models.npu"].found
    assert found["models.back"].found.startswith("runs on CPU, its fallback")
    assert all(found[f"models.{name}"].mend for name in backends)


@pytest.mark.parametrize("name", ["SIGILL", "SIGABRT"])
def test_b13_a_crash_is_a_finding_with_signal_version_and_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    code = f"import os, signal; os.kill(os.getpid(), signal.{name})"
    monkeypatch.setenv("PYTHONPATH", str(runtime(tmp_path / "path", "openvino", code)))
    patient = subject(
        root(tmp_path / "root"), site(tmp_path / "site", None, **models(o={"type": "openvino"}))
    )
    found = told(runtimes.check, patient)
    crashed = found["runtimes.openvino"]
    assert crashed.status == "fail"
    assert f"was ended by {name}" in crashed.found
    assert "openvino 20" in crashed.found
    assert "type: onnxruntime" in crashed.mend
    assert found["models.o"].status == "fail"
    assert found["runtimes.onnxruntime"].status == "ok"


def test_one_that_never_returns_is_ended_at_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = "import signal\nwhile True: signal.pause()"
    monkeypatch.setenv("PYTHONPATH", str(runtime(tmp_path / "path", "openvino", code)))
    found = told(runtimes.check, subject(root(tmp_path / "root")), limit_s=2.5)["runtimes.openvino"]
    assert "hangs: no answer within" in found.found
    # nobody asked for it
    assert found.status == "warn"


def test_a_torn_runtime_is_told_with_both_packages_and_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = runtime(tmp_path / "path", "onnxruntime", "__version__ = '1.24.1'")
    info = path / "onnxruntime_openvino-1.24.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: onnxruntime-openvino\nVersion: 1.24.1\n")
    monkeypatch.setenv("PYTHONPATH", str(path))
    monkeypatch.syspath_prepend(path)
    patient = subject(root(tmp_path / "root"), site(tmp_path / "site", None))
    said = [
        one for one in runtimes.check(patient, time.monotonic() + 30) if one.check == "runtimes.onnxruntime"
    ]
    assert [one.status for one in said] == ["fail", "fail"]
    assert "onnxruntime-openvino 1.24.1" in said[0].found
    assert "is torn" in said[1].found
    assert all("uninstall -y" in one.mend and "install onnxruntime" in one.mend for one in said)


def test_one_that_is_overwritten_down_to_an_empty_folder_is_torn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(runtime(tmp_path / "path", "onnxruntime", "VERSION = 1")))
    found = told(runtimes.check, subject(root(tmp_path / "root")))["runtimes.onnxruntime"]
    assert "has no InferenceSession" in found.found
