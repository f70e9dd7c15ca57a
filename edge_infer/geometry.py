"""Where things are: from a frame to a network's input and back, regions and zones.

Coordinates are continuous: pixel i covers i..i+1, so a frame reaches from 0 to its width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from edge_infer.errors import EdgeInferError

Unit = Literal["fraction", "pixel"]
PixelBox = tuple[int, int, int, int]
"""x1, y1, x2, y2 in whole pixels, the last two exclusive."""


@dataclass(frozen=True, slots=True)
class Transform:
    """What was done to a frame, so that it can be undone: ``network_x = frame_x * scale_x + shift_x``."""

    scale_x: float
    scale_y: float
    shift_x: float
    """Network pixels."""
    shift_y: float
    frame_width: int
    frame_height: int
    seen: PixelBox | None = None
    """The part of the frame that the network looked at; None: all of it."""

    def boxes_to_frame(self, boxes: NDArray[np.floating]) -> NDArray[np.float32]:
        """(N, 4) xyxy network pixels -> frame pixels, clipped to what the network looked at."""
        x1, y1, x2, y2 = self.seen or (0, 0, self.frame_width, self.frame_height)
        frame = (boxes - (self.shift_x, self.shift_y) * 2) / ((self.scale_x, self.scale_y) * 2)
        # np.clip takes twice as long on a few boxes
        return np.asarray(np.minimum(np.maximum(frame, (x1, y1) * 2), (x2, y2) * 2), np.float32)


@dataclass(frozen=True, slots=True)
class Fit:
    """How a picture lies in a network's input: resized to width x height, its corner at left, top."""

    width: int
    """Pixels of the resized picture."""
    height: int
    left: int
    """Network pixels; negative where the picture is cropped."""
    top: int
    network_width: int
    network_height: int

    @property
    def inside(self) -> tuple[slice, slice]:
        """Rows and columns of the network's input that the picture covers."""
        rows = slice(max(self.top, 0), min(self.top + self.height, self.network_height))
        columns = slice(max(self.left, 0), min(self.left + self.width, self.network_width))
        return rows, columns

    @property
    def kept(self) -> tuple[slice, slice]:
        """Rows and columns of the resized picture that lie in the network's input."""
        rows, columns = self.inside
        return (
            slice(rows.start - self.top, rows.stop - self.top),
            slice(columns.start - self.left, columns.stop - self.left),
        )

    def transform(self, picture: PixelBox, frame_width: int, frame_height: int) -> Transform:
        """The way back for a picture that is this part of a frame."""
        x1, y1, x2, y2 = picture
        # not the wished scale: the one that rounding to whole pixels left, per axis
        scale_x, scale_y = self.width / (x2 - x1), self.height / (y2 - y1)
        seen = (
            max(x1, round(x1 - self.left / scale_x)),
            max(y1, round(y1 - self.top / scale_y)),
            min(x2, round(x1 + (self.network_width - self.left) / scale_x)),
            min(y2, round(y1 + (self.network_height - self.top) / scale_y)),
        )
        return Transform(
            scale_x,
            scale_y,
            self.left - x1 * scale_x,
            self.top - y1 * scale_y,
            frame_width,
            frame_height,
            None if seen == (0, 0, frame_width, frame_height) else seen,
        )


def letterbox(
    width: int, height: int, network_width: int, network_height: int, align: Literal["center", "top_left"]
) -> Fit:
    """The whole picture, its shape kept, the rest padded: centred as Ultralytics, top left as YOLOX."""
    scale = min(network_width / width, network_height / height)
    if align == "top_left":
        # YOLOX cuts fractions of a pixel off; one row more already moves scores by 0.03
        return Fit(
            max(1, int(width * scale)), max(1, int(height * scale)), 0, 0, network_width, network_height
        )
    new_width, new_height = max(1, round(width * scale)), max(1, round(height * scale))
    # 0.1 less: of an odd number of padded pixels the smaller half is left and top
    left = round((network_width - new_width) / 2 - 0.1)
    top = round((network_height - new_height) / 2 - 0.1)
    return Fit(new_width, new_height, left, top, network_width, network_height)


def stretch(network_width: int, network_height: int) -> Fit:
    """The whole picture, its shape given up."""
    return Fit(network_width, network_height, 0, 0, network_width, network_height)


