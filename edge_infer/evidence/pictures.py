"""From a frame and what was found in it to JPEG files in memory, and to what the result says of them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import cv2
import numpy as np
from cv2.typing import MatLike

from edge_infer.drawing import caption, draw, map_of
from edge_infer.evidence.settings import Kind
from edge_infer.findings import Detections, Findings
from edge_infer.frame import Frame
from edge_infer.geometry import PixelBox, Polygon
from edge_infer.result import AnomalyContent, Image, Result, StoredPicture

JPEG = "image/jpeg"
QUALITY = 90
SMALLER_QUALITY = 80
"""Of pictures that the broker would not take as they are."""
SMALLEST = 64
"""Pixels of the longer side; below it a picture shows nothing."""


@dataclass(frozen=True, slots=True)
class Encoded:
    """One JPEG file in memory."""

    kind: Kind
    data: bytes
    width: int
    height: int
    sha256: str

    def stored(self, uri: str) -> StoredPicture:
        """As a result names it."""
        return StoredPicture(
            uri=uri, sha256=self.sha256, width=self.width, height=self.height, content_type=JPEG
        )


@dataclass(frozen=True, slots=True)
class Areas:
    """Where a station looks, in pixels of the frame."""

    zones: tuple[Polygon, ...] = ()
    region: PixelBox | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Scene:
    """What one inspection saw: everything that its pictures are made of."""

    frame: Frame
    findings: Findings | None
    """None where nothing was judged."""
    areas: Callable[[int, int], Areas]
    """For a frame of that width and height; asked only where a picture is drawn."""


def encode_all(result: Result, scene: Scene) -> Iterator[Encoded]:
    """The pictures in the order of their worth; each is made when it is asked for.

    cv2.error where a frame is larger than a JPEG can be (65,535 pixels a side).
    """
    frame, findings = scene.frame, scene.findings
    yield encode("raw", frame.pixels)
    if findings is None:
        return
    areas = scene.areas(frame.width, frame.height)
    drawn = draw(
        frame.pixels,
        findings.detections or Detections.none(),
        areas.zones,
        areas.region,
        classes=findings.classes or (),
        anomaly=findings.anomaly,
    )
    caption(drawn, result.decision, _why(result))
    yield encode("drawn", drawn)
    if findings.anomaly is not None and findings.anomaly.heat_map is not None:
        yield encode("map", map_of(findings.anomaly.heat_map, frame.width, frame.height))


def named(result: Result, pictures: Mapping[Kind, StoredPicture]) -> Result:
    """The result with what is stored of it; without a raw picture there is none."""
    raw = pictures.get("raw")
    if raw is None:
        return result
    content = tuple(
        one.model_copy(update={"map": pictures["map"]})
        if isinstance(one, AnomalyContent) and "map" in pictures
        else one
        for one in result.result_content
    )
    image = Image(**dict(raw), drawn=pictures.get("drawn"))
    return result.model_copy(
        update={"image": image, "has_transferable_data_on_file": True, "result_content": content}
    )


def shrunk(picture: Encoded, limit: int) -> Encoded | None:
    """The same picture in at most ``limit`` bytes; None where that would show nothing."""
    if len(picture.data) <= limit:
        return picture
    pixels = cv2.imdecode(np.frombuffer(picture.data, np.uint8), cv2.IMREAD_UNCHANGED)
    if pixels is None:
        raise AssertionError("what was encoded can be decoded")
    smaller, size = pixels, len(picture.data)
    while size > limit:
        # by area, and some more: small pictures have more bytes a pixel
        scale = min(0.8, 0.9 * (limit / size) ** 0.5)
        width, height = round(smaller.shape[1] * scale), round(smaller.shape[0] * scale)
        if max(width, height) < SMALLEST or min(width, height) < 1:
            return None
        smaller = cv2.resize(pixels, (width, height), interpolation=cv2.INTER_AREA)
        again = encode(picture.kind, smaller, SMALLER_QUALITY)
        size = len(again.data)
    return again


def encode(kind: Kind, pixels: MatLike, quality: int = QUALITY) -> Encoded:
    """BGR or grey pixels as a JPEG file; cv2.error where they are too many."""
    encoded, buffer = cv2.imencode(".jpg", pixels, [cv2.IMWRITE_JPEG_QUALITY, quality])
    if not encoded:
        raise cv2.error(f"a picture of {pixels.shape[1]}x{pixels.shape[0]} cannot be encoded as JPEG")
    data = buffer.tobytes()
    return Encoded(kind, data, pixels.shape[1], pixels.shape[0], hashlib.sha256(data).hexdigest())


def _why(result: Result) -> str:
    """ASCII: names of rules and reason codes are."""
    broken = [f"{rule.name} ({rule.seen})" for rule in result.rules if rule.decision == "NOK"]
    return ", ".join([*broken, *(reason.code for reason in result.reasons)])
