"""The tuned model's card."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import openvino
import pytest

from edge_infer.errors import ConfigError, EdgeInferError, ModelError
from edge_infer.model.card import ModelCard
from edge_infer.model.load import load_model
from edge_infer.tune.card import write_model
from tests.support import tasks
from tests.support.real_networks import CARDS, write_card


def cards(shared: Path, folder: Path) -> list[ModelCard]:
    """Of every task and exporter that the cases know, and of the real networks."""
    found = []
    for case in sorted((shared / "cases/open").iterdir()):
        models = [case] if (case / "model.yaml").exists() else sorted(case.glob("*.onnx"))[:1]
        for model in models:
            try:
                found.append(load_model(model))
            except (ConfigError, EdgeInferError):
                continue  # cases of what is refused
    for task, answer in (("classify", np.ones((1, 3))), ("semantic", np.ones((1, 3, 24, 40)))):
        place = folder / task
        place.mkdir()
        # its weights lie in a file of their own
        tasks.network(place / "model.onnx", {"out": answer.astype(np.float32)}, external=True)
        (place / "model.yaml").write_text(
            f"format: 1\nname: m\nnetwork: model.onnx\ntask: {task}\nlabels: [a, b, c]\n", encoding="utf-8"
        )
        found.append(load_model(place))
    for number, name in enumerate(CARDS):
        place = folder / str(number)
        place.mkdir()
        found.append(load_model(write_card(place, shared, name)))
    return found


def test_it_is_read_as_the_original_is_whatever_told_that(shared: Path, tmp_path: Path) -> None:
    tried = set()
    for number, card in enumerate(cards(shared, tmp_path)):
        out = tmp_path / f"tuned-{number}"
        out.mkdir()
        # it refuses by itself what is read otherwise
        write_model(out, card, card.network, quantised=False)
        made = load_model(out)
        assert (made.sha256, made.version) == (card.sha256, card.version)
        tried.add(card.task)
    assert tried >= {"detect", "segment", "obb", "pose", "classify", "semantic", "anomaly"}


def test_another_network_has_another_version(shared: Path, tmp_path: Path) -> None:
    (tmp_path / "original").mkdir()
    card = load_model(write_card(tmp_path / "original", shared, "yolox_nano/yolox_nano", "version: '3'\n"))
    network = tmp_path / "quantised.xml"
    openvino.save_model(openvino.Core().read_model(card.network), network, compress_to_fp16=False)
    (tmp_path / "tuned").mkdir()
    write_model(tmp_path / "tuned", card, network, quantised=True)
    made = load_model(tmp_path / "tuned")
    assert made.version == "3-int8"
    assert made.network.name == "model.xml"
    assert made.labels == card.labels
    assert (tmp_path / "tuned/LICENSE").read_bytes() == (shared / "assets/yolox_nano/LICENSE").read_bytes()


def test_a_network_that_would_be_read_otherwise_is_refused(shared: Path, tmp_path: Path) -> None:
    (tmp_path / "original").mkdir()
    card = load_model(write_card(tmp_path / "original", shared, "yunet/yunet_n_dynamic"))
    (tmp_path / "tuned").mkdir()
    with pytest.raises((ModelError, ConfigError)):
        write_model(tmp_path / "tuned", card, shared / "assets/yolox_nano/yolox_nano.onnx", quantised=True)
