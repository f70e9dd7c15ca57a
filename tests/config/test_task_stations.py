"""Stations whose model judges the whole picture."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from edge_infer.config.site import load_site
from edge_infer.errors import ConfigError
from tests.support import tasks
from tests.support.heat import heat

SITE = """\
format: 1
site: plant1
line: l3
device: ipc7
mqtt: {host: localhost}
cameras:
  tape: {type: files, path: tape}
models:
  m: {path: m}
stations:
  s:
    camera: tape
    model: m
"""
COUNT = "count: {labels: [class0], at_most: 0}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tape").mkdir()
    (tmp_path / "tape/1.png").write_text("made up")
    (tmp_path / "m").mkdir()
    (tmp_path / "m/model.yaml").write_text("format: 1\nname: m\nnetwork: m.onnx\n")
    return tmp_path


def _mistakes(folder: Path, rules: str) -> list[str]:
    (folder / "site.yaml").write_text(f"{SITE}    rules: [{rules}]\n")
    with pytest.raises(ConfigError) as refused:
        load_site(folder / "site.yaml")
    return str(refused.value).splitlines()


def test_an_anomaly_model_needs_no_rules(folder: Path) -> None:
    heat(folder / "m/m.onnx")
    (folder / "site.yaml").write_text(SITE)
    assert load_site(folder / "site.yaml").cards["m"].task == "anomaly"


def test_an_anomaly_model_has_nothing_to_count(folder: Path) -> None:
    heat(folder / "m/m.onnx")
    (line,) = _mistakes(folder, f"{{name: r, {COUNT}}}")
    assert "stations.s.rules: the model m judges by its own threshold" in line


def test_a_classifier_needs_rules_and_does_not_say_where(folder: Path) -> None:
    tasks.network(folder / "m/m.onnx", {"scores": np.zeros((1, 3), np.float32)}, last="Softmax")
    (line,) = _mistakes(folder, "")
    assert "a station needs rules" in line
    zone = "zone: {polygon: [[0, 0], [1, 0], [1, 1]]}"
    for more, key in ((zone, "zone"), ("min_area_px: 4", "min_area_px")):
        (line,) = _mistakes(folder, f"{{name: r, {COUNT}, {more}}}")
        assert f"rules[0].{key}: the model m judges the whole picture, it does not say where" in line
    (folder / "site.yaml").write_text(f"{SITE}    rules: [{{name: r, {COUNT}}}]\n")
    assert load_site(folder / "site.yaml").cards["m"].task == "classify"


def test_an_anomaly_threshold_lies_on_the_normalised_score_and_needs_an_anomaly_model(folder: Path) -> None:
    heat(folder / "m/m.onnx")
    path = folder / "site.yaml"
    path.write_text(f"{SITE}    anomaly_threshold: 0.7\n")
    assert load_site(path).stations["s"].anomaly_threshold == 0.7
    path.write_text(f"{SITE}    anomaly_threshold: 1.2\n")
    with pytest.raises(ConfigError, match=r"anomaly_threshold: 1\.2: "):
        load_site(path)
    tasks.network(folder / "m/m.onnx", {"scores": np.zeros((1, 3), np.float32)}, last="Softmax")
    path.write_text(f"{SITE}    anomaly_threshold: 0.7\n    rules: [{{name: r, {COUNT}}}]\n")
    with pytest.raises(ConfigError, match="anomaly_threshold: the model m finds no anomalies"):
        load_site(path)
