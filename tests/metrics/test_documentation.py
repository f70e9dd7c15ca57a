from __future__ import annotations

import re
from pathlib import Path

from edge_infer.metrics import catalogue as named

DOCS = Path(__file__).parents[2] / "docs"


def test_every_metric_is_documented_as_it_is_and_no_other() -> None:
    written = re.findall(r"^\| `edge_infer_.*$", (DOCS / "metrics.md").read_text(encoding="utf-8"), re.M)
    rows = [
        f"| `{one.name}` | {one.kind} | {', '.join(f'`{label}`' for label in one.labels)} | {one.meaning} |"
        for one in (*named.ALL, *named.PROCESS)
    ]
    assert written == rows


def test_whoever_reads_the_readme_finds_the_metrics() -> None:
    assert "docs/metrics.md" in (DOCS.parent / "README.md").read_text(encoding="utf-8")
    assert "deploy/grafana/edge-infer.json" in (DOCS / "metrics.md").read_text(encoding="utf-8")
