"""What goes wrong with a part and needs drawing of its own: torn labels, foreign objects."""

from __future__ import annotations

import numpy as np

from edge_infer.scene.canvas import Box, Canvas, Plane, bell
from edge_infer.scene.parts import Part
from edge_infer.scene.product import Product

OBJECT_RADIUS_PX = (6.0, 11.0)
OBJECT_CONTRAST = (55.0, 110.0)
"""Grey levels between a foreign object and what is around it, where the hall behind is of its usual grey."""
_HALL, _BELT = 120.0, 75.0


def tear(around: Plane, up: Plane, height: float, draw: np.random.Generator) -> tuple[Plane, Plane]:
    """What is gone of a label (a corner, a strip or a hole), and its white torn edge; both 0..1.

    ``around`` and ``up`` are places on the flat print in pixels, from its visible middle and lower edge.
    """
    phase = draw.uniform(0, 6.28, 4)
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
    white: Plane = 0.9 * np.clip(inward + 2.5 + 1.3 * np.sin(up / 4 + phase[3], dtype=np.float32), 0, 1)
    return torn, white.astype(np.float32, copy=False)


def foreign_object(canvas: Canvas, part: Part, product: Product, draw: np.random.Generator) -> Box | None:
    """A lump, a shard or a bolt: in the liquid, or on the belt beside the bottle."""
    radius = draw.uniform(*OBJECT_RADIUS_PX)
    if draw.random() < 0.35:
        side = 1.0 if draw.random() < 0.5 else -1.0
        x, y = side * draw.uniform(54, 64), draw.uniform(-8, 2) + radius * 0.6
        c = canvas.window(y - 20, y + 20, 20, x)
        dx, dy, room, behind = c.x - x, c.y - y, None, _BELT
    else:
        v = _free_height(part, product, radius, draw)
        width = float(product.half_width(np.array([v], np.float32))[0])
        u = draw.uniform(-1, 1) * max(width - radius - 6, 0)
        c = canvas.window(v * 0.97 - 24, v * 1.03 + 24, 30, u)
        dx, dy, room, behind = c.u - u, c.v - v, c.inside, _HALL
    angle, distance = np.arctan2(dy, dx), np.hypot(dx, dy)
    lobes, corners, turns = draw.uniform(0.05, 0.22, 3), draw.integers(2, 6, 3), draw.uniform(0, 6.28, 3)
    outline = 1 + sum(a * np.cos(k * angle + t) for a, k, t in zip(lobes, corners, turns, strict=True))
    alpha = np.clip(radius * outline - distance + 0.5, 0, 1).astype(np.float32)
    if room is not None:
        alpha = alpha * room
    spot = alpha > 0.5
    under = float((c.light[spot] + behind * c.through[spot]).mean())
    contrast = draw.uniform(*OBJECT_CONTRAST)
    tone = max(under - contrast, 8) if under > 118 else under + contrast
    shade = 1 + 0.25 * np.clip((dy - dx) / radius, -1, 1)
    # lit from the upper left, so that it shows before a dark machine too
    gleam = 70 * bell(dx, -0.3 * radius, 0.3 * radius) * bell(dy, 0.3 * radius, 0.3 * radius)
    color = np.clip(tone * (1 + draw.uniform(-0.22, 0.22, 3)) * shade[..., None] + gleam[..., None], 0, 255)
    c.cover(0.96 * alpha, color.astype(np.float32))
    return c.box(alpha)


def _free_height(part: Part, product: Product, radius: float, draw: np.random.Generator) -> float:
    """A place in the liquid that the label does not hide: above it or below it."""
    low, high = product.shape.label
    surface = product.shape.fill + min(part.fill_px, 0.0)
    above = (high + radius + 2, surface - radius - 4)
    below = (radius + 6, low - radius - 3)
    places = [place for place in (above, below) if place[1] > place[0]]
    return float(draw.uniform(*places[int(draw.integers(len(places)))]))
