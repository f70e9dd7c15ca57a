"""Writes the JSON Schemas of published messages beside itself: ``python docs/schema/generate.py``."""

from __future__ import annotations

import json
from pathlib import Path

from edge_infer.result import json_schema

if __name__ == "__main__":
    schema = json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"
    Path(__file__).with_name("result-1.schema.json").write_text(schema, encoding="utf-8")
