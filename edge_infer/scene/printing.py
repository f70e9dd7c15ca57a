"""The printed labels: flat pictures that are later wrapped around a bottle."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

Picture = NDArray[np.float32]

_BRANDS = ("SOLEA", "BRIO", "NORDIK", "AQUELLA", "FRUTTI", "MONTE", "VIVA", "LUMO")


def printed_label(
    draw: np.random.Generator, height: int, width: int, ink: tuple[float, float, float]
) -> Picture:
    """(height, width, 3) BGR 0..255: paper, bands, brand, small print, barcode. ``ink``: main colour."""
    paper = np.array(draw.choice([[238, 240, 240], [225, 236, 242], [236, 232, 222]]), np.float32)
    dark = bool(draw.random() < 0.35)
    tone = np.array(ink, np.float32)
    ground = tone if dark else paper
    picture = np.empty((height, width, 3), np.uint8)
    picture[:] = np.clip(ground, 0, 255)
    contrast = paper if dark else tone
    color = tuple(int(c) for c in np.clip(contrast, 0, 255))
    band = int(draw.integers(7, 15))
    picture[:band] = contrast * 0.9
    picture[height - band :] = contrast * 0.9
    second = tuple(int(c) for c in np.clip(tone[[1, 2, 0]] * 0.8 + 30, 0, 255))
    brand = str(draw.choice(_BRANDS))
    # printed twice around, so that some of it shows however the bottle is turned
    for left in (0, width // 2):
        center = left + width // 4
        cv2.circle(picture, (center, height // 2 + 12), int(draw.integers(16, 24)), second, -1, cv2.LINE_AA)
        cv2.circle(picture, (center - 5, height // 2 + 7), 6, (250, 250, 250), -1, cv2.LINE_AA)
        cv2.putText(
            picture,
            brand,
            (center - 9 * len(brand), band + 24),
            cv2.FONT_HERSHEY_DUPLEX,
            0.68,
            color,
            1,
            cv2.LINE_AA,
        )
        for row in range(4):
            y = height - band - 6 - 5 * row
            for x in range(left + 6, center - 26, 6):
                if draw.random() < 0.8:
                    cv2.line(picture, (x, y), (x + 3, y), color, 1)
        bars = np.repeat(draw.integers(0, 2, 14).astype(bool), 2)
        code = picture[height - band - 26 : height - band - 4, center + 28 : center + 28 + bars.size]
        code[:] = 240
        code[:, bars[: code.shape[1]]] = 25
    fibre = cv2.GaussianBlur(draw.normal(0, 9, (height, width)).astype(np.float32), (0, 0), 0.8)
    label: Picture = np.clip(picture.astype(np.float32) + fibre[..., None], 0, 255)
    return label
