"""What a station publishes of networks that judge the whole picture: a real network, a recording."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

from edge_infer.backends import BACKENDS
from edge_infer.engine import Engine
from edge_infer.frame import Frame
from edge_infer.model.load import load_model
from edge_infer.network import Network
from edge_infer.registry import resolve
from edge_infer.result import Device, Identifier, Origin, Result, json_schema
from edge_infer.station import StationSettings
from edge_infer.station.identity import Identity
from edge_infer.station.setup import Setup
from edge_infer.station.station import Station
from tests.support import networks, tasks
from tests.support.frames import frame
from tests.support.heat import heat

IDENTITY = Identity(
    "s",
    Origin(site="a", line="b", device="c", camera="cam"),
    Identifier(id="s"),
    Identifier(id="site.yaml"),
    "onnxruntime",
    Device(requested="CPU", running="CPU"),
    None,
    "boot",
)


# some of the pictures are dark and empty on purpose
NO_CHECKS: dict[str, Any] = {"checks": []}


class _Published:
    def __init__(self) -> None:
        self.results: list[Result] = []

    def publish(self, result: Result, _frame: object, _findings: object, _settings: object) -> None:
        self.results.append(result)

    def decide(self, result: Result) -> None:
        pass

    def line_stop(self, station: str, decision: Any) -> None:
        raise AssertionError(f"no line stop was asked for: {station} {decision}")

    def reference_unused(self, station: str, why: str) -> None:
        raise AssertionError(f"nothing was commissioned: {station} {why}")

    def accept(self, station: str, trigger: Any) -> None:
        raise AssertionError(f"no part asked: {station} {trigger}")


def _messages(model: Path, frames: list[Frame], backend: str, **keys: Any) -> list[dict[str, Any]]:
    settings = StationSettings.model_validate_json(
        json.dumps({"camera": "cam", "model": "m", "health": NO_CHECKS, **keys})
    )
    published = _Published()
    engine = Engine("m", Network.open(load_model(model), resolve(BACKENDS, backend)(type=backend)))
    station = Station(Setup.new(settings, IDENTITY, engine), published, recorded=True, max_age_s=1.0)
    station.start()
    engine.start()
    for one in frames:
        station.offer(one)
    station.end_recording()
    assert engine.stop(10)
    messages = []
    for result in published.results:
        numbered = result.model_copy(update={"seq": 1, "stream_id": "x"})
        message: dict[str, Any] = json.loads(numbered.as_json())
        jsonschema.validate(message, json_schema())
        messages.append(message)
    return messages


def _with_spot(level: int) -> Frame:
    one = frame(1, size=(120, 240))
    pixels = np.full_like(one.pixels, 20)
    pixels[30:60, 120:200] = level
    pixels.flags.writeable = False
    return Frame("cam", 1, pixels, 0.0, one.captured_at)


@pytest.mark.parametrize("backend", sorted(BACKENDS))
def test_an_anomaly_model_decides_without_rules(tmp_path: Path, backend: str) -> None:
    model = heat(tmp_path / "model.onnx")
    bad, good = _messages(model, [_with_spot(204), _with_spot(51)], backend)
    assert (bad["decision"], good["decision"]) == ("NOK", "OK")
    [rule] = bad["rules"]
    assert (rule["name"], rule["decision"], rule["seen"]) == ("anomaly", "NOK", pytest.approx(0.8, abs=0.01))
    [content] = bad["resultContent"]
    assert sorted(content) == ["hotBox", "score", "threshold", "type"]
    assert (content["type"], content["threshold"]) == ("anomaly", 0.5)
    assert content["hotBox"] == pytest.approx([120, 30, 200, 60], abs=4)
    assert good["resultContent"][0]["hotBox"] is None


@pytest.mark.parametrize("backend", sorted(BACKENDS))
def test_a_nan_of_an_anomaly_model_is_undefined_and_publishes_no_score(shared: Path, backend: str) -> None:
    [message] = _messages(shared / "cases/open/A42/anomaly_nan.onnx", [_with_spot(20)], backend)
    assert (message["decision"], message["reasons"][0]["code"]) == ("UNDEFINED", "nan")
    assert message["resultContent"] == []
    assert "not finite" in message["warnings"][0]


def test_a_classifier_publishes_its_best_classes(tmp_path: Path) -> None:
    model = tasks.network(tmp_path / "m.onnx", {"scores": np.array([[1, 3]], np.float32)})
    rules = [{"name": "no-class1", "count": {"labels": ["class1"], "min_score": 0.8, "at_most": 0}}]
    [message] = _messages(model, [frame(1)], "onnxruntime", rules=rules)
    assert message["decision"] == "NOK"
    assert message["resultContent"] == [
        {"type": "classification", "label": "class1", "score": pytest.approx(0.8808, abs=1e-4)},
        {"type": "classification", "label": "class0", "score": pytest.approx(0.1192, abs=1e-4)},
    ]


def test_an_object_with_a_mask_is_published_as_its_box(tmp_path: Path) -> None:
    rows = np.zeros((1, 300, 9), np.float32)
    rows[0, 0] = [10, 20, 60, 70, 0.9, 1, 1, 0, 0]
    answers = {"output0": rows, "output1": np.ones((1, 3, 24, 40), np.float32)}
    metadata = networks.ultralytics(["cap", "tear"], task="segment", end2end="True")
    model = tasks.network(tmp_path / "m.onnx", answers, metadata=metadata)
    rules = [{"name": "no-tear", "count": {"labels": ["tear"], "at_most": 0}}]
    [message] = _messages(model, [frame(1, size=tasks.SIZE)], "onnxruntime", rules=rules)
    assert message["resultContent"] == [
        {"type": "detection", "label": "tear", "score": 0.9, "box": [10, 20, 60, 70]}
    ]
