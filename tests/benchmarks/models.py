"""The standard set's model folders, built once and kept under ``.venv/bench``."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from edge_infer.model.load import load_model
from edge_infer.quantize import quantise
from tests.benchmarks import architectures
from tests.benchmarks.graphs import Floats, save
from tests.support.real_networks import CARDS

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".venv" / "bench"
SHARED = ROOT.parent / "shared"
FULL_HD = (1920, 1080)
SIZES = {"yolo11n": (320, 480, 640, 960), "mobilenet-v2": (224,), "resnet18": (224,)}
QUANTISED = ("yolo11n-640", "yolo11n-320", "mobilenet-v2-224", "yolox-nano-416")
YOLOX = "yolox_nano/yolox_nano"
METHOD = "nncf"
"""How: a name in ``quantize.METHODS``."""
_CALIBRATION = 24
"""Frames that quantisation sees."""
_OVERLAP = "nms_iou: 0.15\n"
"""Boxes of drawn weights overlap less than trained ones: so some 50 are left of 150 rows."""


def build() -> Path:
    """The folder with all of them; what was built with the same sources and libraries is used again."""
    key = _key()
    stamp = FOLDER / "stamp"
    if stamp.is_file() and stamp.read_text(encoding="ascii") == key:
        return FOLDER
    FOLDER.mkdir(parents=True, exist_ok=True)
    stamp.unlink(missing_ok=True)
    frames = _frames()
    cv2.imwrite(str(picture()), frames[0])
    for name, sizes in SIZES.items():
        for size in sizes:
            shown = np.concatenate([_letterboxed(one, size) for one in frames[:4]])
            save(architectures.ARCHITECTURES[name](size, shown), FOLDER / f"{name}-{size}" / "model.onnx")
            _card(FOLDER / f"{name}-{size}", "model.onnx", _OVERLAP if name == "yolo11n" else "")
    _card(FOLDER / "yolox-nano-416", f"{SHARED}/assets/{YOLOX}.onnx", CARDS[YOLOX].format(shared=SHARED))
    for name in QUANTISED:
        _quantised(name, frames)
    stamp.write_text(key, encoding="ascii")
    return FOLDER


def picture() -> Path:
    """What every network is shown: a busy photo in full HD."""
    return FOLDER / "picture.png"


def _key() -> str:
    sources = [Path(__file__).with_name(f"{one}.py") for one in ("architectures", "graphs", "models")]
    sources += sorted((ROOT / "edge_infer" / "quantize").glob("*.py"))
    digest = hashlib.sha256()
    for source in sources:
        digest.update(source.read_bytes())
    for package in ("onnx", "onnxruntime", "openvino", "nncf", "opencv-python-headless"):
        digest.update(f"{package} {version(package)}".encode())
    return digest.hexdigest()


def _frames() -> list[NDArray[np.uint8]]:
    """Photos and frames of videos, in full HD; the busiest first."""
    assets = SHARED / "assets"
    if not assets.is_dir():
        raise SystemExit(f"the pictures are missing: {assets}")
    frames = [_read(assets / "photos" / name) for name in ("kite_and_cold.jpg", "cat_720p.jpg", "pets.jpg")]
    for path in sorted((assets / "videos").glob("*.mp4")):
        video = cv2.VideoCapture(str(path))
        count = int(video.get(cv2.CAP_PROP_FRAME_COUNT))
        for at in np.linspace(0, count - 1, (_CALIBRATION - 3) // 2 + 1, dtype=int):
            video.set(cv2.CAP_PROP_POS_FRAMES, int(at))
            there, frame = video.read()
            if there:
                frames.append(_full_hd(np.asarray(frame, np.uint8)))
        video.release()
    return frames


def _read(path: Path) -> NDArray[np.uint8]:
    return _full_hd(np.asarray(cv2.imread(str(path)), np.uint8))


def _full_hd(frame: NDArray[np.uint8]) -> NDArray[np.uint8]:
    height, width = frame.shape[:2]
    # 16:9 out of the middle
    high, wide = min(height, width * 9 // 16), min(width, height * 16 // 9)
    top, left = (height - high) // 2, (width - wide) // 2
    return np.asarray(cv2.resize(frame[top : top + high, left : left + wide], FULL_HD), np.uint8)


def _letterboxed(frame: NDArray[np.uint8], size: int, *, yolox: bool = False) -> Floats:
    """(1, 3, size, size) as the networks are fed."""
    height = size * frame.shape[0] // frame.shape[1]
    canvas = np.full((size, size, 3), 114, np.uint8)
    top = 0 if yolox else (size - height) // 2
    canvas[top : top + height] = cv2.resize(frame, (size, height))
    pixels = canvas if yolox else canvas[:, :, ::-1] / np.float32(255)
    return np.ascontiguousarray(pixels.transpose(2, 0, 1)[None], np.float32)


def _card(folder: Path, network: str, more: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    text = f"format: 1\nname: {folder.name}\nnetwork: {network}\n{more}"
    (folder / "model.yaml").write_text(text, encoding="utf-8")


def _quantised(name: str, frames: Sequence[NDArray[np.uint8]]) -> None:
    card = load_model(FOLDER / name)
    folder = FOLDER / f"{name}-int8"
    folder.mkdir(exist_ok=True)
    size, yolox = card.input.network_size[0], card.decoder == "yolox-raw"
    tensors = folder / "calibration.npy"
    np.save(tensors, np.stack([_letterboxed(one, size, yolox=yolox) for one in frames[:_CALIBRATION]]))
    quantise(METHOD, card.network, folder / "model.xml", picture=card.input.name, tensors=tensors, others={})
    tensors.unlink()
    (folder / "labels.txt").write_text("".join(f"{one}\n" for one in card.labels), encoding="utf-8")
    more = f"labels_file: labels.txt\ntask: {card.task}\ndecoder: {card.decoder}\n"
    if name.startswith("yolo11n"):
        more += _OVERLAP
    if yolox:
        more += "input: {align: top_left, color: bgr, scale: 1}\n"
    if card.task == "classify":
        chosen = {
            "size": list(card.input.size), "resize": card.input.resize, "scale": card.input.scale,
            "interpolation": card.input.interpolation, "mean": list(card.input.mean),
            "std": list(card.input.std),
        }  # fmt: skip
        if card.input.crop:
            chosen["crop"] = list(card.input.crop)
        more += f"input: {json.dumps(chosen)}\n"
    _card(folder, "model.xml", more)
