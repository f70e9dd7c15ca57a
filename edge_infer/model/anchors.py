"""Raw grids of YOLOv3, v5 and v7: a cell's anchors are in the training configuration, never in the file."""

from __future__ import annotations

from collections.abc import Sequence

from edge_infer.tensor import TensorSpec

Anchors = tuple[tuple[float, ...], ...]


def is_grids(outputs: Sequence[TensorSpec]) -> bool:
    """(1, anchors, height, width, 5 + classes) or (1, anchors x (5 + classes), height, width) a stride."""
    dimensions = {len(spec.shape) for spec in outputs}
    columns = {spec.shape[_columns_at(spec)] for spec in outputs if len(spec.shape) in (4, 5)}
    return len(outputs) > 1 and dimensions in ({4}, {5}) and len(columns) == 1


def grid_columns(outputs: Sequence[TensorSpec], anchors: Anchors) -> int:
    """5 + classes; 0 where the network does not tell."""
    side = outputs[0].shape[_columns_at(outputs[0])] or 0
    return side if len(outputs[0].shape) == 5 else side // (len(anchors[0]) // 2)


def anchor_mistake(outputs: Sequence[TensorSpec], size: tuple[int, int], anchors: Anchors) -> str | None:
    """What is wrong with the card's anchors for these grids, as half a sentence."""
    if not anchors:
        return "only the training configuration knows their anchors"
    pairs = {len(stride) // 2 for stride in anchors}
    there = {spec.shape[1] for spec in outputs if len(spec.shape) == 5}
    if len(anchors) != len(outputs) or len(pairs) != 1 or not pairs >= there - {None}:
        given = " + ".join(str(len(stride) // 2) for stride in anchors)
        wanted = " or ".join(str(count) for count in there) or "as many"
        return f"{len(outputs)} grids with {wanted} anchors each, the card has {given}"
    (count,) = pairs
    if len(outputs[0].shape) == 4 and (outputs[0].shape[1] or 0) % count:
        return f"{outputs[0].shape[1]} channels cannot be divided by {count} anchors"
    areas = [sum(w * h for w, h in zip(one[::2], one[1::2], strict=True)) for one in anchors]
    if areas != sorted(areas):
        return "the card lists larger anchors before smaller ones"
    return _stride_mistake(outputs, size)


def stride_of(height: int, width: int, size: tuple[int, int]) -> int | None:
    """Of a grid of this height, width; None where it does not divide the input evenly."""
    if not height or not width or size[0] % height or size[1] % width:
        return None
    return size[0] // height if size[0] // height == size[1] // width else None


def _stride_mistake(outputs: Sequence[TensorSpec], size: tuple[int, int]) -> str | None:
    sides = [spec.shape[2:4] for spec in outputs]
    known = [(height, width) for height, width in sides if height is not None and width is not None]
    strides = [stride_of(height, width, size) for height, width in known]
    if None in strides or len(set(strides)) != len(strides):
        return f"their cells do not divide an input of {size[0]}x{size[1]}"
    return None


def _columns_at(spec: TensorSpec) -> int:
    return 4 if len(spec.shape) == 5 else 1
