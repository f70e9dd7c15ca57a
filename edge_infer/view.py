"""The picture that a network gets of a frame: made straight, cut, turned, mirrored; and the way back.

Everything a person writes (regions, zones) and reads (boxes, masks) stays in pixels of the camera's frame.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from edge_infer.findings import Anomaly, Box, Detections, Findings, Grid
from edge_infer.geometry import PixelBox
from edge_infer.lens import Lens, Points

Rotate = Literal[0, 90, 180, 270]
"""Degrees, clockwise."""
Flip = Literal["none", "horizontal", "vertical"]
"""Mirrored left to right, top to bottom."""

_SAMPLES = 17
"""Points on each side of a box whose sides a lens bends."""


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """For frames of one size."""

    region: PixelBox
    """What of the frame is looked at, camera pixels."""
    rotate: Rotate
    flip: Flip
    """After turning."""
    lens: Lens | None

    @property
    def plain(self) -> bool:
        """Only cut, if at all."""
        return not self.rotate and self.flip == "none" and self.lens is None

    def picture(self, pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """BGR (H, W, 3), never written to -> what the network gets. EdgeInferError where the lens is not this
        camera's."""
        import cv2

        x1, y1, x2, y2 = self._cut
        picture = pixels[y1:y2, x1:x2] if self.lens is None else self.lens.straighten(pixels, self._cut)
        if self.rotate:
            # OpenCV's ROTATE_90_CLOCKWISE, ROTATE_180, ROTATE_90_COUNTERCLOCKWISE are 0, 1, 2
            picture = np.asarray(cv2.rotate(picture, self.rotate // 90 - 1), np.uint8)
        if self.flip != "none":
            picture = np.asarray(cv2.flip(picture, 1 if self.flip == "horizontal" else 0), np.uint8)
        return picture

    def to_frame(self, findings: Findings) -> Findings:
        """From pixels of the picture to those of the camera's frame."""
        return replace(
            findings,
            detections=findings.detections and self._detections(findings.detections),
            anomaly=findings.anomaly and self._anomaly(findings.anomaly),
        )

    def seen(self, part: PixelBox | None) -> PixelBox:
        """The part of the frame that a part of the picture shows."""
        if part is None:
            return self.region
        x1, y1, x2, y2 = self._boxes(np.array([part], np.float64))[0].tolist()
        return round(x1), round(y1), round(x2), round(y2)

    def _detections(self, found: Detections) -> Detections:
        corners = angles = None
        if found.corners is not None:
            corners = self._points(found.corners.reshape(-1, 2)).reshape(-1, 4, 2).astype(np.float32)
            side = corners[:, 1] - corners[:, 0]
            angles = np.arctan2(side[:, 1], side[:, 0]).astype(np.float32)
        keypoints = found.keypoints
        if keypoints is not None:
            keypoints = keypoints.copy()
            places = self._points(keypoints[:, :, :2].reshape(-1, 2))
            keypoints[:, :, :2] = places.reshape(*keypoints.shape[:2], 2)
        return replace(
            found,
            boxes=self._boxes(found.boxes).astype(np.float32),
            corners=corners,
            angles=angles,
            keypoints=keypoints,
            masks=None if found.masks is None else tuple(self._grid(mask) for mask in found.masks),
        )

    def _anomaly(self, anomaly: Anomaly) -> Anomaly:
        return replace(
            anomaly,
            hot_box=anomaly.hot_box and self._box(anomaly.hot_box),
            heat_map=anomaly.heat_map and self._grid(anomaly.heat_map),
        )

    # -- where things are

    @property
    def _cut(self) -> PixelBox:
        """What is cut from the frame, or from the straight picture."""
        if self.lens is None or self.region == (0, 0, self.lens.width, self.lens.height):
            return self.region
        edge = self.lens.to_straight(_outline(np.array(self.region, np.float64)))
        x1, y1 = np.floor(edge.min(axis=0)).astype(int).tolist()
        x2, y2 = np.ceil(edge.max(axis=0)).astype(int).tolist()
        return x1, y1, x2, y2

    @property
    def _turned(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """A and b of cut = A picture + b; A only swaps and mirrors, so its inverse is its transpose."""
        x1, y1, x2, y2 = self._cut
        width, height = x2 - x1, y2 - y1
        turn, shift = {
            0: ([[1, 0], [0, 1]], [0, 0]),
            90: ([[0, 1], [-1, 0]], [0, height]),
            180: ([[-1, 0], [0, -1]], [width, height]),
            270: ([[0, -1], [1, 0]], [width, 0]),
        }[self.rotate]
        across, down = (height, width) if self.rotate in (90, 270) else (width, height)
        mirror, back = {
            "none": ([[1, 0], [0, 1]], [0, 0]),
            "horizontal": ([[-1, 0], [0, 1]], [across, 0]),
            "vertical": ([[1, 0], [0, -1]], [0, down]),
        }[self.flip]
        turned, corner = np.array(turn, np.float64), np.array([x1, y1], np.float64)
        return turned @ np.array(mirror, np.float64), turned @ np.array(back, np.float64) + np.array(
            shift, np.float64
        ) + corner

    def _points(self, points: NDArray[np.floating]) -> Points:
        """(N, 2) x, y of the picture -> of the frame."""
        turn, shift = self._turned
        cut = points.astype(np.float64) @ turn.T + shift
        return np.asarray(cut, np.float64) if self.lens is None else self.lens.to_camera(cut)

    def _to_picture(self, points: Points) -> Points:
        """(N, 2) x, y of the frame -> of the picture."""
        turn, shift = self._turned
        cut = points if self.lens is None else self.lens.to_straight(points)
        return np.asarray((cut - shift) @ turn, np.float64)

    def _boxes(self, boxes: NDArray[np.floating]) -> NDArray[np.float64]:
        """(N, 4) xyxy of the picture -> around the same in the frame."""
        if not len(boxes):
            return np.zeros((0, 4))
        edges = np.concatenate([_outline(box) for box in boxes.astype(np.float64)])
        edges = self._points(edges).reshape(len(boxes), -1, 2)
        x1, y1, x2, y2 = self.region
        around = np.concatenate([edges.min(axis=1), edges.max(axis=1)], axis=1)
        return np.asarray(np.clip(around, [x1, y1, x1, y1], [x2, y2, x2, y2]), np.float64)

    def _box(self, box: Box) -> Box:
        x1, y1, x2, y2 = self._boxes(np.array([box]))[0].tolist()
        return x1, y1, x2, y2

    def _grid(self, grid: Grid) -> Grid:
        """The values where they are in the frame, as close together as before."""
        import cv2

        inside = self._box(grid.inside)
        density = max(grid.scale_x, grid.scale_y)
        x1, y1, x2, y2 = inside
        # fractions of a pixel on both sides: the outermost values are needed too
        width, height = (max(1, int(np.ceil((high - low) * density))) for low, high in ((x1, x2), (y1, y2)))
        scale_x, scale_y = width / max(x2 - x1, 1e-6), height / max(y2 - y1, 1e-6)
        xs, ys = (np.arange(width) + 0.5) / scale_x + x1, (np.arange(height) + 0.5) / scale_y + y1
        columns, rows = np.meshgrid(xs, ys)
        picture = self._to_picture(np.stack([columns.ravel(), rows.ravel()], axis=1))
        wanted = picture * [grid.scale_x, grid.scale_y] + [grid.shift_x - 0.5, grid.shift_y - 0.5]
        across, down = wanted.astype(np.float32).T.reshape(2, height, width)
        values = cv2.remap(grid.values, across, down, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
        return Grid(np.asarray(values, np.float32), scale_x, scale_y, -x1 * scale_x, -y1 * scale_y, inside)


def _outline(box: NDArray[np.float64]) -> Points:
    """(4 * samples, 2) points on the sides of one x1, y1, x2, y2."""
    x1, y1, x2, y2 = box
    along = np.linspace(0, 1, _SAMPLES)
    xs, ys = x1 + (x2 - x1) * along, y1 + (y2 - y1) * along
    sides = [(xs, y1 + 0 * ys), (xs, y2 + 0 * ys), (x1 + 0 * xs, ys), (x2 + 0 * xs, ys)]
    return np.concatenate([np.stack(side, axis=1) for side in sides])