def center_crop(
    width: int, height: int, cover: tuple[int, int], network_width: int, network_height: int
) -> Fit:
    """The shape kept, resized to just cover ``cover`` (height, width), of that the middle; as torchvision."""
    new_height, new_width = cover
    # the longer side is cut to whole pixels
    if new_width * height >= new_height * width:
        new_height = max(new_height, new_width * height // width)
    else:
        new_width = max(new_width, new_height * width // height)
    left = -round((new_width - network_width) / 2)
    top = -round((new_height - network_height) / 2)
    return Fit(new_width, new_height, left, top, network_width, network_height)


def tiles(part: PixelBox, size: tuple[int, int], overlap: float) -> list[PixelBox]:
    """Boxes of ``size`` (height, width) that cover ``part``, row by row, evenly spread, none reaching beyond.

    Neighbours share at least the fraction ``overlap`` of a tile; a part smaller than a tile is one, whole.
    """
    x1, y1, x2, y2 = part
    height, width = min(size[0], y2 - y1), min(size[1], x2 - x1)
    return [
        (left, top, left + width, top + height)
        for top in _starts(y1, y2, height, overlap)
        for left in _starts(x1, x2, width, overlap)
    ]


def _starts(start: int, stop: int, side: int, overlap: float) -> list[int]:
    room = stop - start - side
    step = max(1, int(side * (1 - overlap)))
    count = -(-room // step) + 1
    return [start + round(room * i / max(1, count - 1)) for i in range(count)]


@dataclass(frozen=True, slots=True)
class Region:
    """The part of a frame that a station looks at."""

    unit: Unit
    box: tuple[float, float, float, float]
    """x1, y1, x2, y2 in fractions of the frame or pixels."""

    def pixels(self, width: int, height: int) -> PixelBox:
        """For a frame of this size; EdgeInferError where the region does not lie in it."""
        x1, y1, x2, y2 = self.box
        if self.unit == "fraction":
            x1, y1, x2, y2 = x1 * width, y1 * height, x2 * width, y2 * height
        left, top, right, bottom = round(x1), round(y1), round(x2), round(y2)
        # never cut to what is there: a camera that changed its size would be judged in another place
        if not (0 <= left < right <= width and 0 <= top < bottom <= height):
            raise EdgeInferError(
                f"the region {list(self.box)} ({self.unit}) does not lie in a frame of {width}x{height}",
                hint=f"look at one with `edge-infer grab` and correct the region{_or_fractions(self.unit)}",
            )
        return left, top, right, bottom


@dataclass(frozen=True, slots=True)
class Polygon:
    """An area in frame pixels; its edge belongs to it."""

    points: tuple[tuple[float, float], ...]
    """At least three x, y; the last one is joined to the first. Crossing edges: even-odd."""

    def __post_init__(self) -> None:
        if len(self.points) < 3:
            raise ValueError(f"a polygon needs at least three points, not {len(self.points)}")

    def contains(self, x: float, y: float) -> bool:
        """Whether one point lies in it."""
        return bool(self.contains_points(np.array([[x, y]]))[0])

    def contains_points(self, points: NDArray[np.floating]) -> NDArray[np.bool_]:
        """(N, 2) x, y -> (N,)."""
        x, y = points[:, :1].astype(np.float64), points[:, 1:].astype(np.float64)
        start = np.array(self.points, np.float64)
        end = np.roll(start, -1, axis=0)
        (x1, y1), (x2, y2) = start.T, end.T
        # positive on one side of an edge, negative on the other, 0 on its line
        side = (x2 - x1) * (y - y1) - (y2 - y1) * (x - x1)
        rising, falling = (y1 <= y) & (y < y2), (y2 <= y) & (y < y1)
        crossed = (rising & (side > 0)) | (falling & (side < 0))
        between = (
            (np.minimum(x1, x2) <= x)
            & (x <= np.maximum(x1, x2))
            & (np.minimum(y1, y2) <= y)
            & (y <= np.maximum(y1, y2))
        )
        on_edge = ((side == 0) & between).any(axis=1)
        inside = crossed.sum(axis=1) % 2 == 1
        return np.asarray(inside | on_edge, np.bool_)

    def overlaps(self, box: PixelBox) -> bool:
        """Whether a part of it with an area lies in the box."""
        points = [(float(x), float(y)) for x, y in self.points]
        x1, y1, x2, y2 = box
        # what is left when everything beyond one side of the box after the other is cut off
        for axis, limit, sign in ((0, x1, 1), (1, y1, 1), (0, x2, -1), (1, y2, -1)):
            points = _cut(points, axis, limit, sign)
        corners = zip(points, points[1:] + points[:1], strict=True)
        return abs(sum(ax * by - bx * ay for (ax, ay), (bx, by) in corners)) > 0


def _cut(points: list[tuple[float, float]], axis: int, limit: float, sign: int) -> list[tuple[float, float]]:
    """The part of a polygon on one side of a line (Sutherland and Hodgman)."""
    kept = []
    for before, here in zip(points[-1:] + points[:-1], points, strict=True):
        inside, was_inside = (sign * (point[axis] - limit) >= 0 for point in (here, before))
        if inside != was_inside:
            share = (limit - before[axis]) / (here[axis] - before[axis])
            kept.append(
                (before[0] + share * (here[0] - before[0]), before[1] + share * (here[1] - before[1]))
            )
        if inside:
            kept.append(here)
    return kept


@dataclass(frozen=True, slots=True)
class Zone:
    """The part of a frame that a rule looks at."""

    unit: Unit
    points: tuple[tuple[float, float], ...]
    """At least three x, y in fractions of the frame or pixels."""

    def polygon(self, width: int, height: int) -> Polygon:
        """For a frame of this size; EdgeInferError where nothing of the zone lies in it."""
        by_x, by_y = (width, height) if self.unit == "fraction" else (1, 1)
        points = tuple((x * by_x, y * by_y) for x, y in self.points)
        xs, ys = zip(*points, strict=True)
        # a zone that no box can be in would make every "at most" rule hold
        if min(xs) >= width or max(xs) <= 0 or min(ys) >= height or max(ys) <= 0:
            raise EdgeInferError(
                f"the zone {_listed(self.points)} ({self.unit}) lies outside a frame of {width}x{height}",
                hint="look at one with `edge-infer grab --draw` and correct the zone"
                f"{_or_fractions(self.unit)}",
            )
        return Polygon(points)


def _or_fractions(unit: Unit) -> str:
    return ", or use unit: fraction" if unit == "pixel" else ""


def _listed(points: Sequence[tuple[float, float]]) -> list[list[float]]:
    return [[x, y] for x, y in points]


def centers(boxes: NDArray[np.float32]) -> NDArray[np.float32]:
    """(N, 4) xyxy -> (N, 2) x, y of their middles."""
    return np.asarray((boxes[:, :2] + boxes[:, 2:]) / 2, np.float32)
