"""The same card and picture give the same answer on every backend: every real network that is at hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import av
import numpy as np
import pytest
from numpy.typing import NDArray

from edge_infer.backends import BACKENDS
from edge_infer.findings import Detection
from edge_infer.model.card import ModelCard
from edge_infer.model.load import load_model
from edge_infer.network import Network
from edge_infer.picture import read
from edge_infer.registry import resolve
from edge_infer.scene import Scene
from tests.support import real_networks

LOWEST_IOU, LARGEST_SCORE_DIFFERENCE = 0.99, 1e-3
# low, so that there are many boxes to compare
THRESHOLD = 0.1
Pixels = NDArray[np.uint8]


@pytest.fixture(scope="module")
def photos(shared: Path) -> list[Pixels]:
    """Every photo, and two frames of each video."""
    pictures = [read(path).pixels for path in sorted((shared / "assets/photos").glob("*.jpg"))]
    for video in sorted((shared / "assets/videos").glob("*.mp4")):
        with av.open(str(video)) as container:
            frames = container.decode(video=0)
            taken = [frame for index, frame in zip(range(41), frames, strict=False) if index in (20, 40)]
            pictures += [np.asarray(frame.to_ndarray(format="bgr24"), np.uint8) for frame in taken]
    return pictures


def answers(card: ModelCard, backend: str, pictures: list[Pixels]) -> list[list[Detection]]:
    network = Network.open(card, resolve(BACKENDS, backend)(type=backend))
    assert network.precision == "f32"
    found = []
    for pixels in pictures:
        findings = network.infer(pixels).findings
        assert findings.detections is not None
        assert findings.undefined is None
        found.append(list(findings.detections))
    network.close()
    return found


def iou(one: Detection, other: Detection) -> float:
    (ax1, ay1, ax2, ay2), (bx1, by1, bx2, by2) = one.box, other.box
    width, height = min(ax2, bx2) - max(ax1, bx1), min(ay2, by2) - max(ay1, by1)
    both = max(width, 0) * max(height, 0)
    return both / ((ax2 - ax1) * (ay2 - ay1) + (bx2 - bx1) * (by2 - by1) - both)


def assert_same(card: ModelCard, pictures: list[Pixels], least: int) -> None:
    card = replace(card, score_threshold=THRESHOLD)
    one, other = (answers(card, backend, pictures) for backend in ("onnxruntime", "openvino"))
    assert sum(map(len, one)) >= least, "too few boxes to compare"
    for mine, theirs in zip(one, other, strict=True):
        left = list(theirs)
        for box in mine:
            same = [each for each in left if each.label == box.label and each.class_id == box.class_id]
            best = max(same, key=lambda each: iou(box, each), default=None)
            if best is None:
                assert box.score < THRESHOLD + LARGEST_SCORE_DIFFERENCE, f"{box} is missing"
                continue
            left.remove(best)
            assert iou(box, best) >= LOWEST_IOU
            assert abs(box.score - best.score) <= LARGEST_SCORE_DIFFERENCE
            assert np.shape(box.keypoints or ()) == np.shape(best.keypoints or ())
            if box.keypoints and best.keypoints:
                assert np.allclose(box.keypoints, best.keypoints, atol=0.1)
        assert all(each.score < THRESHOLD + LARGEST_SCORE_DIFFERENCE for each in left), f"{left} are new"


@pytest.mark.parametrize("name", real_networks.CARDS)
def test_a_real_network_finds_the_same_in_real_pictures(
    shared: Path, tmp_path: Path, photos: list[Pixels], name: str
) -> None:
    card = load_model(real_networks.write_card(tmp_path, shared, name))
    assert_same(card, photos, least=5)


def test_every_network_of_the_assets_is_in_the_table(shared: Path) -> None:
    there = {
        str(path.relative_to(shared / "assets").with_suffix("")) for path in shared.glob("assets/*/*.onnx")
    }
    assert there == set(real_networks.CARDS)


@pytest.mark.parametrize("folder", real_networks.bundled(), ids=lambda folder: folder.name)
def test_a_bundled_network_finds_the_same_on_its_line(folder: Path) -> None:
    scene = Scene(7)
    assert_same(load_model(folder), [scene.pixels(scene.arrival(number)) for number in range(1, 9)], least=8)
