"""Pictures of the bundled scene with their truth, as the network's training sees them."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from edge_infer.scene import HEIGHT, Scene

LABELS = ("bottle", "cap", "skewed-cap", "low-fill", "torn-label", "foreign-object")
INPUT_HEIGHT, INPUT_WIDTH = 240, 320
NARROW = 176
"""Width of a view that leaves out most of the padding beside a station's region: half the work."""
SCALE = INPUT_HEIGHT / HEIGHT
PAD_VALUE = 114

# What training does to the scene's own light, sharpness and noise; evaluate.py goes beyond each of these.
LIGHT = (0.86, 1.14)
COLOR = (0.985, 1.015)
BLUR_SIGMA_PX = (0.0, 0.65)
NOISE_SIGMA = (0.0, 3.5)


@dataclass(frozen=True)
class Picture:
    """One frame at half size."""

    pixels: NDArray[np.uint8]
    """(240, 320, 3) BGR."""
    objects: NDArray[np.float32]
    """(N, 5) class_id, x1, y1, x2, y2 in its pixels; boxes may reach beyond it."""


def render(seeds: range, frames: int, defect_rate: float) -> list[Picture]:
    """``frames`` of every seed's line: two thirds at the light barrier, the rest at any other moment."""
    pictures = []
    for seed in seeds:
        draw = np.random.default_rng([seed, 99])
        scene = Scene(seed, fps=10, defect_rate=defect_rate)
        # a jump of several parts, so that one line shows most of its flavours
        number = 0
        for _ in range(frames):
            number += int(draw.integers(1, 6))
            index = scene.arrival(number) + (0 if draw.random() < 0.67 else int(draw.integers(1, 9)))
            pixels = cv2.resize(
                scene.pixels(index), (INPUT_WIDTH, INPUT_HEIGHT), interpolation=cv2.INTER_LINEAR
            )
            rows = [(LABELS.index(o.label), *(v * SCALE for v in o.box)) for o in scene.objects(index)]
            pictures.append(Picture(pixels, np.array(rows, np.float32).reshape(-1, 5)))
    return pictures


def augment(picture: Picture, width: int, draw: np.random.Generator) -> Picture:
    """Another view, ``width`` pixels wide, with other light, sharpness and noise.

    Its objects are (N, 6): the last column says how much of each is in the view, 0..1.
    """
    pixels, objects = picture.pixels, picture.objects
    if width == INPUT_WIDTH and draw.random() < 0.75:
        pixels, objects = _moved(pixels, objects, draw)
    else:
        pixels, objects = _station(pixels, objects, width, draw)
    sigma = draw.uniform(*BLUR_SIGMA_PX)
    if sigma > 0.25:
        pixels = cv2.GaussianBlur(pixels, (0, 0), sigma)
    gain = draw.uniform(*LIGHT) * draw.uniform(*COLOR, 3)
    noise = draw.standard_normal(pixels.shape, dtype=np.float32) * np.float32(draw.uniform(*NOISE_SIGMA))
    pixels = np.clip(pixels * gain.astype(np.float32) + noise + 0.5, 0, 255).astype(np.uint8)
    return Picture(pixels, objects)


def _station(
    pixels: NDArray[np.uint8], objects: NDArray[np.float32], canvas: int, draw: np.random.Generator
) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
    """A station's region: a column of the picture, letterboxed into the middle."""
    width = 112 if draw.random() < 0.5 else int(draw.integers(96, NARROW + 1))
    middle = int(draw.integers(156, 181)) if draw.random() < 0.7 else int(draw.integers(60, 260))
    left = int(np.clip(middle - width // 2, 0, INPUT_WIDTH - width))
    start = (canvas - width) // 2
    view = np.full((INPUT_HEIGHT, canvas, 3), PAD_VALUE, np.uint8)
    view[:, start : start + width] = pixels[:, left : left + width]
    moved = objects.copy()
    moved[:, [1, 3]] = np.clip(objects[:, [1, 3]], left, left + width) + (start - left)
    return view, _with_visibility(moved, objects, 1.0)


def _moved(
    pixels: NDArray[np.uint8], objects: NDArray[np.float32], draw: np.random.Generator
) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
    """The whole picture, a little larger or smaller and shifted."""
    size = draw.uniform(0.93, 1.07) if draw.random() < 0.5 else 1.0
    dx, dy = draw.uniform(-12, 12), draw.uniform(-6, 6)
    ax, ay = (1 - size) * INPUT_WIDTH / 2 + dx, (1 - size) * INPUT_HEIGHT / 2 + dy
    matrix = np.array([[size, 0, ax], [0, size, ay]], np.float32)
    border = (PAD_VALUE,) * 3
    view = cv2.warpAffine(
        pixels, matrix, (INPUT_WIDTH, INPUT_HEIGHT), flags=cv2.INTER_LINEAR, borderValue=border
    )
    moved = objects.copy()
    moved[:, [1, 3]] = np.clip(
        objects[:, [1, 3]] * size + ax, max(ax, 0), min(ax + size * INPUT_WIDTH, INPUT_WIDTH)
    )
    moved[:, [2, 4]] = np.clip(objects[:, [2, 4]] * size + ay, 0, INPUT_HEIGHT)
    return view.astype(np.uint8, copy=False), _with_visibility(moved, objects, size)


def _with_visibility(
    seen: NDArray[np.float32], whole: NDArray[np.float32], size: float
) -> NDArray[np.float32]:
    """(N, 6): a sixth column says how much of each object is in the view, 0..1."""
    area = (seen[:, 3] - seen[:, 1]) * (seen[:, 4] - seen[:, 2])
    full = (whole[:, 3] - whole[:, 1]) * (whole[:, 4] - whole[:, 2]) * size * size
    return np.concatenate([seen, (area / np.maximum(full, 1e-3))[:, None]], axis=1).astype(np.float32)
