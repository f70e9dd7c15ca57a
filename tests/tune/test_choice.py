"""Which candidate is chosen."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from edge_infer.model.card import InputCard, ModelCard
from edge_infer.tune.candidates import Candidate, Variant, ways
from edge_infer.tune.choice import Judged, Tried, choose
from edge_infer.tune.speed import Speed

CARD = ModelCard(
    name="m", network=Path("m.onnx"), sha256="", task="detect", decoder="yolov8", labels=("a",),
    input=InputCard((64, 64)),
)  # fmt: skip


def tried(precision: str, fps: float, p50_ms: float, rejected: str | None = None) -> Tried:
    variant = Variant("openvino", "CPU", precision, CARD)
    one = Tried(Candidate(variant, "latency", 1, 1), Judged(variant, rejected=rejected))
    one.speed = Speed(fps, p50_ms, p50_ms, 1.0, None, 0.0)
    return one


def test_the_fastest_is_chosen_for_what_is_asked() -> None:
    wide, quick = tried("INT8", 90, 40), tried("INT8", 60, 12)
    assert choose([wide, quick], "throughput") is wide
    assert choose([wide, quick], "latency") is quick


def test_a_rejected_one_is_never_chosen_however_fast() -> None:
    wrong, right = tried("INT8", 1000, 1, rejected="loses 2 %"), tried("FP32", 10, 100)
    assert choose([wrong, right], "throughput") is right
    assert choose([wrong], "latency") is None


def test_of_two_that_noise_parts_the_exact_one_is_chosen() -> None:
    rough, exact = tried("INT8", 102, 10), tried("FP32", 100, 10)
    assert choose([rough, exact], "throughput") is exact
    faster = tried("INT8", 110, 10)
    assert choose([faster, exact], "throughput") is faster


def test_on_a_busy_machine_the_cpu_time_chooses() -> None:
    def busy(fps: float, cpu_ms: float, threads: int, requests: int) -> Tried:
        one = tried("FP32", fps, 1000 / fps)
        one.candidate, one.requests = replace(one.candidate, threads=threads), requests
        one.windows = [Speed(fps, 1000 / fps, 1000 / fps, cpu_ms, None, 1.5)]
        one.speed = one.windows[0]
        return one

    lucky, cheap, one_core = busy(90, 16, 2, 1), busy(30, 13, 2, 4), busy(50, 12, 1, 1)
    # 125, 154 and 83 frames a second with a core a thread
    assert choose([lucky, cheap, one_core], "throughput") is cheap
    # 8, 26 and 12 ms
    assert choose([lucky, cheap, one_core], "latency") is lucky
    for one in (lucky, cheap, one_core):
        one.windows = [replace(one.windows[0], others=0.05)]
    assert choose([lucky, cheap, one_core], "throughput") is lucky


def test_one_that_failed_is_not_chosen() -> None:
    failed, right = tried("FP32", 100, 10), tried("FP32", 10, 100)
    failed.failed = "its driver gave up"
    assert choose([failed, right], "throughput") is right
    failed.failed, failed.speed = None, None
    assert choose([failed], "throughput") is None


def test_ways_differ_in_profile_requests_and_threads() -> None:
    cpu = list(ways(Variant("openvino", "CPU", "FP32", CARD), usable=4))
    assert len({(one.profile, one.requests, one.threads) for one in cpu}) == len(cpu) == 5
    assert {one.profile for one in cpu} == {"latency", "throughput"}
    assert {
        (one.profile, one.threads) for one in ways(Variant("openvino", "NPU", "FP32", CARD), usable=4)
    } == {
        ("latency", None),
        ("throughput", None),
    }
    assert len(list(ways(Variant("onnxruntime", "CPU", "FP32", CARD), usable=1))) == 2


def test_the_yaml_is_what_opens_it_again() -> None:
    (first, *_) = ways(Variant("openvino", "CPU", "BF16", CARD), usable=4)
    told = first.yaml(2)
    way = {"precision": "bf16", "profile": "latency", "requests": 2, "threads": 4}
    assert told == {"type": "openvino", "device": "CPU", **way}
    assert "precision" not in next(ways(Variant("openvino", "CPU", "INT8", CARD), usable=4)).yaml(1)
