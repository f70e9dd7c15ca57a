"""Tells which decoder a detection head needs, by shapes and what the exporter wrote; or says why not."""

from __future__ import annotations

from collections.abc import Sequence

from edge_infer.model.card import Background
from edge_infer.model.head import Head, Unclear, grid_cells, shapes
from edge_infer.model.multi_heads import (
    MULTI,
    NANODET_SIDES,
    NMS_COLUMNS,
    QUERIES,
    Seen,
    possible_heads,
    read_as,
)
from edge_infer.model.told import Told
from edge_infer.tensor import TensorSpec

_ROWS = ("yolov5", "yolov8", "yolo-end2end", "yolox", "yolox-raw")
BUILT = (*_ROWS, *MULTI)
"""Decoders whose heads can be checked here; each is in ``DECODERS`` too."""

_ANCHORS_A_CELL = 3
_END2END_COLUMNS = 6
_Dim = int | None


def tell_head(
    outputs: Sequence[TensorSpec],
    size: tuple[int, int],
    classes: int | None,
    told: Told,
    *,
    background: Background | None = None,
    inputs: tuple[str, ...] = (),
    anchors: tuple[tuple[float, ...], ...] = (),
) -> Head | Unclear:
    """``classes``: how many the labels name, background left out; None where nothing names them.

    ``background``: the card's word, None where it has none. ``inputs``: names of those beside the picture.
    Where the labels fit no possible head, the head that the shapes say comes back: its count is then wrong.
    """
    where = f"the network's outputs ({shapes(outputs)}) and an input of {size[0]}x{size[1]}"
    seen = Seen(outputs, size, inputs, anchors)
    if len(outputs) > 1 and all(len(spec.shape) == 5 for spec in outputs):
        return read_as("yolov5-raw", seen)
    rows = _the_rows(outputs)
    if told.head and told.head.startswith("RTDETR") and rows is not None:
        return read_as("rtdetr", Seen([rows], size))
    if rows is None:
        possible = possible_heads(seen)
    elif (told.end2end or told.nms_inside) and rows.shape[2] == _END2END_COLUMNS:
        return Head("yolo-end2end", None)
    else:
        possible = _possible(rows.shape[1], rows.shape[2], grid_cells(size), told)
    fitting = [head for head in possible if fits(head, classes, background)]
    # of two readings the one whose family has that background
    fitting = [head for head in fitting if head.background == background] or fitting
    if rows is None and not possible:
        return _by_labels(seen, classes, background, where)
    return _only_one(fitting or possible, where)


def _by_labels(seen: Seen, classes: int | None, background: Background | None, where: str) -> Head | Unclear:
    """Shapes that several kinds of network have: only the number of labels tells, or nothing does."""
    if any(isinstance(read_as(decoder, seen), Head) for decoder in QUERIES):
        # boxes and logits, but no name that tells softmax from sigmoid
        return Unclear(f"{where} may be of the DETR family", QUERIES)
    grid = read_as("fastestdet", seen)
    if isinstance(grid, Unclear):
        return _only_one([], where)
    if classes is not None and fits(grid, classes, background):
        return grid
    return Unclear(f"{where} may be a grid of {grid.classes} classes or a map", ("fastestdet",))


def fits(head: Head, classes: int | None, background: Background | None) -> bool:
    """Whether so many classes, background left out, fill the head's columns."""
    if classes is None or head.classes is None:
        return True
    return head.classes == classes + ((background or head.background) != "none")


def _the_rows(outputs: Sequence[TensorSpec]) -> TensorSpec | None:
    """(1, rows, columns), alone or beside the raw grids that it was made of."""
    rows = [spec for spec in outputs if len(spec.shape) == 3]
    return rows[0] if len(rows) == 1 and all(len(spec.shape) in (3, 5) for spec in outputs) else None


def _only_one(heads: list[Head], where: str) -> Head | Unclear:
    if len(heads) == 1:
        return heads[0]
    if not heads:
        return Unclear(f"{where} fit no head that is known")
    names = tuple(head.decoder for head in heads)
    return Unclear(f"{where} fit several decoders: {', '.join(names)}", names)


def _possible(rows: _Dim, columns: _Dim, cells: set[int], told: Told) -> list[Head]:
    """Every reading of one output (1, rows, columns)."""
    anchors = {_ANCHORS_A_CELL * count for count in cells}
    raw_export = told.exporter == "Ultralytics" and not told.end2end and not told.nms_inside
    heads = []
    if rows is not None and rows > 4 and columns != _END2END_COLUMNS and (columns in cells or raw_export):
        heads.append(Head("yolov8", rows - 4))
    if columns is None:
        return heads
    if rows in cells and columns > 4:
        heads.append(Head("yolov8", columns - 4))
    if rows in cells and columns > 5:
        heads += [Head("yolox", columns - 5), Head("yolox-raw", columns - 5)]
    if rows in anchors and columns > 5:
        heads.append(Head("yolov5", columns - 5))
    if rows is not None and rows not in cells | anchors and rows > columns > 4:
        if columns == _END2END_COLUMNS and (told.end2end is None or len(told.labels or ()) != 2):
            heads.append(Head("yolo-end2end", None))
        # RT-DETR writes its box and class scores in as many rows as it has queries
        heads.append(Head("rtdetr", columns - 4))
    if rows in cells and columns > NANODET_SIDES:
        heads.append(Head("nanodet", columns - NANODET_SIDES))
    if columns == NMS_COLUMNS and rows is not None and rows not in cells | anchors:
        heads.append(Head("nms", None))
    return heads


def classes_of(decoder: str, outputs: Sequence[TensorSpec], size: tuple[int, int]) -> int | Unclear | None:
    """How many classes the head has if it is read by ``decoder``; None where the shapes do not tell."""
    if decoder == "yolo-end2end":
        return None if _ends_in(outputs, _END2END_COLUMNS) else _misfit(decoder, "rows of 6", outputs)
    spec = _the_rows(outputs)
    if spec is None:
        return _misfit(decoder, "one output of three dimensions", outputs)
    _, rows, columns = spec.shape
    if decoder == "yolov8":
        # channels first, unless the grid is where the channels would be
        channels = columns if rows in grid_cells(size) and columns not in grid_cells(size) else rows
        return _count(decoder, channels, 4, outputs)
    return _count(decoder, columns, 5, outputs)


def _ends_in(outputs: Sequence[TensorSpec], columns: int) -> bool:
    return len(outputs) == 1 and outputs[0].shape[-1:] in ((columns,), (None,))


def _count(decoder: str, channels: _Dim, before: int, outputs: Sequence[TensorSpec]) -> int | Unclear | None:
    if channels is None:
        return None
    if channels <= before:
        return _misfit(decoder, f"more than {before} channels", outputs)
    return channels - before


def _misfit(decoder: str, wants: str, outputs: Sequence[TensorSpec]) -> Unclear:
    return Unclear(f"the decoder {decoder} wants {wants}, the network's outputs are {shapes(outputs)}")
