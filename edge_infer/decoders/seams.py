"""Makes one finding of what several tiles of a picture saw: twice where they overlap, in parts at a seam."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edge_infer.decoders.boxes import MOST_CANDIDATES, Boxes, area, best_first, nms
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
    Only the best ``MOST_CANDIDATES`` boxes are looked at, and others said.
    """
    pieces, warnings = _best_pieces(found, tiles, whole)
    entire = _Table(len(pieces), len(tiles))
    for piece in pieces:
        if not piece.cut.any():
            entire.add(piece)
    # first what another tile saw whole: else the parts of two neighbours could grow together
    parts = [piece for piece in pieces if piece.cut.any() and not entire.covers(piece)]
    joined = _joined(parts, len(tiles))
    return Findings(
        _detections([*entire.pieces(), *joined], nms_iou, most),
        nan_rows=sum(one.nan_rows for one in found),
        undefined=next((one.undefined for one in found if one.undefined is not None), None),
        warnings=(*dict.fromkeys(warning for one in found for warning in one.warnings), *warnings),
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
    tiles: NDArray[np.bool_]
    """(tiles,) those that saw it."""


def _best_pieces(
    found: Sequence[Findings], tiles: Sequence[PixelBox], whole: PixelBox
) -> tuple[list[_Piece], tuple[str, ...]]:
    """In the order of the tiles."""
    lists = [one.detections or Detections.none() for one in found]
    each = [(index, one) for index, detections in enumerate(lists) for one in detections]
    warnings: tuple[str, ...] = ()
    if len(each) > MOST_CANDIDATES:
        warnings = (f"only the best {MOST_CANDIDATES} of {len(each)} boxes in all tiles were merged",)
        best = best_first(np.array([one.score for _, one in each], np.float32), MOST_CANDIDATES)
        each = [each[row] for row in sorted(best.tolist())]
    seen_by = np.eye(len(tiles), dtype=np.bool_)
    pieces = [
        _Piece(
            np.array(one.box),
            one.score,
            one.class_id,
            one.label,
            _cut(one.box, tiles[index], whole),
            seen_by[index],
        )
        for index, one in each
    ]
    return pieces, warnings


def _cut(box: Box, tile: PixelBox, whole: PixelBox) -> NDArray[np.bool_]:
    near = np.abs(np.subtract(box, tile)) <= _AT_THE_EDGE_PX
    return np.asarray(near & np.not_equal(tile, whole), np.bool_)


class _Table:
    """Pieces in columns, so that one is compared with all others at once."""

    def __init__(self, room: int, tiles: int) -> None:
        self._pieces: list[_Piece] = []
        self._boxes = np.empty((room, 4))
        self._class_ids = np.full(room, -1, np.intp)
        self._cut = np.empty((room, 4), np.bool_)
        self._tiles = np.empty((room, tiles), np.bool_)
        self._gone = np.zeros(room, np.bool_)

    def add(self, piece: _Piece) -> None:
        row = len(self._pieces)
        self._pieces.append(piece)
        self._boxes[row], self._class_ids[row] = piece.box, piece.class_id
        self._cut[row], self._tiles[row] = piece.cut, piece.tiles

    def pieces(self) -> list[_Piece]:
        """Without those that were taken, in the order in which they came."""
        return [piece for piece, gone in zip(self._pieces, self._gone.tolist(), strict=False) if not gone]

    def covers(self, piece: _Piece) -> bool:
        """Whether the piece is a part of one of its class."""
        boxes = self._boxes[self._of_class(piece.class_id)]
        own = area(piece.box[None])
        return bool((_share(_common(piece.box, boxes), own) >= _INSIDE).any())

    def take_part_of_one(self, piece: _Piece) -> _Piece | None:
        """The first that belongs to the same object as the piece, which is then no longer here.

        One ends where its tile did and the other goes on from there, or one lies in the other.
        """
        rows = self._of_class(piece.class_id)
        rows = rows[~(self._tiles[rows] & piece.tiles).any(axis=1)]
        boxes, cut = self._boxes[rows], self._cut[rows]
        smaller = np.minimum(area(boxes), area(piece.box[None]))
        fits = _share(_common(piece.box, boxes), smaller) >= _INSIDE
        low, high = np.maximum(piece.box[:2], boxes[:, :2]), np.minimum(piece.box[2:], boxes[:, 2:])
        both = high - low
        either = np.maximum(piece.box[2:], boxes[:, 2:]) - np.minimum(piece.box[:2], boxes[:, :2])
        alike = _share(both, either) >= _ALIKE
        faces = (piece.cut[2:] & cut[:, :2]) | (piece.cut[:2] & cut[:, 2:])
        # along an axis they face each other and meet, across it they are alike
        fits |= (faces & (both >= 0) & alike[:, ::-1]).any(axis=1)
        if not fits.any():
            return None
        row = int(rows[fits.argmax()])
        self._gone[row] = True
        return self._pieces[row]

    def _of_class(self, class_id: int) -> NDArray[np.intp]:
        count = len(self._pieces)
        return np.flatnonzero((self._class_ids[:count] == class_id) & ~self._gone[:count])


def _common(box: NDArray[np.float64], boxes: Boxes) -> NDArray[np.float64]:
    """(N,) the area that they share."""
    low, high = np.maximum(box[:2], boxes[:, :2]), np.minimum(box[2:], boxes[:, 2:])
    return np.asarray(np.clip(high - low, 0, None).prod(axis=1))


def _share(part: NDArray[np.float64], whole: NDArray[np.float64]) -> NDArray[np.float64]:
    """0 where there is no whole."""
    return np.asarray(np.divide(part, whole, out=np.zeros_like(part), where=whole > 0))


def _joined(parts: list[_Piece], tiles: int) -> list[_Piece]:
    """Pieces of one object grown together, until none fits another."""
    left = _Table(len(parts), tiles)
    for part in parts:
        piece = part
        while (other := left.take_part_of_one(piece)) is not None:
            piece = _around(piece, other)
        left.add(piece)
    return left.pieces()


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
