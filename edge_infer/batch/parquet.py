"""The lines as a Parquet file, a group of rows after the other. Needs pyarrow; loaded only for it."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

ROWS = 10_000
"""At most so many rows a group,"""
GROUP_BYTES = 8_000_000
"""and about so many bytes of lines: a group is in memory at once."""

_NUMBERS = pa.list_(pa.float64())
_CLASS = [("label", pa.string()), ("class_id", pa.int32()), ("score", pa.float64())]
SCHEMA = pa.schema(
    [
        ("image", pa.string()),
        ("image_bytes", pa.binary()),
        ("frame", pa.int64()),
        ("width", pa.int32()),
        ("height", pa.int32()),
        (
            "detections",
            pa.list_(
                pa.struct(
                    [
                        *_CLASS,
                        ("box", _NUMBERS),
                        ("corners", pa.list_(_NUMBERS)),
                        ("angle", pa.float64()),
                        ("keypoints", pa.list_(_NUMBERS)),
                    ]
                )
            ),
        ),
        ("classes", pa.list_(pa.struct(_CLASS))),
        (
            "anomaly",
            pa.struct(
                [
                    ("score", pa.float64()),
                    ("threshold", pa.float64()),
                    ("is_anomalous", pa.bool_()),
                    ("hot_box", _NUMBERS),
                ]
            ),
        ),
        ("undefined", pa.list_(pa.string())),
        ("warnings", pa.list_(pa.string())),
        ("model", pa.struct([("name", pa.string()), ("version", pa.string()), ("sha256", pa.string())])),
        ("backend", pa.string()),
        ("device", pa.struct([("requested", pa.string()), ("running", pa.string())])),
        ("error", pa.string()),
    ]
)
"""The keys of a line, null where a line has no such key. ``image_bytes``: the path where it is not UTF-8, of
which ``image`` then holds what can be read."""


def convert(lines: Path, target: BinaryIO, stop: threading.Event) -> bool:
    """The same lines give the same bytes. OSError: the disk. False where ``stop`` ended it, half done."""
    with pq.ParquetWriter(target, SCHEMA, compression="zstd") as writer, lines.open("rb") as file:
        for rows in _groups(file):
            if stop.is_set():
                return False
            writer.write_table(pa.Table.from_pylist(rows, SCHEMA), row_group_size=ROWS)
    return True


def _groups(file: BinaryIO) -> Iterator[list[dict[str, Any]]]:
    rows: list[dict[str, Any]] = []
    size = 0
    for line in file:
        rows.append(_row(line))
        size += len(line)
        if len(rows) >= ROWS or size >= GROUP_BYTES:
            yield rows
            rows, size = [], 0
    if rows:
        yield rows


def _row(line: bytes) -> dict[str, Any]:
    row: dict[str, Any] = json.loads(line)
    if b"\\ud" not in line:
        return row
    # perhaps a file name that is not UTF-8; a column of text cannot hold it
    readable: dict[str, Any] = _readable(row)
    if readable["image"] != row["image"]:
        readable["image_bytes"] = os.fsencode(row["image"])
    return readable


def _readable(value: Any) -> Any:
    """The same with a question mark for each byte that is not UTF-8."""
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    if isinstance(value, list):
        return [_readable(one) for one in value]
    if isinstance(value, dict):
        return {key: _readable(one) for key, one in value.items()}
    return value
