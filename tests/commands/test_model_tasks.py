"""``edge-infer model inspect`` of networks of other tasks than boxes."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edge_infer import cli
from tests.support import networks, tasks
from tests.support.heat import heat

Inspect = Callable[[Path], dict[str, Any]]


@pytest.fixture
def values(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Inspect:
    """Every value of a model and where it is from."""

    def call(model: Path) -> dict[str, Any]:
        for form in ((), ("--json",)):
            monkeypatch.setattr(sys, "argv", ["edge-infer", "model", "inspect", str(model), *form])
            with pytest.raises(SystemExit) as ended:
                cli.main()
            assert not ended.value.code
        found: dict[str, Any] = json.loads(capfd.readouterr().out.splitlines()[-1])["values"]
        return found

    return call


def test_how_an_anomaly_score_is_normalised_is_told_with_its_origin(tmp_path: Path, values: Inspect) -> None:
    assert values(heat(tmp_path / "m.onnx"))["anomaly"]["from"] == "network"
    (tmp_path / "model.yaml").write_text(
        "format: 1\nname: a\nnetwork: m.onnx\nanomaly: {threshold: 5, min: 2, max: 12}\n"
    )
    told = values(tmp_path)["anomaly"]
    assert (told["from"], told["value"]["threshold"]) == ("card", 5)


@pytest.mark.parametrize(
    ("last", "said"), [("Softmax", "probabilities"), (None, "logits"), ("Relu", "told by their values")]
)
def test_what_class_scores_are_is_told(tmp_path: Path, values: Inspect, last: str | None, said: str) -> None:
    network = tasks.network(tmp_path / "m.onnx", {"scores": np.zeros((1, 3), np.float32)}, last=last)
    scores = values(network)["scores"]
    assert scores == {"value": said, "from": "guess" if last == "Relu" else "network"}


def test_how_many_key_points_there_are_is_told(tmp_path: Path, values: Inspect) -> None:
    metadata = networks.ultralytics(["a"], task="pose", kpt_shape="[4, 3]", end2end="True")
    network = tasks.network(tmp_path / "m.onnx", {"o": np.zeros((1, 300, 18), np.float32)}, metadata=metadata)
    assert values(network)["keypoints"] == {"value": "4, with visibility", "from": "network"}
    assert values(network)["task"] == {"value": "pose", "from": "network"}
