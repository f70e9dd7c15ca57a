"""What stands still or runs under the bottles: the machine behind them, the belt, the light."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

HEIGHT, WIDTH = 480, 640
BELT_TOP, BELT_BOTTOM = 396, 456
BELT_PERIOD = 960
"""Pixels after which the belt's picture repeats."""
_SLAT = 48


def machine(draw: np.random.Generator) -> NDArray[np.uint8]:
    """(HEIGHT, WIDTH, 3) BGR: the out-of-focus hall, the guide rails, the conveyor's frame."""
    tone = draw.uniform(105, 150)
    cast = np.array([draw.uniform(0.98, 1.12), 1.0, draw.uniform(0.9, 1.02)], np.float32)
    ramp = np.linspace(1.12, 0.82, HEIGHT, dtype=np.float32)[:, None, None]
    picture = np.clip(np.ones((HEIGHT, WIDTH, 3), np.float32) * tone * ramp * cast, 0, 255)
    for _ in range(int(draw.integers(4, 8))):
        x, y = int(draw.integers(-60, WIDTH)), int(draw.integers(-40, 300))
        w, h = int(draw.integers(60, 240)), int(draw.integers(60, 260))
        shade = tone * draw.uniform(0.45, 1.35) * cast * draw.uniform(0.94, 1.06, 3)
        cv2.rectangle(picture, (x, y), (x + w, y + h), tuple(shade.tolist()), -1)
        cv2.rectangle(picture, (x, y), (x + w, y + h), tuple((shade * 0.6).tolist()), 3)
    for _ in range(int(draw.integers(2, 5))):
        _bar(picture, int(draw.integers(0, WIDTH)), int(draw.integers(12, 34)), tone * 1.25, upright=True)
    for _ in range(int(draw.integers(1, 4))):
        _bar(picture, int(draw.integers(20, 330)), int(draw.integers(8, 22)), tone * 1.15, upright=False)
    for _ in range(int(draw.integers(2, 6))):
        _cable(picture, draw)
    for _ in range(int(draw.integers(2, 5))):
        lamp = tuple(draw.choice([[90, 220, 110], [60, 180, 250], [235, 235, 240], [70, 70, 230]]).tolist())
        center = (int(draw.integers(0, WIDTH)), int(draw.integers(10, 300)))
        cv2.circle(picture, center, int(draw.integers(5, 12)), lamp, -1, cv2.LINE_AA)
    picture = cv2.GaussianBlur(picture, (0, 0), float(draw.uniform(6, 10)))
    for y in (int(draw.integers(226, 246)), int(draw.integers(322, 344))):
        _bar(picture, y, 9, tone * 1.3, upright=False, below=0.55)
    for x in range(int(draw.integers(0, 200)), WIDTH, 260):
        _bar(picture[226:396], x, 14, tone * 1.05, upright=True)
    picture[220:396] = cv2.GaussianBlur(picture, (0, 0), 1.6)[220:396]
    _frame(picture, draw, tone)
    picture += cv2.GaussianBlur(draw.normal(0, 6, picture.shape[:2]).astype(np.float32), (0, 0), 1.2)[
        ..., None
    ]
    done: NDArray[np.uint8] = np.clip(picture, 0, 255).astype(np.uint8)
    return done


def _bar(
    picture: NDArray[np.float32], at: int, size: int, tone: float, *, upright: bool, below: float = 0.0
) -> None:
    """A round stainless bar: dark edges, a bright line off its middle; ``below`` darkens what is under it."""
    across = np.linspace(-1, 1, size, dtype=np.float32)
    shade = tone * (0.45 + 0.75 * np.exp(-((across + 0.3) ** 2) / 0.12) + 0.1 * across)
    view = picture.transpose(1, 0, 2) if upright else picture
    lo, hi = max(at, 0), min(at + size, view.shape[0])
    if hi > lo:
        view[lo:hi] = np.clip(shade[lo - at : hi - at], 0, 255)[:, None, None]
        if below:
            view[hi : hi + size] *= below


def _cable(picture: NDArray[np.float32], draw: np.random.Generator) -> None:
    """A cable or hose that hangs between two points."""
    t = np.linspace(0, 1, 40)
    x1, x2 = draw.uniform(-80, WIDTH / 2), draw.uniform(WIDTH / 2, WIDTH + 80)
    y = (
        draw.uniform(-40, 220) * (1 - t)
        + draw.uniform(-40, 220) * t
        + 4 * draw.uniform(20, 110) * t * (1 - t)
    )
    points = np.stack([x1 + (x2 - x1) * t, y], 1).astype(np.int32)
    color = tuple(
        draw.choice([[40, 40, 45], [60, 58, 55], [150, 100, 50], [50, 60, 130], [70, 130, 140]]).tolist()
    )
    cv2.polylines(picture, [points], False, color, int(draw.integers(3, 9)), cv2.LINE_AA)


