"""What `make bench` promises and how it tells it; no figure of this machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from edge_infer.config.site import load_site
from edge_infer.quantize import METHODS
from tests.benchmarks import models, pipeline
from tests.benchmarks.growth import Fresh, Profile, Stages
from tests.benchmarks.machine import machine
from tests.benchmarks.page import page
from tests.support.sites import CARD, write_model


def answer(ratio: float = 0.98, latency: float = 1.05) -> dict[str, Any]:
    return {
        "bare_fps": 100.0, "pipeline_fps": 100 * ratio, "ratio": ratio, "bare_way": "asynchronous",
        "latency_ms": {"p50": 10 * latency, "p95": 12.0, "p99": 13.0}, "bare_latency_ms": 10.0,
        "cpu_ms_per_frame": 21.0, "bare_cpu_ms_per_frame": 20.0, "peak_rss_mb": 200.0,
    }  # fmt: skip


def stations(count: int, *, ratio: float = 0.97, mb: float = 210.0) -> dict[str, Any]:
    each = [{"share": 1 / count, "dropped": 2} for _ in range(count)]
    return answer(ratio) | {"peak_rss_mb": mb, "stations": each, "fairness": 0.99}


def measured(**changed: Any) -> dict[str, Any]:
    stages = Stages(0.5, 10.0, 0.25, 50)
    return {
        "ratios": [(one, answer()) for one in pipeline.SET],
        "sites": {count: stations(count) for count in pipeline.STATIONS},
        "profiles": dict.fromkeys(pipeline.PROFILED, Profile(stages, 0.2, 0.1, 0.1)),
        "anchors": [(2100, stages), (8400, stages)],
        "resolutions": [("1920x1080", stages)],
        "detections": [("0.25", stages)],
        "fresh": {"yolo11n-640": Fresh(6_220_800, 1_228_800, 40_000, 4_000)},
        **changed,
    }


def test_what_is_reached_is_no_shortfall() -> None:
    assert pipeline.shortfalls(measured()) == []


def test_a_ratio_below_its_own_promise_is_told() -> None:
    ratios = [(one, answer(0.965)) for one in pipeline.SET]
    found = pipeline.shortfalls(measured(ratios=ratios))
    # 0.965 is enough at 320 pixels and for ONNX Runtime
    assert found == [
        "YOLO11n 640, FP32 on openvino: 0.965 of the bare runtime, wanted 0.97",
        "YOLO11n 640, INT8 on openvino: 0.965 of the bare runtime, wanted 0.97",
    ]


def test_a_slow_result_is_told() -> None:
    ratios = [(pipeline.SET[0], answer(latency=1.13))]
    (found,) = pipeline.shortfalls(measured(ratios=ratios))
    assert "latency 1.130" in found


def test_a_total_that_falls_with_more_stations_is_told() -> None:
    sites = {1: stations(1, ratio=0.98), 8: stations(8, ratio=0.92)}
    (found,) = pipeline.shortfalls(measured(sites=sites))
    assert "0.980, 0.920" in found


def test_memory_of_a_station_more_is_that_of_the_difference() -> None:
    sites = {1: stations(1, mb=200.0), 8: stations(8, mb=550.0)}
    assert pipeline.station_mb(sites) == pytest.approx(50)
    (found,) = pipeline.shortfalls(measured(sites=sites))
    assert "50 MB" in found


def test_the_page_says_all_of_it_and_what_is_not_reached() -> None:
    text = page(measured(), ["2 cores"], ["ratio too low"], 480.0)
    assert "- ratio too low" in text
    for said in (
        "YOLO11n 640, INT8",
        "8 minutes",
        "2 cores",
        "12.5%",
        "0.50 (0.20)",
        "8,400",
        "6,221",
        "1920x1080",
    ):
        assert said in text, said
    assert text.count("\n|---") == 7
    assert "All that is wanted" in page(measured(), [], [], 480.0)


def test_the_set_quantises_in_a_way_that_there_is() -> None:
    assert models.METHOD in METHODS
    assert {one.model.removesuffix("-int8") for one in pipeline.SET if "int8" in one.model} <= set(
        models.QUANTISED
    )
    assert pipeline.SITE_MODEL.removesuffix("-int8") in models.QUANTISED


def test_the_machine_is_described() -> None:
    text = "\n".join(machine(1.25))
    assert "load average before: 1.2" in text
    assert "openvino 20" in text
    assert "Linux" in text


def test_the_stations_of_the_set_are_a_site_that_can_be_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models, "FOLDER", tmp_path)
    write_model(tmp_path / pipeline.SITE_MODEL, CARD.replace("[bottle, tear]", "[c0, c1]"))
    path = pipeline.site(4)
    written = load_site(path)
    assert len(written.stations) == len(written.cameras) == 4
    assert len(written.used_models) == 1
    assert json.loads(path.read_text())["format"] == 1
