"""How the cost of a frame grows with what is in it, stage by stage, and what it copies."""

from __future__ import annotations

import statistics
import time
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, NamedTuple, cast

import cv2
import numpy as np
from numpy.typing import NDArray

from edge_infer.backends import BackendSettings
from edge_infer.commands.infer import choose_backend
from edge_infer.frame import Frame
from edge_infer.model.card import ModelCard
from edge_infer.model.load import load_model
from edge_infer.network import Inference, Network
from tests.benchmarks.models import FOLDER, SIZES
from tests.support.stations import Line

FRAMES = 15
Pixels = NDArray[np.uint8]


class Stages(NamedTuple):
    """Medians of one frame, and what it found."""

    preprocess_ms: float
    infer_ms: float
    postprocess_ms: float
    found: int


class Profile(NamedTuple):
    """Where one frame's time goes, in milliseconds."""

    stages: Stages
    warm_preprocess_ms: float
    """The same again and again, without the network in between: all of it lies in the processor's cache."""
    warm_postprocess_ms: float
    station_ms: float
    """What a station with rules spends outside the network, from the camera's hand to the result's: the
    engine's threads, image health, rules, the result itself."""


class Fresh(NamedTuple):
    """Memory that Python and numpy take anew for one frame."""

    frame_bytes: int
    written_bytes: int
    """The network's input, which is kept between frames."""
    peak_bytes: int
    """At most at once, results included."""
    kept_bytes: int
    """The findings."""


def _network(card: ModelCard) -> Network:
    settings: BackendSettings = choose_backend(card.network, "openvino", "CPU")
    return Network.open(card, settings)


def stages(card: ModelCard, pixels: Pixels, frames: int = FRAMES) -> Stages:
    """With one request, for latency."""
    network = _network(card)
    try:
        network.infer(pixels)
        seen = [network.infer(pixels) for _ in range(frames)]
    finally:
        network.close()
    return Stages(
        statistics.median(one.preprocess_ms for one in seen),
        statistics.median(one.infer_ms for one in seen),
        statistics.median(one.postprocess_ms for one in seen),
        _found(seen[-1]),
    )


def profile(name: str, pixels: Pixels) -> Profile:
    """With one request, for latency."""
    card = load_model(FOLDER / name)
    return Profile(stages(card, pixels), *_warm(card, pixels), _station_ms(card, pixels))


def _warm(card: ModelCard, pixels: Pixels) -> tuple[float, float]:
    network = _network(card)
    try:
        with network._backend.request() as request:
            transform = network._preprocess(pixels, None, request.picture)
            outputs = request.infer(network._others)
            return (
                _median_ms(lambda: network._preprocess(pixels, None, request.picture)),
                _median_ms(lambda: network._decoder.decode(outputs, transform)),
            )
    finally:
        network.close()


def _median_ms(step: Callable[[], object]) -> float:
    taken_ms = []
    for _ in range(20 * FRAMES):
        began_s = time.perf_counter()
        step()
        taken_ms.append((time.perf_counter() - began_s) * 1000)
    return statistics.median(taken_ms)


def _station_ms(card: ModelCard, pixels: Pixels) -> float:
    network = _network(card)
    line = Line(cast(Any, network))
    outside = []
    for seq in range(1, FRAMES + 1):
        now_s, began_s = time.monotonic(), time.perf_counter()
        line.station.offer(Frame("cam", seq, pixels, now_s, datetime.now(UTC), still=True))
        result = line.box.wait(seq)[-1]
        took_ms = (time.perf_counter() - began_s) * 1000
        if result.processing_times is None:
            raise SystemExit(f"a frame was not judged: {result.reasons}")
        outside.append(took_ms - result.processing_times.processing_duration)
    line.engine.stop(10)
    return statistics.median(outside)


def anchors(pixels: Pixels) -> Iterator[tuple[int, Stages]]:
    """Rows of the network's answer, of which always some 150 pass the threshold."""
    for size in SIZES["yolo11n"]:
        rows = sum((size // stride) ** 2 for stride in (8, 16, 32))
        yield rows, stages(load_model(FOLDER / f"yolo11n-{size}"), pixels)


def resolutions(pixels: Pixels) -> Iterator[tuple[str, Stages]]:
    """The same picture in other sizes."""
    card = load_model(FOLDER / "yolo11n-320")
    for width, height in ((640, 360), (1280, 720), (1920, 1080), (2592, 1944), (3840, 2160)):
        resized = np.asarray(cv2.resize(pixels, (width, height)), np.uint8)
        yield f"{width}x{height}", stages(card, resized)


def detections(pixels: Pixels) -> Iterator[tuple[str, Stages]]:
    """The threshold decides how many rows become candidates: nearly none to all 2,100."""
    card = load_model(FOLDER / "yolo11n-320")
    for threshold in (0.9, 0.5, 0.25, 0.1, 0.05, 0.001):
        yield f"{threshold:g}", stages(replace(card, score_threshold=threshold), pixels)


def fresh(name: str, pixels: Pixels) -> Fresh:
    """Of one frame that is not the first."""
    card = load_model(FOLDER / name)
    network = _network(card)
    try:
        network.infer(pixels)
        tracemalloc.start()
        try:
            before, _ = tracemalloc.get_traced_memory()
            inference = network.infer(pixels)
            kept, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    finally:
        network.close()
    height, width = card.input.network_size
    # kept alive until here, as a station would
    assert inference is not None
    return Fresh(pixels.nbytes, height * width * 3, peak - before, kept - before)


def _found(inference: Inference) -> int:
    return len(inference.findings.detections or ())
