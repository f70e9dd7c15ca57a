"""The same lines as Parquet."""

from __future__ import annotations

import json
import os
import threading
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from edge_infer.batch import parquet

MODEL = {"name": "m", "version": "1", "sha256": "0" * 64}
TAIL = {
    "warnings": ["w"],
    "model": MODEL,
    "backend": "openvino",
    "device": {"requested": "CPU", "running": "CPU"},
}
BOX = [1.5, 2.0, 3.25, 4.0]
ROWS: list[dict[str, Any]] = [
    {"image": "a.png", "width": 6, "height": 4, "detections": [], **TAIL},
    {
        "image": "a.mp4", "frame": 7, "width": 6, "height": 4,
        "detections": [
            {"label": "瓶", "class_id": 3, "score": 0.123456, "box": BOX},
            {
                "label": "b", "class_id": 4, "score": 0.5, "box": BOX, "corners": [[1.0, 2.0]] * 4,
                "angle": 0.52, "keypoints": [[1.0, 2.0, 0.5]],
            },
        ],
        **TAIL,
    },
    {
        "image": "b.png", "width": 6, "height": 4,
        "classes": [{"label": "good", "class_id": 0, "score": 1.0}], **TAIL,
    },
    {
        "image": "c.png", "width": 6, "height": 4,
        "anomaly": {"score": 0.7, "threshold": 0.5, "is_anomalous": True, "hot_box": BOX}, **TAIL,
    },
    {"image": "d.png", "width": 6, "height": 4, "undefined": ["nan"], **TAIL},
    {"image": "e.png", "error": "there is no picture e.png"},
]  # fmt: skip


def written(path: Path, rows: list[dict[str, Any]]) -> bytes:
    lines = path / "lines.jsonl"
    lines.write_bytes(b"".join(json.dumps(row).encode() + b"\n" for row in rows))
    target = BytesIO()
    assert parquet.convert(lines, target, threading.Event())
    return target.getvalue()


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_nulls(one) for key, one in value.items() if one is not None}
    return [without_nulls(one) for one in value] if isinstance(value, list) else value


def test_rows_are_the_lines_and_a_key_that_is_absent_is_null(tmp_path: Path) -> None:
    table = pq.read_table(BytesIO(written(tmp_path, ROWS)))
    assert table.schema.equals(parquet.SCHEMA)
    assert [without_nulls(row) for row in table.to_pylist()] == ROWS
    # a finding of nothing is not the same as no finding
    assert table["detections"].to_pylist()[0] == []
    assert table["detections"].to_pylist()[2] is None


def test_groups_depend_on_the_lines_alone_and_are_bounded_in_rows_and_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "ROWS", 4)
    data = written(tmp_path, ROWS * 3)
    assert data == written(tmp_path, ROWS * 3)
    file = pq.ParquetFile(BytesIO(data))
    groups = [file.metadata.row_group(at).num_rows for at in range(file.metadata.num_row_groups)]
    assert groups == [4, 4, 4, 4, 2]
    monkeypatch.setattr(parquet, "GROUP_BYTES", 1)
    assert pq.ParquetFile(BytesIO(written(tmp_path, ROWS))).metadata.num_row_groups == len(ROWS)


def test_a_name_that_is_not_utf8_is_readable_text_beside_its_bytes(tmp_path: Path) -> None:
    odd = os.fsdecode(b"f\xfcll.png")
    rows = [{"image": odd, "error": f"there is no picture {odd}"}, {"image": "a\\ud.png", "error": "x"}]
    first, second = pq.read_table(BytesIO(written(tmp_path, rows))).to_pylist()
    assert (first["image"], first["error"]) == ("f?ll.png", "there is no picture f?ll.png")
    assert first["image_bytes"] == b"f\xfcll.png"
    assert (second["image"], second["image_bytes"]) == ("a\\ud.png", None)


def test_a_stop_ends_it_between_two_groups(tmp_path: Path) -> None:
    stop = threading.Event()
    stop.set()
    lines = tmp_path / "lines.jsonl"
    lines.write_bytes(json.dumps(ROWS[0]).encode() + b"\n")
    assert not parquet.convert(lines, BytesIO(), stop)
