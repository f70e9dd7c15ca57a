"""Nothing is reported to anybody."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support.strangers import strangers_asked

_LOAD = """
import sys, time
from pathlib import Path
from edge_infer.backends import BACKENDS
from edge_infer.model.load import load_model
from edge_infer.network import Network
from edge_infer.registry import resolve
network = Network.open(load_model(Path(sys.argv[1])), resolve(BACKENDS, sys.argv[2])())
network.close()
"""
_MODEL = Path(__file__).parents[1] / "models/bottles"


@pytest.mark.parametrize("backend", ["onnxruntime", "openvino"])
def test_a_runtime_reports_to_nobody_and_leaves_no_trace(backend: str, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    command = [sys.executable, "-c", _LOAD, str(_MODEL), backend]
    assert strangers_asked(command, home, tmp_path / "trace") == []
    assert list(home.iterdir()) == []


@pytest.mark.parametrize(
    ("program", "trace"),
    [
        ("import openvino", "intel"),
        (f"import onnxruntime; onnxruntime.InferenceSession({str(_MODEL / 'model.onnx')!r})", ".cache"),
    ],
)
def test_the_watch_sees_what_a_runtime_would_report(program: str, trace: str, tmp_path: Path) -> None:
    """Else the test above would be green for nothing."""
    home = tmp_path / "home"
    home.mkdir()
    # what it would send lies there; without a network nothing else can be seen of it
    strangers_asked([sys.executable, "-c", program], home, tmp_path / "trace")
    assert trace in [path.name for path in home.iterdir()]
