"""Reads what Ultralytics writes: ONNX metadata_props, or metadata.yaml beside an IR (the same keys).

The older YOLOv5 exporter writes only ``names`` and ``stride``.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path
from typing import cast

from edge_infer.errors import ModelError
from edge_infer.model.card import Task
from edge_infer.model.told import Told

_SIGNS = ("names", "stride")
_LONGEST = 1_000_000


def read_ultralytics(path: Path, entries: Mapping[str, object]) -> Told | None:
    """None where the entries are somebody else's; ModelError where they are damaged."""
    if not all(sign in entries for sign in _SIGNS):
        return None
    args = _literal(entries.get("args"))
    return Told(
        exporter="Ultralytics" if "task" in entries else "YOLOv5",
        task=cast("Task", str(entries["task"])) if "task" in entries else None,
        labels=_labels(path, entries["names"]),
        size=_size(path, entries["imgsz"]) if "imgsz" in entries else None,
        end2end=_bool(entries.get("end2end")),
        nms_inside=_bool(args.get("nms")) if isinstance(args, dict) else None,
        head=str(entries["head"]) if entries.get("head") else None,
        keypoints=_keypoints(path, entries["kpt_shape"]) if "kpt_shape" in entries else None,
    )


def _literal(value: object) -> object:
    """ONNX holds Python literals as text; metadata.yaml holds the values themselves."""
    if not isinstance(value, str) or len(value) > _LONGEST:
        return value
    try:
        return ast.literal_eval(value)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return value


def _bool(value: object) -> bool | None:
    # True, "True" and YAML's "true"
    return {"true": True, "false": False}.get(str(value).lower())


def _labels(path: Path, value: object) -> tuple[str, ...]:
    names = _literal(value)
    if isinstance(names, list | tuple):
        names = dict(enumerate(names))
    try:
        by_id = {int(key): str(name) for key, name in names.items()}  # type: ignore[attr-defined]  # caught below
        "".join(by_id.values()).encode()  # half a surrogate is text that cannot be published
    except (AttributeError, TypeError, ValueError) as error:
        raise ModelError(
            f"{path}: the labels in its metadata cannot be read: {str(value)[:80]!r}",
            hint="say `labels:` in a model.yaml",
        ) from error
    if sorted(by_id) != list(range(len(by_id))):
        raise ModelError(
            f"{path}: the labels in its metadata do not count from 0 without holes: {sorted(by_id)[:10]}",
            hint="say `labels:` in a model.yaml",
        )
    return tuple(by_id[i] for i in range(len(by_id)))


def _size(path: Path, value: object) -> tuple[int, int]:
    size = _literal(value)
    sides = list(size) if isinstance(size, list | tuple) else [size]
    try:
        numbers = [int(str(side)) for side in sides]
    except ValueError:
        numbers = []
    if len(numbers) not in (1, 2) or min(numbers, default=0) < 1:
        raise ModelError(
            f"{path}: imgsz in its metadata is not a size: {str(value)[:80]!r}",
            hint="say `input: {size: [height, width]}` in a model.yaml",
        )
    return numbers[0], numbers[-1]


def _keypoints(path: Path, value: object) -> tuple[int, int]:
    shape = _literal(value)
    parts = list(shape) if isinstance(shape, list | tuple) else [shape]
    try:
        points, numbers = (int(str(part)) for part in parts)
    except ValueError:
        points = numbers = 0
    if points < 1 or numbers not in (2, 3):
        raise ModelError(
            f"{path}: kpt_shape in its metadata is not [points, 2 or 3]: {str(value)[:80]!r}",
            hint="export the network again",
        )
    return points, numbers
