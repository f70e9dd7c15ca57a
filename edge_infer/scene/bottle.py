"""One bottle as a sprite: how much light it lets through and how much it adds, pixel by pixel.

Everything is worked out in the bottle's own coordinates (u across, v up from the base), so that tilt and
size need no resampling.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import cv2
import numpy as np
from numpy.typing import NDArray

from edge_infer.scene.parts import Part, rng
from edge_infer.scene.printing import printed_label

Plane = NDArray[np.float32]
Color = tuple[float, float, float]

WIDTH, HEIGHT = 208, 432
FOOT_X, FOOT_Y = 104, 392
"""Where in the sprite the middle of the bottle's base is."""
_RADIUS = 45.0
"""Of the label, for its curvature."""
_LABEL_AROUND = 284


@dataclass(frozen=True, slots=True)
class Shape:
    """A bottle's outline and what belongs where on it, in pixels above the base."""

    outline: tuple[tuple[float, float], ...]
    """(v, half width)."""
    label: tuple[float, float]
    fill: float
    """Nominal level."""
    mouth: float
    """Where the neck ends."""
    cap: tuple[float, float, float]
    """Bottom, top, half width."""
    glass: Color
    """What one wall lets through, BGR."""


SHAPES = (
    Shape(
        ((0, 36), (4, 41), (10, 44), (26, 45), (40, 43.5), (56, 45), (70, 45), (76, 43.5), (176, 43.5), (182, 45),
         (192, 45), (212, 39), (232, 30), (250, 20), (262, 15), (270, 14), (271, 18.5), (275, 18.5), (276, 13.5),
         (296, 13.5)),
        label=(78, 174), fill=232, mouth=296, cap=(278, 301, 17.5), glass=(0.95, 0.95, 0.93),
    ),
    Shape(
        ((0, 37), (5, 40.5), (14, 42), (150, 42), (166, 39), (184, 30), (204, 20), (224, 16), (262, 14.5), (276, 14),
         (277, 17), (283, 17), (284, 13.5), (300, 13.5)),
        label=(44, 134), fill=212, mouth=300, cap=(284, 306, 17), glass=(0.80, 0.90, 0.78),
    ),
    Shape(
        ((0, 40), (4, 44), (10, 46), (58, 46), (64, 44.5), (168, 44.5), (174, 46), (196, 46), (222, 40), (242, 29),
         (254, 22), (256, 20), (257, 24), (262, 24), (263, 19), (280, 19)),
        label=(66, 166), fill=232, mouth=280, cap=(264, 288, 23), glass=(0.94, 0.95, 0.95),
    ),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Flavour:
    """What is in the bottle and the colours that go with it, BGR."""

    through: Color
    """What the whole thickness lets through."""
    body: Color
    """What the liquid itself gives back."""
    ink: Color
    cap: Color


FLAVOURS = (
    Flavour((0.90, 0.90, 0.88), (6, 5, 4), (170, 90, 30), (190, 110, 40)),
    Flavour((0.05, 0.07, 0.16), (8, 10, 22), (40, 35, 190), (35, 30, 180)),
    Flavour((0.04, 0.10, 0.16), (25, 120, 205), (30, 120, 230), (40, 130, 225)),
    Flavour((0.25, 0.68, 0.86), (10, 45, 60), (60, 140, 70), (70, 150, 60)),
    Flavour((0.30, 0.80, 0.45), (20, 60, 35), (50, 130, 40), (225, 225, 225)),
    Flavour((0.28, 0.16, 0.74), (30, 20, 90), (120, 40, 150), (60, 60, 65)),
)


class Product:
    """What one seed's line fills: one shape, a flavour a batch."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        draw = rng(seed, 2)
        self.shape = SHAPES[int(draw.integers(len(SHAPES)))]
        v, w = zip(*self.shape.outline, strict=True)
        steps = np.arange(0, self.shape.mouth + 0.5, 0.5, dtype=np.float32)
        outline = np.interp(steps, v, w).astype(np.float32)[None]
        self._outline = cv2.GaussianBlur(outline, (9, 1), 1.6, borderType=cv2.BORDER_REPLICATE)[0]
        self._first_flavour = int(draw.integers(len(FLAVOURS)))
        self._labels: dict[int, NDArray[np.float32]] = {}

    def half_width(self, v: Plane) -> Plane:
        """Of the outline at heights ``v``; 0 outside."""
        width: Plane = np.interp(v, np.arange(self._outline.size) / 2, self._outline).astype(np.float32)
        return width

    def flavour(self, batch: int) -> Flavour:
        """Neighbouring batches differ."""
        return FLAVOURS[(self._first_flavour + batch * 5) % len(FLAVOURS)]

    def label(self, batch: int) -> NDArray[np.float32]:
        """The flat print of a batch."""
        kind = (self._first_flavour + batch * 5) % len(FLAVOURS)
        if kind not in self._labels:
            low, high = self.shape.label
            draw = rng(self.seed, 3, kind)
            self._labels[kind] = printed_label(draw, int(high - low), _LABEL_AROUND, FLAVOURS[kind].ink)
        return self._labels[kind]


@dataclass(frozen=True, slots=True, eq=False)
class Sprite:
    """picture = under * through / 255 + light."""

    through: NDArray[np.uint8]
    """(HEIGHT, WIDTH, 3)"""
    light: NDArray[np.uint8]
    """(HEIGHT, WIDTH, 3)"""
    boxes: tuple[tuple[str, tuple[float, float, float, float]], ...]
    """Label and x1, y1, x2, y2 in the sprite."""


class _Drawing:
    """A sprite in the making."""

    def __init__(self, part: Part, product: Product) -> None:
        self.part, self.product, self.shape = part, product, product.shape
        self.flavour = product.flavour(part.batch)
        self.draw = rng(part.look, 4)
        self.through = np.ones((HEIGHT, WIDTH, 3), np.float32)
        self.light = np.zeros((HEIGHT, WIDTH, 3), np.float32)
        y, x = np.mgrid[0:HEIGHT, 0:WIDTH].astype(np.float32)
        self.x, self.y = x - FOOT_X, FOOT_Y - y
        cos, sin = np.cos(part.tilt), np.sin(part.tilt)
        self.u: Plane = ((self.x * cos - self.y * sin) / part.size).astype(np.float32)
        self.v: Plane = ((self.x * sin + self.y * cos) / part.size).astype(np.float32)
        self.w = product.half_width(self.v)
        self.s: Plane = np.clip(self.u / np.maximum(self.w, 1), -1, 1)
        self.depth: Plane = np.sqrt(1 - self.s * self.s)
        self.boxes: list[tuple[str, tuple[float, float, float, float]]] = []

    # -- layers ---------------------------------------------------------------------------------------------

    def lay(self, alpha: Plane, through: Plane | Color, light: Plane | Color) -> None:
        """Put something in front: where ``alpha``, lets ``through`` pass and adds ``light`` (0..255)."""
        a = alpha[..., None]
        keep = 1 - a + a * np.asarray(through, np.float32)
        self.through *= keep
        self.light *= keep
        self.light += a * np.asarray(light, np.float32)

    def cover(self, alpha: Plane, color: Plane | Color) -> None:
        """Put something opaque in front."""
        self.lay(alpha, (0.0, 0.0, 0.0), color)

    def mark(self, label: str, alpha: Plane) -> None:
        """Remember the box of what ``alpha`` covers."""
        mask = alpha > 0.5
        rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
        if rows.size:
            box = (float(columns[0]), float(rows[0]), float(columns[-1] + 1), float(rows[-1] + 1))
            self.boxes.append((label, box))

    @cached_property
    def inside(self) -> Plane:
        """Coverage of the bottle without its cap."""
        mouth = self.shape.mouth
        return np.clip(self.w - np.abs(self.u) + 0.5, 0, 1) * _between(self.v, 0, mouth)

    # -- the bottle, from back to front ---------------------------------------------------------------------

    def shadow(self) -> None:
        spread = np.exp(-((self.x / 46) ** 4) - ((self.y + 3) / 9) ** 2)
        self.lay((0.62 * spread).astype(np.float32), (0.0, 0.0, 0.0), (0.0, 0.0, 0.0))
        mirror = np.exp(-((self.x / 40) ** 4)) * np.clip(1 + self.y / 34, 0, 1) * (self.y < 0)
        tint = np.asarray(self.flavour.body, np.float32) * 0.5 + 12
        self.lay((0.35 * mirror).astype(np.float32), (0.8, 0.8, 0.8), tint)

    def contents(self) -> None:
        level = self.shape.fill + self.part.fill_px
        back = np.asarray(self.shape.glass, np.float32)
        rim = _ramp(np.abs(self.s), 0.72, 1.0)
        self.lay(self.inside, back * (1 - 0.45 * rim[..., None]), (4.0, 4.0, 4.0))
        # seen slightly from above: the surface is an ellipse
        surface = level - 2.4 * self.depth
        wet = self.inside * np.clip(surface - self.v + 0.5, 0, 1) * _between(self.v, 4, 400)
        thick = np.clip(self.depth * (0.35 + 0.65 * self.w / 45), 0.15, 1)
        through = np.asarray(self.flavour.through, np.float32) ** thick[..., None]
        shade = 0.55 + 0.45 * self.depth + 0.18 * np.exp(-((self.s - 0.35) ** 2) / 0.05)
        body = np.asarray(self.flavour.body, np.float32) * (shade * (0.75 + 0.25 * thick))[..., None]
        self.lay(wet, through, body)
        ring = self.inside * np.exp(-(((np.abs(self.v - level) - 2.6 * self.depth) / 1.2) ** 2))
        self.lay(
            (0.55 * ring).astype(np.float32),
            (0.55, 0.55, 0.55),
            np.asarray(self.flavour.body, np.float32) + 95,
        )
        dark = self.inside * np.exp(-(((self.v - surface + 3.2) / 1.3) ** 2))
        self.lay((0.45 * dark).astype(np.float32), (0.35, 0.35, 0.35), (0.0, 0.0, 0.0))
        for _ in range(int(self.draw.integers(2, 12))):
            self._bubble(level)

    def _bubble(self, level: float) -> None:
        u, v = self.draw.uniform(-30, 30), level - abs(self.draw.normal(0, 26)) - 3
        size = self.draw.uniform(0.7, 1.6)
        spot = np.exp(-((self.u - u) ** 2 + (self.v - v) ** 2) / size**2) * self.inside
        self.lay((0.5 * spot).astype(np.float32), (0.7, 0.7, 0.7), (110.0, 110.0, 110.0))

    def wall(self) -> None:
        """The front wall: dark rims, the reflections of the lamps, the neck's rings."""
        rim = _ramp(np.abs(self.s), 0.80, 1.0) * self.inside
        self.lay((0.6 * rim).astype(np.float32), (0.25, 0.25, 0.25), (0.0, 0.0, 0.0))
        body = _between(self.v, 6, self.shape.mouth - 30)
        left = np.exp(-(((self.s + 0.58) / 0.085) ** 2)) * body
        right = np.exp(-(((self.s - 0.70) / 0.05) ** 2)) * body
        soft = np.exp(-(((self.s + 0.45) / 0.25) ** 2)) * body
        gleam = (0.62 * left + 0.35 * right + 0.12 * soft) * self.inside
        self.lay(gleam.astype(np.float32) * 0.9, (0.6, 0.6, 0.6), (215.0, 215.0, 215.0))
        foot = np.exp(-(((self.v - 7) / 3.5) ** 2)) * self.inside
        self.lay((0.4 * foot).astype(np.float32), (0.5, 0.5, 0.5), (60.0, 60.0, 60.0))
        cap_low = self.shape.cap[0]
        neck = self.inside * _between(self.v, cap_low - 6, self.shape.mouth)
        thread = np.clip(np.sin((self.v + 1.6 * self.s - cap_low) * 2 * np.pi / 7.5), 0, 1) * neck
        self.lay((0.5 * thread).astype(np.float32), (0.5, 0.5, 0.5), (120.0, 120.0, 120.0))
        lip = self.inside * np.exp(-(((self.v - self.shape.mouth + 2.5 * self.depth) / 1.4) ** 2))
        self.lay((0.6 * lip).astype(np.float32), (0.4, 0.4, 0.4), (150.0, 150.0, 150.0))

    def label(self) -> None:
        low, high = self.shape.label
        offset, slant = self.draw.uniform(-2, 2), self.draw.uniform(-0.012, 0.012)
        up: Plane = self.v - low - offset - slant * self.u
        around: Plane = (_RADIUS * np.arcsin(self.s)).astype(np.float32)
        alpha = self.inside * _between(up, 0, high - low)
        flat = self.product.label(self.part.batch)
        map_x = (around + _LABEL_AROUND * (0.25 + 0.5 * self.part.turn)) % _LABEL_AROUND
        map_y = (high - low - 1) - up
        print_ = cv2.remap(
            flat, map_x.astype(np.float32), map_y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE
        )
        shade = 0.42 + 0.62 * self.depth + 0.10 * np.exp(-(((self.s + 0.5) / 0.2) ** 2))
        if "torn-label" in self.part.defects:
            torn, fibre = self._tear(around, up, high - low)
            self.mark("torn-label", alpha * torn)
            paper = 225 + 12 * self.draw.standard_normal((HEIGHT, WIDTH)).astype(np.float32)
            print_ = print_ * (1 - fibre[..., None]) + (fibre * paper)[..., None]
            glue = cv2.GaussianBlur(self.draw.standard_normal((HEIGHT, WIDTH)).astype(np.float32), (0, 0), 3)
            self.lay(
                (alpha * torn * np.clip(0.12 + 0.3 * glue, 0, 0.3)).astype(np.float32),
                (0.8,) * 3,
                (130.0,) * 3,
            )
            alpha = alpha * (1 - torn)
        self.cover(alpha, print_ * shade[..., None] * self.draw.uniform(0.94, 1.04))

    def _tear(self, around: Plane, up: Plane, height: float) -> tuple[Plane, Plane]:
        """What is gone of the label, and its white torn edge."""
        draw, phase = self.draw, self.draw.uniform(0, 6.28, 4)
        jag = 2.2 * np.sin(up / 3.1 + phase[0]) + 1.6 * np.sin(around / 2.3 + phase[1])
        jag += 1.5 * np.sin((up + around) / 6.0 + phase[2])
        kind = draw.random()
        if kind < 0.5:
            side = 1.0 if draw.random() < 0.5 else -1.0
            x = 54 - side * around
            y = height - up if draw.random() < 0.6 else up
            wide, tall = draw.uniform(38, 72), draw.uniform(30, 66)
            inward = (1 - x / wide - y / tall) * min(wide, tall) * 0.7
        elif kind < 0.75:
            inward = draw.uniform(9, 16) - np.abs(around - draw.uniform(-30, 30) - 0.15 * (up - height / 2))
        else:
            x0, y0 = draw.uniform(-28, 28), draw.uniform(24, height - 24)
            rx, ry = draw.uniform(13, 24), draw.uniform(13, 24)
            inward = (1 - np.hypot((around - x0) / rx, (up - y0) / ry)) * min(rx, ry)
        inward = (inward + jag).astype(np.float32)
        torn: Plane = np.clip(inward + 0.5, 0, 1)
        width = 2.0 + 1.3 * np.sin(up / 4.0 + phase[3])
        fibre: Plane = (np.clip(inward + width + 0.5, 0, 1) * 0.9).astype(np.float32)
        return torn, fibre

    def cap(self) -> None:
        bottom, top, half = self.shape.cap
        part = self.part
        cos, sin = np.cos(part.cap_tilt), np.sin(part.cap_tilt)
        middle = (bottom + top) / 2
        du, dv = self.u - part.cap_shift_px, self.v - middle - part.cap_lift_px
        cu: Plane = (du * cos - dv * sin).astype(np.float32)
        cv: Plane = (du * sin + dv * cos).astype(np.float32)
        tall = (top - bottom) / 2
        taper = half - 0.8 * _ramp(cv, 0, tall)
        alpha = np.clip(taper - np.abs(cu) + 0.5, 0, 1) * _between(cv + 1.2 * (cu / half) ** 2, -tall, tall)
        s = np.clip(cu / half, -1, 1)
        depth = np.sqrt(1 - s * s)
        ridges = 1 + 0.16 * np.sin(np.arcsin(s) * 22) * (np.abs(cv + 1) < tall - 5)
        shade = (0.34 + 0.66 * depth + 0.35 * np.exp(-(((s + 0.5) / 0.14) ** 2))) * ridges
        shade = (
            shade * np.where(np.abs(cv + tall - 5) < 0.9, 0.55, 1.0) * (1 + 0.25 * _ramp(cv, tall - 3, tall))
        )
        color = np.asarray(self.flavour.cap, np.float32) * self.draw.uniform(0.92, 1.06) + 14
        self.cover(alpha.astype(np.float32), np.clip(color * shade[..., None], 0, 255))
        self.mark("skewed-cap" if "skewed-cap" in part.defects else "cap", alpha.astype(np.float32))

    # -- what does not belong there -------------------------------------------------------------------------

    def foreign_object(self) -> None:
        """A lump, a shard or a bolt: in the liquid, on the glass or on the belt beside the bottle."""
        draw, shape = self.draw, self.shape
        place = draw.random()
        radius = draw.uniform(6.0, 11.0)
        if place < 0.35:
            side = 1.0 if draw.random() < 0.5 else -1.0
            x, y, limit = side * draw.uniform(54, 64), draw.uniform(-8, 2) + radius * 0.6, None
        else:
            low, high = shape.label
            above = shape.fill + min(self.part.fill_px, 0) - high > 2 * radius + 12
            v = (
                draw.uniform(high + radius + 2, shape.fill + min(self.part.fill_px, 0) - radius - 4)
                if above
                else 0.0
            )
            if not above or (place < 0.65 and low > 2 * radius + 12):
                v = draw.uniform(radius + 6, max(low - radius - 3, radius + 7))
            room = float(self.product.half_width(np.array([v], np.float32))[0]) - radius - 6
            u = draw.uniform(-1, 1) * max(room, 0)
            x, y, limit = u, v, self.inside
        px, py = (self.x, self.y) if limit is None else (self.u, self.v)
        dx, dy = px - x, py - y
        angle, distance = np.arctan2(dy, dx), np.hypot(dx, dy)
        lobes, corners = draw.uniform(0.05, 0.22, 3), draw.integers(2, 6, 3)
        turns = draw.uniform(0, 6.28, 3)
        outline = radius * (
            1 + sum(a * np.cos(k * angle + t) for a, k, t in zip(lobes, corners, turns, strict=True))
        )
        alpha = np.clip(outline - distance + 0.5, 0, 1).astype(np.float32)
        if limit is not None:
            alpha = alpha * limit
        under = float((self.light[alpha > 0.5].mean(-1) + 120 * self.through[alpha > 0.5].mean(-1)).mean())
        contrast = draw.uniform(55, 110)
        tone = under - contrast if under > 118 else under + contrast
        cast = 1 + draw.uniform(-0.22, 0.22, 3)
        shade = 1 + 0.25 * np.clip((dy - dx) / radius, -1, 1)
        self.cover(
            alpha * 0.96, np.clip(np.maximum(tone, 8) * cast * shade[..., None], 0, 255).astype(np.float32)
        )
        self.mark("foreign-object", alpha)

    def mark_low_fill(self) -> None:
        high, low = self.shape.fill - 4, self.shape.fill + self.part.fill_px
        self.mark("low-fill", self.inside * _between(self.v, low - 3, high))


def _between(value: Plane, low: float, high: float) -> Plane:
    """1 between, 0 outside, half a pixel soft."""
    return np.clip(value - low + 0.5, 0, 1) * np.clip(high - value + 0.5, 0, 1)


def _ramp(value: Plane, low: float, high: float) -> Plane:
    """0 below, 1 above, smooth between."""
    t = np.clip((value - low) / (high - low), 0, 1)
    return t * t * (3 - 2 * t)


def draw_bottle(part: Part, product: Product) -> Sprite:
    """The sprite of a part; a pure function."""
    drawing = _Drawing(part, product)
    defects = part.defects
    drawing.shadow()
    drawing.contents()
    outline = drawing.inside
    drawing.wall()
    drawing.label()
    if "missing-cap" not in defects:
        drawing.cap()
        top = [box for label, box in drawing.boxes if label in ("cap", "skewed-cap")][0]
    if "low-fill" in defects:
        drawing.mark_low_fill()
    if "foreign-object" in defects:
        drawing.foreign_object()
    drawing.mark("bottle", outline)
    if "missing-cap" not in defects:
        label, (x1, y1, x2, y2) = drawing.boxes[-1]
        drawing.boxes[-1] = (label, (min(x1, top[0]), min(y1, top[1]), max(x2, top[2]), y2))
    # the belt moves while the shutter is open
    through = cv2.blur(cv2.GaussianBlur(drawing.through, (3, 3), 0.7), (3, 1))
    light = cv2.blur(cv2.GaussianBlur(drawing.light, (3, 3), 0.7), (3, 1))
    return Sprite(
        through=np.clip(through * 255 + 0.5, 0, 255).astype(np.uint8),
        light=np.clip(light + 0.5, 0, 255).astype(np.uint8),
        boxes=tuple(drawing.boxes),
    )
