"""A large picture looked at in tiles: more small objects, each once, the same on every backend."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edge_infer.backends import BACKENDS
from edge_infer.errors import ConfigError, ModelError
from edge_infer.findings import Detections
from edge_infer.model.card import ModelCard, Tiles
from edge_infer.model.golden import iou
from edge_infer.model.load import load_model
from edge_infer.network import Network
from edge_infer.picture import read
from edge_infer.registry import resolve
from tests.support import networks, real_networks


@pytest.fixture
def card(shared: Path, tmp_path: Path) -> ModelCard:
    loaded = load_model(real_networks.write_card(tmp_path, shared, "yolox_nano/yolox_nano"))
    return replace(loaded, score_threshold=0.4)


def found(card: ModelCard, shared: Path, tiles: Tiles | None, backend: str = "openvino") -> Detections:
    network = Network.open(
        replace(card, input=replace(card.input, tiles=tiles)), resolve(BACKENDS, backend)()
    )
    detections = network.infer(read(shared / "assets/photos/kite_and_cold.jpg").pixels).findings.detections
    network.close()
    assert detections is not None
    return detections


def test_a_real_network_finds_small_objects_too_and_each_large_one_once(
    shared: Path, card: ModelCard
) -> None:
    whole, tiled = found(card, shared, None), found(card, shared, Tiles((640, 640)))
    assert len(tiled) > len(whole)
    for one in whole:
        if one.score > 0.6:
            (match,) = [other for other in tiled if iou(one.box, other.box) > 0.5]
            assert match.label == one.label
    assert list(tiled.scores) == sorted(tiled.scores, reverse=True)


def test_tiles_give_the_same_on_every_backend(shared: Path, card: ModelCard) -> None:
    one, other = (found(card, shared, Tiles((640, 640)), backend) for backend in ("onnxruntime", "openvino"))
    assert one.labels == other.labels
    np.testing.assert_allclose(one.boxes, other.boxes, atol=0.05)
    np.testing.assert_allclose(one.scores, other.scores, atol=1e-3)


def write(folder: Path, tiles: str, **network: str) -> Path:
    networks.spot(folder / "model.onnx", metadata=networks.ultralytics(["red", "green", "blue"], **network))
    (folder / "model.yaml").write_text(
        f"format: 1\nname: spot\nnetwork: model.onnx\ndecoder: yolo-end2end\ninput: {{tiles: {tiles}}}\n"
    )
    return folder


@pytest.mark.parametrize("region", [None, (100, 50, 700, 450)])
@pytest.mark.parametrize("backend", sorted(BACKENDS))
def test_an_object_over_a_seam_is_one_box_in_the_frame(
    tmp_path: Path, backend: str, region: tuple[int, int, int, int] | None
) -> None:
    network = Network.open(load_model(write(tmp_path, "{size: [200, 200]}")), resolve(BACKENDS, backend)())
    pixels = np.zeros((600, 800, 3), np.uint8)
    pixels[150:390, 230:610] = (150, 150, 240)
    if region is not None:
        # outside: nobody looks there
        pixels[500:560, 20:80] = (150, 150, 240)
    detections = network.infer(pixels, region).findings.detections
    network.close()
    assert detections is not None
    (one,) = detections
    # a tile of 200 pixels is 64 of the network's
    assert one.box == pytest.approx((230, 150, 610, 390), abs=4)
    assert one.label == "red"


def test_tiles_that_would_take_minutes_are_refused(tmp_path: Path) -> None:
    network = Network.open(load_model(write(tmp_path, "{size: [8, 8]}")), resolve(BACKENDS, "openvino")())
    with pytest.raises(ModelError, match=r"tiles of 8x8 pixels for one picture, at most 256"):
        network.infer(np.zeros((600, 800, 3), np.uint8))
    network.close()


@pytest.mark.parametrize(
    "tiles", ["{size: [0, 5]}", "{size: [64, 64], overlap: 1}", "{overlap: 0.2}", "[64, 64]"]
)
def test_a_wrong_key_is_told_with_its_place(tmp_path: Path, tiles: str) -> None:
    with pytest.raises(ConfigError, match=r"model\.yaml:5:\d+: input\.tiles"):
        load_model(write(tmp_path, tiles))


def test_networks_that_judge_whole_pictures_have_no_tiles(shared: Path, tmp_path: Path) -> None:
    (tmp_path / "model.yaml").write_text(
        f"format: 1\nname: x\nnetwork: {shared}/cases/open/A39/model.onnx\n"
        "input: {tiles: {size: [64, 64]}}\n"
    )
    with pytest.raises(ConfigError, match="the task anomaly look at the whole picture"):
        load_model(tmp_path)


def test_inspect_tells_the_tiles(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from edge_infer.commands.model import model

    model.main(["inspect", str(write(tmp_path, "{size: [200, 300]}")), "--json"], standalone_mode=False)
    values = json.loads(capsys.readouterr().out)["values"]
    assert values["input.tiles"] == {"value": {"size": [200, 300], "overlap": 0.2}, "from": "card"}