def _frame(picture: NDArray[np.float32], draw: np.random.Generator, tone: float) -> None:
    """The conveyor's side: the wear strip above the belt's far edge and the profile with its bolts."""
    picture[BELT_TOP - 5 : BELT_TOP] = tone * 0.55
    picture[BELT_BOTTOM : BELT_BOTTOM + 4] = tone * 0.35
    side = np.linspace(1.15, 0.75, HEIGHT - BELT_BOTTOM - 4, dtype=np.float32)[:, None, None]
    brushed = 1 + cv2.blur(
        draw.normal(0, 0.25, (HEIGHT - BELT_BOTTOM - 4, WIDTH)).astype(np.float32), (41, 1)
    )
    picture[BELT_BOTTOM + 4 :] = tone * side * brushed[..., None]
    for x in range(int(draw.integers(10, 90)), WIDTH, 118):
        cv2.circle(picture, (x, 470), 5, (tone * 0.5,) * 3, -1, cv2.LINE_AA)
        cv2.circle(picture, (x - 1, 469), 3, (tone * 1.1,) * 3, -1, cv2.LINE_AA)


def belt(draw: np.random.Generator) -> NDArray[np.uint8]:
    """(BELT_BOTTOM - BELT_TOP, 2 * BELT_PERIOD, 3) BGR: the slat chain, twice: any view of it is a slice."""
    height = BELT_BOTTOM - BELT_TOP
    tone = draw.uniform(70, 105)
    cast = np.array([draw.uniform(0.95, 1.15), 1.0, draw.uniform(0.92, 1.02)], np.float32)
    y = np.linspace(0, 1, height, dtype=np.float32)[:, None]
    x = np.arange(BELT_PERIOD, dtype=np.float32)[None]
    slat = (x % _SLAT) / _SLAT
    wear = draw.normal(1, 0.06, BELT_PERIOD // _SLAT).astype(np.float32).repeat(_SLAT)[None]
    shade = tone * (0.72 + 0.5 * y) * wear * (1 + 0.10 * np.sin(slat * np.pi))
    shade = np.where(slat < 0.06, shade * 0.45, shade)
    shade = np.where((slat > 0.06) & (slat < 0.09), shade * 1.3, shade)
    # holes of the chain, two rows
    for row in (0.3, 0.7):
        hole = np.exp(-(((slat - 0.5) * _SLAT) ** 2) / 16 - ((y - row) * height) ** 2 / 6)
        shade = shade * (1 - 0.35 * hole)
    grain = cv2.GaussianBlur(draw.normal(0, 14, (height, BELT_PERIOD)).astype(np.float32), (0, 0), 1.0)
    scratches = cv2.blur(draw.normal(0, 26, (height, BELT_PERIOD)).astype(np.float32), (25, 1))
    shade = shade + grain + scratches
    for _ in range(int(draw.integers(10, 26))):
        spot = (int(draw.integers(0, BELT_PERIOD)), int(draw.integers(4, height - 4)))
        shade = np.ascontiguousarray(shade)
        cv2.circle(
            shade, spot, int(draw.integers(1, 3)), float(tone * draw.choice([0.6, 1.35])), -1, cv2.LINE_AA
        )
    strip = np.clip(cv2.blur(shade, (3, 1))[..., None] * cast, 0, 255).astype(np.uint8)
    return np.ascontiguousarray(np.concatenate([strip, strip], axis=1))


def light_field(draw: np.random.Generator) -> NDArray[np.uint8]:
    """(HEIGHT, WIDTH, 3), 200 is neutral: the lamp is not quite over the middle, corners are darker."""
    x = np.linspace(-1, 1, WIDTH, dtype=np.float32)[None] - draw.uniform(-0.3, 0.3)
    y = np.linspace(-1, 1, HEIGHT, dtype=np.float32)[:, None] - draw.uniform(-0.4, 0.1)
    field = 200 * (1.08 - 0.16 * x * x - 0.10 * y * y)
    return np.repeat(np.clip(field, 0, 255).astype(np.uint8)[..., None], 3, axis=2)
