"""Makes one finding of what several tiles of a picture saw: twice where they overlap, in parts at a seam."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edge_infer.decoders.boxes import nms
from edge_infer.findings import Box, Detections, Findings
from edge_infer.geometry import PixelBox

_AT_THE_EDGE_PX = 4.0
"""A box that ends so near to where its tile ends is taken as cut there."""
_INSIDE = 0.7
"""A cut box of which so much lies in a whole one is a part of that object."""
_ALIKE = 0.5
"""Two cut boxes are parts of one object where the sides along their seam agree so far (IoU)."""


def merge(
    found: Sequence[Findings], tiles: Sequence[PixelBox], whole: PixelBox, nms_iou: float, most: int
) -> Findings:
    """``found`` in ``tiles``, both in frame pixels, of the part ``whole`` of a frame; boxes only.

    A part of what another tile saw whole goes. Parts of an object that no tile saw whole become one box
    around all of them. Of boxes of one class that still overlap by more than ``nms_iou`` the best stays.
    """
    lists = [one.detections or Detections.none() for one in found]
    pieces = [
        _Piece(
            np.array(one.box), one.score, one.class_id, one.label, _cut(one.box, tiles[index], whole), {index}
        )
        for index, detections in enumerate(lists)
        for one in detections
    ]
    entire = [piece for piece in pieces if not piece.cut.any()]
    # first what another tile saw whole: else the parts of two neighbours could grow together
    parts = [
        piece
        for piece in pieces
        if piece.cut.any() and not any(_covered(piece, other) >= _INSIDE for other in entire)
    ]
    return Findings(
        _detections([*entire, *_joined(parts)], nms_iou, most),
        nan_rows=sum(one.nan_rows for one in found),
        undefined=next((one.undefined for one in found if one.undefined is not None), None),
        warnings=tuple(dict.fromkeys(warning for one in found for warning in one.warnings)),
    )


@dataclass(slots=True, eq=False)
class _Piece:
    """What one tile saw of an object, or several pieces grown together."""

    box: NDArray[np.float64]
    score: float
    class_id: int
    label: str
    cut: NDArray[np.bool_]
    """(4,) for each side: it ends where the tile does and the picture goes on."""
    tiles: set[int]


def _cut(box: Box, tile: PixelBox, whole: PixelBox) -> NDArray[np.bool_]:
    near = np.abs(np.subtract(box, tile)) <= _AT_THE_EDGE_PX
    return np.asarray(near & np.not_equal(tile, whole), np.bool_)


def _covered(piece: _Piece, other: _Piece) -> float:
    """How much of it, 0..1, lies in one of its class."""
    if piece.class_id != other.class_id:
        return 0.0
    low, high = np.maximum(piece.box[:2], other.box[:2]), np.minimum(piece.box[2:], other.box[2:])
    own = float((piece.box[2:] - piece.box[:2]).prod())
    return float(np.clip(high - low, 0, None).prod()) / own if own > 0 else 0.0


def _joined(parts: list[_Piece]) -> list[_Piece]:
    """Pieces of one object grown together, until none fits another."""
    left: list[_Piece] = []
    for part in parts:
        piece = part
        while (other := next((one for one in left if _parts_of_one(piece, one)), None)) is not None:
            left.remove(other)
            piece = _around(piece, other)
        left.append(piece)
    return left


def _parts_of_one(one: _Piece, other: _Piece) -> bool:
    """Whether one ends where its tile did and the other goes on from there, or one lies in the other."""
    if one.class_id != other.class_id or one.tiles & other.tiles:
        return False
    if max(_covered(one, other), _covered(other, one)) >= _INSIDE:
        return True
    for start, end in ((0, 2), (1, 3)):
        faces = (one.cut[end] and other.cut[start]) or (one.cut[start] and other.cut[end])
        meet = min(one.box[end], other.box[end]) >= max(one.box[start], other.box[start])
        across = [1 - start, 3 - start]
        if faces and meet and _interval_iou(one.box[across], other.box[across]) >= _ALIKE:
            return True
    return False


def _interval_iou(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    both = min(one[1], other[1]) - max(one[0], other[0])
    either = max(one[1], other[1]) - min(one[0], other[0])
    return float(both / either) if either > 0 else 0.0


def _around(one: _Piece, other: _Piece) -> _Piece:
    first = np.concatenate([one.box[:2] <= other.box[:2], one.box[2:] >= other.box[2:]])
    best = one if one.score >= other.score else other
    return _Piece(
        np.where(first, one.box, other.box),
        best.score,
        best.class_id,
        best.label,
        # of each side that of the piece which reaches farther
        np.where(first, one.cut, other.cut),
        one.tiles | other.tiles,
    )


def _detections(pieces: list[_Piece], nms_iou: float, most: int) -> Detections:
    if not pieces:
        return Detections.none()
    pieces = sorted(pieces, key=lambda piece: -piece.score)
    boxes = np.stack([piece.box for piece in pieces])
    class_ids = np.array([piece.class_id for piece in pieces], np.intp)
    stay = nms(boxes, class_ids, nms_iou, most)
    return Detections(
        boxes[stay].astype(np.float32),
        np.array([pieces[i].score for i in stay], np.float32),
        class_ids[stay].astype(np.int32),
        tuple(pieces[i].label for i in stay),
    )
