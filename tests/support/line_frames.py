"""Pictures of the bundled line."""

from __future__ import annotations

from pathlib import Path

import cv2

from edge_infer.scene import Scene


def write_line(folder: Path, count: int, *, seed: int = 7) -> Path:
    """``count`` pictures with different bottles on them."""
    folder.mkdir(parents=True, exist_ok=True)
    scene = Scene(seed, defect_rate=0.5)
    for number in range(count):
        cv2.imwrite(str(folder / f"{number}.png"), scene.pixels(40 + number * 17))
    return folder
