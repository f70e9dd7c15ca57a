"""Pictures in memory before the clock starts."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from edge_infer.errors import SourceError
from edge_infer.scene import Scene
from edge_infer.settings import Secrets
from edge_infer.sources.files import Files

WIDTH, HEIGHT = 1920, 1080
MOST = 32
"""Frames that are kept of a recording."""
MOST_BYTES = 200_000_000
"""Bytes that they may have, the first one aside."""
READ_S = 30.0
"""How long a file may take for one frame."""


class Frames(NamedTuple):
    """At least one, all of one size."""

    name: str
    """Where they come from."""
    pixels: tuple[NDArray[np.uint8], ...]
    """(height, width, 3) BGR, read-only."""

    @property
    def size(self) -> tuple[int, int]:
        """width, height."""
        height, width = self.pixels[0].shape[:2]
        return width, height


def drawn() -> Frames:
    """The bundled line scene in full HD."""
    pixels = np.asarray(cv2.resize(Scene(1).pixels(0), (WIDTH, HEIGHT)), np.uint8)
    pixels.flags.writeable = False
    return Frames("drawn", (pixels,))


def read(path: Path) -> Frames:
    """The first frames of a video, picture, folder or pattern; SourceError where one cannot be judged."""
    source = Files(type="files", path=path).open("bench", Secrets({}))
    pixels: list[NDArray[np.uint8]] = []
    try:
        while len(pixels) < MOST and sum(one.nbytes for one in pixels) < MOST_BYTES:
            frame = source.read(READ_S)
            if frame is None:
                break
            if frame.damaged is not None:
                raise SourceError(frame.damaged, hint="name other pictures with --source")
            if pixels and frame.pixels.shape != pixels[0].shape:
                # one size, one figure
                break
            pixels.append(frame.pixels)
    finally:
        source.close()
    return Frames(str(path), tuple(pixels))
