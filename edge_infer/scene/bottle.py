"""One bottle as a sprite: its shadow, liquid, glass, label and cap, from back to front."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from edge_infer.scene.canvas import Box, Canvas, Plane, bell, between, ramp
from edge_infer.scene.flaws import foreign_object, tear
from edge_infer.scene.parts import Part, rng
from edge_infer.scene.product import LABEL_AROUND, LABEL_RADIUS, Product


@dataclass(frozen=True, slots=True, eq=False)
class Sprite:
    """picture = what is behind * through / 255 + light."""

    through: NDArray[np.uint8]
    """(HEIGHT, WIDTH, 3)"""
    light: NDArray[np.uint8]
    """(HEIGHT, WIDTH, 3)"""
    boxes: tuple[tuple[str, Box], ...]
    """Label and x1, y1, x2, y2 in the sprite."""


def draw_bottle(part: Part, product: Product) -> Sprite:
    """The sprite of a part; a pure function."""
    canvas = Canvas(product, part.tilt, part.size)
    draw = rng(part.look, 4)
    boxes: list[tuple[str, Box | None]] = []
    _shadow(canvas, part, product)
    _contents(canvas, part, product, draw)
    _wall(canvas, product)
    boxes.append(("torn-label", _label(canvas, part, product, draw)))
    bottle = canvas.box(canvas.inside)
    if "missing-cap" not in part.defects:
        cap = _cap(canvas, part, product, draw)
        boxes.append(("skewed-cap" if "skewed-cap" in part.defects else "cap", cap))
        bottle = _around(bottle, cap)
    if "low-fill" in part.defects:
        fill = product.shape.fill
        gone = canvas.inside * between(canvas.v, fill + part.fill_px - 3, fill - 4)
        boxes.append(("low-fill", canvas.box(gone)))
    if "foreign-object" in part.defects:
        boxes.append(("foreign-object", foreign_object(canvas, part, product, draw)))
    boxes.append(("bottle", bottle))
    # the lens is not perfect, and the belt moves while the shutter is open
    through = cv2.blur(cv2.GaussianBlur(canvas.through, (3, 3), 0.7), (3, 1))
    light = cv2.blur(cv2.GaussianBlur(canvas.light, (3, 3), 0.7), (3, 1))
    return Sprite(
        through=cv2.convertScaleAbs(through, alpha=255).astype(np.uint8, copy=False),
        light=cv2.convertScaleAbs(light).astype(np.uint8, copy=False),
        boxes=tuple((label, box) for label, box in boxes if box is not None),
    )


def _around(a: Box | None, b: Box | None) -> Box | None:
    if a is None or b is None:
        return a
    return (min(a[0], b[0]), min(a[1], b[1]), max(a[2], b[2]), max(a[3], b[3]))


def _shadow(canvas: Canvas, part: Part, product: Product) -> None:
    """On the belt: where it keeps the light away, and its mirror image."""
    c = canvas.window(-40, 20, 80)
    spread = np.exp(-((c.x / 46) ** 4) - ((c.y + 3) / 9) ** 2)
    c.lay(0.62 * spread, (0.0, 0.0, 0.0), (0.0, 0.0, 0.0))
    mirror = np.exp(-((c.x / 40) ** 4)) * np.clip(1 + c.y / 34, 0, 1) * (c.y < 0)
    tint = np.asarray(product.flavour(part.batch).body, np.float32) * 0.5 + 12
    c.lay(0.35 * mirror, (0.8, 0.8, 0.8), tint)


def _contents(canvas: Canvas, part: Part, product: Product, draw: np.random.Generator) -> None:
    """The back wall, then the liquid with its surface and bubbles."""
    flavour, level = product.flavour(part.batch), product.shape.fill + part.fill_px
    c = canvas.window(0, 315)
    rim = ramp(np.abs(c.s), 0.72, 1.0)
    c.lay(
        c.inside, np.asarray(product.shape.glass, np.float32) * (1 - 0.45 * rim[..., None]), (4.0, 4.0, 4.0)
    )
    c = canvas.window(0, 1.04 * level + 8)
    # seen slightly from above: the surface is an ellipse
    surface = level - 2.4 * c.depth
    wet = c.inside * between(c.v, 4, surface)
    thick = np.clip(c.depth * (0.35 + 0.65 * c.w / 45), 0.15, 1)
    through = np.asarray(flavour.through, np.float32) ** thick[..., None]
    shade = (0.55 + 0.45 * c.depth + 0.18 * bell(c.s, 0.35, 0.22)) * (0.75 + 0.25 * thick)
    c.lay(wet, through, np.asarray(flavour.body, np.float32) * shade[..., None])
    for _ in range(int(draw.integers(2, 12))):
        u, v = draw.uniform(-30, 30), level - abs(draw.normal(0, 26)) - 3
        near = canvas.window(v * 1.03 - 8, v * 1.03 + 8, 8, u)
        spot = bell(near.u, u, size := draw.uniform(0.7, 1.6)) * bell(near.v, v, size) * near.inside
        near.lay(0.5 * spot, (0.7, 0.7, 0.7), (110.0, 110.0, 110.0))
    c = canvas.window(0.96 * level - 8, 1.04 * level + 8)
    ring = c.inside * bell(np.abs(c.v - level), 2.6 * c.depth, 1.2)
    c.lay(0.55 * ring, (0.55, 0.55, 0.55), np.asarray(flavour.body, np.float32) + 95)
    dark = c.inside * bell(c.v, level - 2.4 * c.depth - 3.2, 1.3)
    c.lay(0.45 * dark, (0.35, 0.35, 0.35), (0.0, 0.0, 0.0))


def _wall(canvas: Canvas, product: Product) -> None:
    """The front wall: dark rims, the reflections of the lamps, the thread of the neck."""
    mouth, cap_low = product.shape.mouth, product.shape.cap[0]
    c = canvas.window(0, 315)
    rim = ramp(np.abs(c.s), 0.80, 1.0) * c.inside
    c.lay(0.6 * rim, (0.25, 0.25, 0.25), (0.0, 0.0, 0.0))
    gleam = 0.62 * bell(c.s, -0.58, 0.085) + 0.35 * bell(c.s, 0.70, 0.05) + 0.12 * bell(c.s, -0.45, 0.25)
    gleam *= c.inside * between(c.v, 6, mouth - 30)
    c.lay(0.9 * gleam, (0.6, 0.6, 0.6), (215.0, 215.0, 215.0))
    c = canvas.window(0, 24)
    c.lay(0.4 * bell(c.v, 7, 3.5) * c.inside, (0.5, 0.5, 0.5), (60.0, 60.0, 60.0))
    c = canvas.window(cap_low * 0.96 - 8, mouth * 1.04 + 4, 36)
    neck = c.inside * between(c.v, cap_low - 6, mouth)
    thread = np.clip(np.sin((c.v + 1.6 * c.s - cap_low) * (2 * np.pi / 7.5)), 0, 1) * neck
    c.lay(0.5 * thread, (0.5, 0.5, 0.5), (120.0, 120.0, 120.0))
    lip = c.inside * bell(c.v, mouth - 2.5 * c.depth, 1.4)
    c.lay(0.6 * lip, (0.4, 0.4, 0.4), (150.0, 150.0, 150.0))


def _label(canvas: Canvas, part: Part, product: Product, draw: np.random.Generator) -> Box | None:
    """The label; the box of what is torn off it."""
    low, high = product.shape.label
    height = high - low
    c = canvas.window(low * 0.97 - 6, high * 1.03 + 6)
    up: Plane = c.v - low - np.float32(draw.uniform(-2, 2)) - np.float32(draw.uniform(-0.012, 0.012)) * c.u
    around: Plane = np.float32(LABEL_RADIUS) * np.arcsin(c.s)
    alpha = c.inside * between(up, 0, height)
    across: Plane = (around + np.float32(LABEL_AROUND * (0.25 + 0.5 * part.turn))) % LABEL_AROUND
    flat = product.label(part.batch)
    color: Plane = cv2.remap(
        flat, across, height - 1 - up, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE
    ).astype(np.float32, copy=False)
    shade = (0.42 + 0.62 * c.depth + 0.10 * bell(c.s, -0.5, 0.2)) * np.float32(draw.uniform(0.94, 1.04))
    box = None
    if "torn-label" in part.defects:
        torn, fibre = tear(around, up, height, draw)
        box = c.box(alpha * torn)
        paper = 225 + 12 * draw.standard_normal(torn.shape, dtype=np.float32)
        color = color * (1 - fibre[..., None]) + (fibre * paper)[..., None]
        glue = cv2.GaussianBlur(draw.standard_normal(torn.shape, dtype=np.float32), (0, 0), 3)
        c.lay(alpha * torn * np.clip(0.12 + 0.3 * glue, 0, 0.3), (0.8, 0.8, 0.8), (130.0, 130.0, 130.0))
        alpha = alpha * (1 - torn)
    c.cover(alpha, color * shade[..., None])
    return box


def _cap(canvas: Canvas, part: Part, product: Product, draw: np.random.Generator) -> Box | None:
    bottom, top, half = product.shape.cap
    middle, tall = (bottom + top) / 2, (top - bottom) / 2
    c = canvas.window(bottom * 0.96 - 14, top * 1.04 + 14, 48)
    cos, sin = np.float32(np.cos(part.cap_tilt)), np.float32(np.sin(part.cap_tilt))
    du: Plane = c.u - np.float32(part.cap_shift_px)
    dv: Plane = c.v - np.float32(middle + part.cap_lift_px)
    u: Plane = du * cos - dv * sin
    v: Plane = du * sin + dv * cos
    side = half - 0.8 * ramp(v, 0, tall)
    alpha = between(u, -side, side) * between(v + 1.2 * (u / half) ** 2, -tall, tall)
    s = np.clip(u / half, -1, 1)
    ridges = 1 + 0.16 * np.sin(np.arcsin(s) * 22) * (np.abs(v + 1) < tall - 5)
    shade = (0.34 + 0.66 * np.sqrt(1 - s * s) + 0.35 * bell(s, -0.5, 0.14)) * ridges
    # the tamper ring's gap, and light on the upper edge
    shade = shade * np.where(np.abs(v + tall - 5) < 0.9, 0.55, 1.0) * (1 + 0.25 * ramp(v, tall - 3, tall))
    color = np.asarray(product.flavour(part.batch).cap, np.float32) * draw.uniform(0.92, 1.06) + 14
    c.cover(alpha, np.clip(color * shade[..., None], 0, 255).astype(np.float32))
    return c.box(alpha)
