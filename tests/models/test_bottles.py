from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from importlib.resources import files
from multiprocessing import get_context
from pathlib import Path
from string import Template

import numpy as np
import pytest
import yaml
from numpy.typing import NDArray

from edge_infer.backends import BACKENDS
from edge_infer.findings import Detections
from edge_infer.geometry import Region
from edge_infer.model.load import load_model
from edge_infer.network import Network
from edge_infer.registry import resolve
from edge_infer.rules.count import CountRule
from edge_infer.rules.decision import Judge, Verdict
from edge_infer.scene import DEFECTS, HEIGHT, WIDTH, Part, Scene

BOTTLES = Path(str(files("edge_infer.bundled").joinpath("bottles")))
UNSEEN_LINES = range(500_000, 500_020)

Seen = tuple[Part, NDArray[np.uint8]]


@pytest.fixture(scope="module")
def parts() -> list[Seen]:
    """Of lines that neither training nor the report has seen, half of them broken, on their own frames."""
    with ProcessPoolExecutor(2, get_context("spawn")) as painters:
        return [seen for line in painters.map(draw, UNSEEN_LINES) for seen in line]


def draw(seed: int) -> list[Seen]:
    """Every third part of a line."""
    scene = Scene(seed, 10, defect_rate=0.5)
    return [(scene.part(number), scene.pixels(scene.arrival(number))) for number in range(0, 45, 3)]


@pytest.fixture(params=sorted(BACKENDS))
def network(request: pytest.FixtureRequest) -> Iterator[Network]:
    network = Network.open(load_model(BOTTLES), resolve(BACKENDS, request.param)(type=request.param))
    yield network
    network.close()


def judge(network: Network, pixels: NDArray[np.uint8]) -> Verdict:
    """As the demo's station does."""
    text = (BOTTLES / "demo.yaml").read_text(encoding="utf-8")
    station = yaml.safe_load(Template(text).substitute(port=1883, model="."))["stations"]["filler"]
    region = Region(station["region"]["unit"], station["region"]["box"]).pixels(WIDTH, HEIGHT)
    rules = [CountRule.model_validate_json(json.dumps(rule)) for rule in station["rules"]]
    findings = network.infer(pixels, region).findings
    return Judge(rules).judge(findings, width=WIDTH, height=HEIGHT, time_s=0.0)


def test_at_least_98_of_100_decisions_on_unseen_parts_are_right(network: Network, parts: list[Seen]) -> None:
    wrong = []
    for part, pixels in parts:
        verdict = judge(network, pixels)
        if verdict.decision != part.truth:
            wrong.append((part.number, part.defects, verdict.rules))
    assert len(wrong) / len(parts) <= 0.02, wrong


def test_every_kind_of_defect_is_found(network: Network, parts: list[Seen]) -> None:
    for kind in DEFECTS:
        broken = [seen for seen in parts if kind in seen[0].defects]
        found = sum(judge(network, pixels).decision == "NOK" for _, pixels in broken)
        assert len(broken) >= 20
        assert found >= 0.95 * len(broken), kind


def test_findings_lie_where_the_truth_is(network: Network) -> None:
    scene = Scene(UNSEEN_LINES[0], 10, defect_rate=0.5)
    hits, things = 0, 0
    for number in range(20):
        index = scene.arrival(number)
        found = network.infer(scene.pixels(index)).findings.detections or Detections.none()
        for thing in scene.objects(index):
            if thing.part.number == number and thing.label in ("bottle", "cap", "low-fill"):
                things += 1
                hits += any(one.label == thing.label and _overlap(one.box, thing.box) > 0.5 for one in found)
    assert hits >= 0.95 * things


def test_the_network_is_small_and_its_card_says_everything(network: Network) -> None:
    card = network.card
    assert card.network.stat().st_size < 1_500_000
    assert {key for key, origin in card.origins.items() if origin == "guess"} == set()
    assert card.warnings == ()
    assert card.license == "Apache-2.0"


def _overlap(a: tuple[float, ...], b: tuple[float, ...]) -> float:
    width = min(a[2], b[2]) - max(a[0], b[0])
    height = min(a[3], b[3]) - max(a[1], b[1])
    both = max(width, 0) * max(height, 0)
    return both / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - both)
