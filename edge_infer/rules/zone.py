"""Where in the frame a rule looks."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationInfo, field_validator

from edge_infer import geometry
from edge_infer.errors import EdgeInferError
from edge_infer.settings import Settings

Point = tuple[float, float]


class Zone(Settings):
    """``zone: {unit: fraction, polygon: [[0, 0], [1, 0], [1, 1]]}``: an object is in it if its centre is."""

    unit: Literal["fraction", "pixel"] = "fraction"
    """Fractions of the camera's frame, or its pixels."""
    polygon: Annotated[tuple[Point, ...], Field(min_length=3)]
    """Corners in order, x right, y down."""

    @field_validator("polygon")
    @classmethod
    def _in_the_frame(cls, polygon: tuple[Point, ...], info: ValidationInfo) -> tuple[Point, ...]:
        values = [value for point in polygon for value in point]
        if info.data.get("unit") == "fraction" and not all(0 <= value <= 1 for value in values):
            raise ValueError("fractions lie in 0..1; for pixels write unit: pixel")
        if any(value < 0 for value in values):
            raise ValueError("pixels start at 0")
        if _area(polygon) == 0:
            raise ValueError("the polygon has no area: its corners lie on one line or its edges cross")
        return polygon

    def contains(
        self, boxes: NDArray[np.float32], width: int, height: int, seen: geometry.PixelBox | None = None
    ) -> NDArray[np.bool_]:
        """(N,) True where the centre of an (N, 4) xyxy box lies inside.

        EdgeInferError where nothing of the zone lies in a frame of this size, or in what was ``seen`` of it.
        """
        area = geometry.Zone(self.unit, self.polygon).polygon(width, height)
        if seen is not None and not area.overlaps(seen):
            raise EdgeInferError(
                f"the network looks at {list(seen)} of the frame, the zone lies outside",
                hint="correct the station's region or the zone; `edge-infer grab --draw` shows both",
            )
        return area.contains_points(geometry.centers(boxes))


def _area(polygon: tuple[Point, ...]) -> float:
    corners = zip(polygon, polygon[1:] + polygon[:1], strict=True)
    return abs(sum(x1 * y2 - x2 * y1 for (x1, y1), (x2, y2) in corners)) / 2
