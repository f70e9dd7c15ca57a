"""What was commissioned at a station, as a file: written whole or not at all, checked whole when read."""

from __future__ import annotations

import base64
from datetime import datetime
from pathlib import Path

import numpy as np
from pydantic import AwareDatetime, Field, ValidationError

from edge_infer.errors import EdgeInferError
from edge_infer.geometry import PixelBox
from edge_infer.imagehealth.measured import Measured
from edge_infer.imagehealth.sight import PLAN, THUMB, Gray
from edge_infer.imagehealth.structure import COLUMNS, ROWS, Structure
from edge_infer.settings import FormatOne, Settings
from edge_infer.wholefile import replacing

FOLDER = "commissioned"
"""In the state directory."""
_LARGEST = 1_000_000
"""Bytes of a file; they have some ten thousand."""


class _Fixed(Settings):
    """A Structure in JSON."""

    width: int = Field(ge=1, le=PLAN)
    height: int = Field(ge=1, le=PLAN)
    edges: str = Field(max_length=40_000)
    tiles: tuple[int, ...] = Field(min_length=ROWS * COLUMNS, max_length=ROWS * COLUMNS)
    window: PixelBox
    sharpest: float = Field(gt=0, le=1)
    thumb: str = Field(max_length=4_000)
    least_in_place: float = Field(ge=0, le=1)


class Reference(Settings):
    """One station's."""

    format: FormatOne
    camera: str
    at: AwareDatetime
    frames: int
    """How many were looked at."""
    width: int
    """Pixels of the camera's frame."""
    height: int
    region: PixelBox
    """Pixels of the camera's frame."""
    measured: dict[str, Measured]
    """By check."""
    fixed: _Fixed | None
    """None where nothing in the picture stays where it is."""

    @classmethod
    def of(
        cls,
        *,
        camera: str,
        at: datetime,
        frames: int,
        size: tuple[int, int],
        region: PixelBox,
        measured: dict[str, Measured],
        structure: Structure | None,
        least_in_place: float,
    ) -> Reference:
        """``size``: width and height of the frame."""
        return cls(
            format=1, camera=camera, at=at, frames=frames, width=size[0], height=size[1], region=region,
            measured=measured, fixed=None if structure is None else _written(structure, least_in_place),
        )  # fmt: skip

    def limit(self, check: str) -> float | None:
        """None where it cannot be told."""
        measured = self.measured.get(check)
        return measured.limit if measured is not None else None

    @property
    def structure(self) -> Structure | None:
        """None where nothing in the picture stays where it is."""
        fixed = self.fixed
        if fixed is None:
            return None
        return Structure(
            edges=_bits(fixed.edges, fixed.height, fixed.width),
            tiles=fixed.tiles,
            window=fixed.window,
            sharpest=fixed.sharpest,
            thumb=_bytes(fixed.thumb, THUMB, THUMB),
        )

    def misfit(self, camera: str, size: tuple[int, int], region: PixelBox) -> str | None:
        """Why it is not a reference for such frames."""
        if camera != self.camera:
            return f"it was made with the camera {self.camera}, the station has {camera}"
        if size != (self.width, self.height):
            now = f"{size[0]}x{size[1]}"
            return f"it was made with frames of {self.width}x{self.height}, the camera gives {now}"
        if region != self.region:
            return f"it was made for the region {list(self.region)}, the station's is {list(region)}"
        return None


def path_of(state_dir: Path, station: str) -> Path:
    """Where a station's reference is."""
    return state_dir / FOLDER / f"{station}.json"


def load(path: Path) -> Reference | None:
    """None where there is none; EdgeInferError where it cannot be used."""
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST + 1)
        reference = Reference.model_validate_json(data)
        x1, y1, x2, y2 = reference.region
        if not (0 <= x1 < x2 <= reference.width and 0 <= y1 < y2 <= reference.height):
            raise _unusable(path, "its region does not lie in its frame")
        if reference.fixed is not None:
            left, top, right, bottom = reference.fixed.window
            if not (0 <= left < right <= x2 - x1 and 0 <= top < bottom <= y2 - y1):
                raise _unusable(path, "its window does not lie in its region")
        _ = reference.structure
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unusable(path, error.strerror or str(error)) from error
    except (ValidationError, ValueError) as error:
        raise _unusable(path, "it is damaged") from error
    return reference


def store(path: Path, reference: Reference) -> None:
    """On disk when it returns; EdgeInferError where it cannot be, then the old one is still there."""
    part = path.with_name(f".{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path, part) as file:
            file.write(reference.model_dump_json(indent=1).encode() + b"\n")
    except OSError as error:
        raise EdgeInferError(
            f"the reference cannot be stored in {path}: {error.strerror}",
            hint="run it as the service's user; is the disk full or read-only?",
        ) from error


def _unusable(path: Path, why: str) -> EdgeInferError:
    return EdgeInferError(f"the reference {path} cannot be used: {why}", hint="commission the station again")


def _written(structure: Structure, least_in_place: float) -> _Fixed:
    height, width = structure.edges.shape
    return _Fixed(
        width=width, height=height, edges=_text(np.packbits(structure.edges)), tiles=structure.tiles,
        window=structure.window, sharpest=structure.sharpest, thumb=_text(structure.thumb),
        least_in_place=least_in_place,
    )  # fmt: skip


def _text(values: Gray) -> str:
    return base64.b64encode(values.tobytes()).decode()


def _bytes(text: str, *shape: int) -> Gray:
    return np.frombuffer(base64.b64decode(text, validate=True), np.uint8).reshape(shape)


def _bits(text: str, height: int, width: int) -> Gray:
    packed = np.frombuffer(base64.b64decode(text, validate=True), np.uint8)
    if packed.size != -(-height * width // 8):
        raise ValueError("not as many pixels as it says")
    return np.unpackbits(packed, count=height * width).reshape(height, width)
