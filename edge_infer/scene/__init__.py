"""The bundled line: bottles on a belt, drawn. A frame is a pure function of (seed, index)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from edge_infer.scene import canvas, hall
from edge_infer.scene.bottle import Sprite, draw_bottle
from edge_infer.scene.parts import DEFECTS, PITCH_JITTER_PX, PITCH_PX, Defect, Part, deal, rng
from edge_infer.scene.product import Product

__all__ = ["BARRIER_X", "DEFECTS", "HEIGHT", "WIDTH", "Defect", "Object", "Part", "Scene"]

HEIGHT, WIDTH = hall.HEIGHT, hall.WIDTH
BARRIER_X = 320
"""The light barrier's column."""
SPEED_PX_S = 280.0
_FULL_SPEED_FPS = 10.0
_FLOOR_Y = 424
_NOISE_BANK = 96
_CACHED_SPRITES = 8


@dataclass(frozen=True, slots=True)
class Object:
    """Something in the picture, as it truly is."""

    label: str
    """bottle, cap, skewed-cap, low-fill, torn-label or foreign-object."""
    box: tuple[float, float, float, float]
    """x1, y1, x2, y2 in pixels of the frame; may reach beyond it."""
    part: Part


class Scene:
    """The line that ``seed`` names, seen at ``fps`` frames a second.

    The belt runs 280 px a second, slower for a camera of less than 10 frames a second, so that a part is
    never more than 28 px past the light barrier on the first frame after it. Used by one thread.
    """

    def __init__(self, seed: int, fps: float = 10.0, defect_rate: float = 0.2) -> None:
        self.seed = seed
        self.speed_px_s = SPEED_PX_S * min(fps, _FULL_SPEED_FPS) / _FULL_SPEED_FPS
        self._step_px = self.speed_px_s / fps
        self._defect_rate = defect_rate
        draw = rng(seed, 5)
        self._machine = hall.machine(draw)
        self._belt = hall.belt(draw)
        self._field = hall.light_field(draw)
        self._light = draw.uniform(0.94, 1.06)
        self._drift = (draw.uniform(20, 60), draw.uniform(0, 6.28), draw.uniform(0.03, 0.06))
        self._noise = _noise(draw)
        self._product = Product(seed)
        self._sprites: dict[int, Sprite] = {}

    def part(self, number: int) -> Part:
        """Part ``number``; a pure function of the seed."""
        return deal(self.seed, number, self._defect_rate)

    def travel_px(self, index: int) -> float:
        """How far the belt has run at frame ``index``."""
        return index * self._step_px

    def arrival(self, number: int) -> int:
        """The first frame captured at or after the part's centre reached the light barrier, from 1."""
        return max(1, math.ceil(self.part(number).position_px / self._step_px))

    def arrival_s(self, number: int) -> float:
        """When the part's centre is at the light barrier, in seconds from frame 0."""
        return self.part(number).position_px / self.speed_px_s

    def visible(self, index: int) -> list[tuple[Part, int]]:
        """The parts in the picture, each with the column of its centre, newest first."""
        travel = self.travel_px(index)
        reach = BARRIER_X + canvas.WIDTH // 2 + PITCH_JITTER_PX
        first = math.floor((travel - reach) / PITCH_PX) - 1
        last = math.ceil((travel + reach) / PITCH_PX)
        found = []
        for number in range(last, first - 1, -1):
            part = self.part(number)
            x = round(BARRIER_X + travel - part.position_px)
            if -canvas.WIDTH // 2 < x < WIDTH + canvas.WIDTH // 2:
                found.append((part, x))
        return found

    def objects(self, index: int) -> list[Object]:
        """The truth of frame ``index``: what is in it and where."""
        found = []
        for part, x in self.visible(index):
            left, top = x - canvas.FOOT_X, round(_FLOOR_Y + part.lane_px) - canvas.FOOT_Y
            for label, (x1, y1, x2, y2) in self._sprite(part).boxes:
                found.append(Object(label, (x1 + left, y1 + top, x2 + left, y2 + top), part))
        return found

    def pixels(self, index: int) -> NDArray[np.uint8]:
        """(HEIGHT, WIDTH, 3) BGR, read-only: the same bytes for the same index in every process."""
        picture = self._machine.copy()
        start = -round(self.travel_px(index)) % hall.BELT_PERIOD
        picture[hall.BELT_TOP : hall.BELT_BOTTOM] = self._belt[:, start : start + WIDTH]
        for part, x in self.visible(index):
            _paste(
                picture, self._sprite(part), x - canvas.FOOT_X, round(_FLOOR_Y + part.lane_px) - canvas.FOOT_Y
            )
        draw = rng(self.seed, 6, index)
        cv2.multiply(picture, self._field, dst=picture, scale=self._gain(index, draw) / 200)
        y, x = draw.integers(0, _NOISE_BANK, 2)
        cv2.add(picture, self._noise[y : y + HEIGHT, x : x + WIDTH], dst=picture, dtype=cv2.CV_8U)
        picture.flags.writeable = False
        return picture

    def _gain(self, index: int, draw: np.random.Generator) -> float:
        """Slow drift of the lamp and the flicker of every frame."""
        period_s, phase, depth = self._drift
        seconds = self.travel_px(index) / SPEED_PX_S
        drift = 1 + depth * math.sin(2 * math.pi * seconds / period_s + phase)
        return float(self._light * drift * (1 + draw.normal(0, 0.008)))

    def _sprite(self, part: Part) -> Sprite:
        sprite = self._sprites.get(part.number)
        if sprite is None:
            sprite = self._sprites[part.number] = draw_bottle(part, self._product)
            while len(self._sprites) > _CACHED_SPRITES:
                del self._sprites[next(iter(self._sprites))]
        return sprite


def _noise(draw: np.random.Generator) -> NDArray[np.int16]:
    """Sensor noise, larger than the frame: each frame takes another window of it."""
    shape = (HEIGHT + _NOISE_BANK, WIDTH + _NOISE_BANK)
    sigma = draw.uniform(2.0, 4.0)
    gray = draw.standard_normal(shape, dtype=np.float32)[..., None] * sigma
    color = draw.standard_normal((*shape, 3), dtype=np.float32) * sigma * 0.5
    return np.rint(gray + color).astype(np.int16)


def _paste(picture: NDArray[np.uint8], sprite: Sprite, left: int, top: int) -> None:
    x1, x2 = max(left, 0), min(left + canvas.WIDTH, WIDTH)
    y1, y2 = max(top, 0), min(top + canvas.HEIGHT, HEIGHT)
    if x2 <= x1:
        return
    cut = (slice(y1 - top, y2 - top), slice(x1 - left, x2 - left))
    view = picture[y1:y2, x1:x2]
    cv2.multiply(view, sprite.through[cut], dst=view, scale=1 / 255)
    cv2.add(view, sprite.light[cut], dst=view)
