"""However a network wants its picture, what it sees lies where it is in the picture, on every backend."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from edge_infer.backends import BACKENDS
from edge_infer.model.load import load_model
from edge_infer.network import Network
from edge_infer.registry import resolve
from tests.support import networks

NORMAL: dict[str, Any] = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}
NORMAL_CARD = "mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225]"


@dataclass(frozen=True)
class Way:
    """How a network takes its picture, and what its card says of that."""

    shape: tuple[int | str, ...] = (1, 3, 64, 64)
    dtype: str = "float32"
    card: str = ""
    """Inside ``input: {...}``."""
    network: dict[str, Any] = field(default_factory=dict)
    imgsz: str | None = None


WAYS = {
    "float32 NCHW": Way(),
    "float32 NHWC": Way((1, 64, 64, 3), network={"layout": "nhwc"}),
    "float16 NCHW": Way(dtype="float16"),
    "float16 NHWC": Way((1, 64, 64, 3), "float16", network={"layout": "nhwc"}),
    "uint8 NCHW": Way(dtype="uint8"),
    "uint8 NHWC": Way((1, 64, 64, 3), "uint8", network={"layout": "nhwc"}),
    "grey NCHW": Way((1, 1, 64, 64)),
    "grey NHWC uint8": Way((1, 64, 64, 1), "uint8", network={"layout": "nhwc"}),
    "grey float16": Way((1, 1, 64, 64), "float16"),
    "normalised": Way(card=NORMAL_CARD, network=NORMAL),
    "normalised NHWC float16": Way((1, 64, 64, 3), "float16", NORMAL_CARD, {**NORMAL, "layout": "nhwc"}),
    "0..255": Way(card="scale: 1", network={"std": (1 / 255,)}),
    "free batch": Way(("batch", 3, 64, 64)),
    "free size from the card": Way((1, 3, "height", "width"), card="size: [64, 96]"),
    "all free, size from the card, not a multiple of 32": Way(("b", 3, "h", "w"), card="size: [50, 90]"),
    "all free, size from metadata": Way(("b", 3, "h", "w"), imgsz="[64, 128]"),
    "all free NHWC": Way(("b", "h", "w", 3), card="size: [64, 64]", network={"layout": "nhwc"}),
    "free uint8 NHWC": Way((1, "h", "w", 3), "uint8", "size: [96, 64]", {"layout": "nhwc"}),
    "one free side": Way((1, 3, 64, "w"), card="size: [64, 160]"),
    "batch of 4": Way((4, 3, 64, 64)),
    "batch of 2 NHWC uint8": Way((2, 64, 64, 3), "uint8", network={"layout": "nhwc"}),
    "wide": Way((1, 3, 64, 160)),
    "tall": Way((1, 3, 160, 64)),
    "odd": Way((1, 3, 71, 53)),
    "stretched": Way((1, 3, 96, 64), card="resize: stretch"),
    "top left": Way((1, 3, 96, 64), card="align: top_left"),
    "cut from the middle": Way(card="resize: center_crop, size: [80, 80], crop: [64, 64]"),
    "area": Way(card="interpolation: area"),
    "antialias": Way(card="interpolation: antialias"),
}
RED = (150, 150, 240)


def picture(width: int, height: int) -> tuple[NDArray[np.uint8], tuple[int, int, int, int]]:
    """Black with a red rectangle a little off its middle; BGR."""
    pixels = np.zeros((height, width, 3), np.uint8)
    box = (round(width * 0.40), round(height * 0.35), round(width * 0.70), round(height * 0.60))
    pixels[box[1] : box[3], box[0] : box[2]] = RED
    return pixels, box


def write(folder: Path, way: Way) -> Path:
    metadata = networks.ultralytics(["red", "green", "blue"], imgsz=way.imgsz) if way.imgsz else None
    networks.spot(folder / "model.onnx", way.shape, way.dtype, metadata=metadata, **way.network)
    (folder / "model.yaml").write_text(
        "format: 1\nname: spot\nnetwork: model.onnx\ndecoder: yolo-end2end\nlabels: [red, green, blue]\n"
        f"input: {{{way.card}}}\n"
    )
    return folder


@pytest.mark.parametrize("backend", sorted(BACKENDS))
@pytest.mark.parametrize("name", WAYS)
def test_a_spot_is_found_where_it_is_in_its_colour_and_brightness(
    tmp_path: Path, name: str, backend: str
) -> None:
    way = WAYS[name]
    card = load_model(write(tmp_path, way))
    network = Network.open(card, resolve(BACKENDS, backend)(type=backend))
    for width, height in ((641, 333), (320, 320), (360, 640), (64, 64)):
        pixels, box = picture(width, height)
        findings = network.infer(pixels).findings
        assert findings.detections is not None
        (found,) = findings.detections
        # a pixel of the network on each side, and the threshold at half the brightness
        tolerance = 1.5 * max(width, height) / min(card.input.crop or card.input.size) + 0.5
        assert found.box == pytest.approx(box, abs=tolerance)
        grey = card.input.color == "gray"
        assert found.label == "red"
        brightness = cv2.cvtColor(pixels, cv2.COLOR_BGR2GRAY).max() if grey else max(RED)
        assert found.score == pytest.approx(float(brightness) / 255, abs=0.01)
    network.close()
