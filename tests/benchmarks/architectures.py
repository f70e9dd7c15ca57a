"""Networks of public architecture: YOLO11n, MobileNetV2 and ResNet-18, with drawn weights."""

from __future__ import annotations

import json

import numpy as np
import onnx

from tests.benchmarks.graphs import Floats, Graph, Statistics, gather, relu, relu6, run, silu

CLASSES = 80
BINS = 16
"""Of the distribution that tells each side of a box."""
STRIDES = (8, 16, 32)
CANDIDATES = 150
"""Rows of a frame that pass the score threshold: what a busy picture gives a trained network."""
_THRESHOLD = 0.25
_METADATA = {
    "task": "detect",
    "stride": "32",
    "batch": "1",
    "names": repr({i: f"c{i}" for i in range(CLASSES)}),
}


def yolo11n(size: int, pictures: Floats) -> onnx.ModelProto:
    """Answers (1, 84, anchors); of ``pictures`` (N, 3, size, size) some ``CANDIDATES`` rows a frame pass."""
    statistics = gather(_yolo11n(size, None, 0.0), pictures)
    scores = run(_yolo11n(size, statistics, 0.0), pictures[:1])["output0"][0, 4:]
    last = float(np.sort(scores.max(axis=0))[-CANDIDATES])
    return _yolo11n(size, statistics, _logit(_THRESHOLD) - _logit(last))


def _logit(score: float) -> float:
    return float(np.log(score / (1 - score)))


def mobilenet_v2(size: int, pictures: Floats) -> onnx.ModelProto:
    """Answers (1, 1000) probabilities."""
    return _mobilenet_v2(size, gather(_mobilenet_v2(size, None), pictures))


def resnet18(size: int, pictures: Floats) -> onnx.ModelProto:
    """Answers (1, 1000) probabilities."""
    return _resnet18(size, gather(_resnet18(size, None), pictures))


ARCHITECTURES = {"yolo11n": yolo11n, "mobilenet-v2": mobilenet_v2, "resnet18": resnet18}


# -- YOLO11n


def _yolo11n(size: int, statistics: Statistics | None, bias: float) -> onnx.ModelProto:
    g = Graph(size, statistics)
    x = _conv(g, _conv(g, "picture", 16, 3, 2), 32, 3, 2)
    x = _conv(g, _c3k2(g, x, 64, half=0.25), 64, 3, 2)
    eighth = _c3k2(g, x, 128, half=0.25)
    sixteenth = _c3k2(g, _conv(g, eighth, 128, 3, 2), 128, nested=True)
    x = _c3k2(g, _conv(g, sixteenth, 256, 3, 2), 256, nested=True)
    deep = _attended(g, _spp(g, x))
    middle = _c3k2(g, g.concat(_doubled(g, deep), sixteenth), 128)
    fine = _c3k2(g, g.concat(_doubled(g, middle), eighth), 64)
    middle = _c3k2(g, g.concat(_conv(g, fine, 64, 3, 2), middle), 128)
    coarse = _c3k2(g, g.concat(_conv(g, middle, 128, 3, 2), deep), 256, nested=True)
    output, anchors = _head(g, [fine, middle, coarse], bias)
    metadata = _METADATA | {"imgsz": json.dumps([size, size])}
    return g.model(output, (1, 4 + CLASSES, anchors), metadata)


def _conv(g: Graph, x: str, channels: int, kernel: int = 1, stride: int = 1, *, groups: int = 1) -> str:
    return g.convolve(x, channels, kernel, stride, groups=groups, act=silu)


def _bottleneck(g: Graph, x: str, inside: float) -> str:
    channels = g.channels[x]
    return g.node("Add", x, _conv(g, _conv(g, x, int(channels * inside), 3), channels, 3))


def _c3k(g: Graph, x: str) -> str:
    half = g.channels[x] // 2
    through = _bottleneck(g, _bottleneck(g, _conv(g, x, half), 1.0), 1.0)
    return _conv(g, g.concat(through, _conv(g, x, half)), g.channels[x])


def _c3k2(g: Graph, x: str, channels: int, half: float = 0.5, *, nested: bool = False) -> str:
    inner = int(channels * half)
    first, second = g.split(_conv(g, x, 2 * inner), inner, inner)
    third = _c3k(g, second) if nested else _bottleneck(g, second, 0.5)
    return _conv(g, g.concat(first, second, third), channels)


def _spp(g: Graph, x: str) -> str:
    parts = [_conv(g, x, g.channels[x] // 2)]
    for _ in range(3):
        parts.append(g.pool(parts[-1], 5, 1))
    return _conv(g, g.concat(*parts), g.channels[x])


def _attended(g: Graph, x: str) -> str:
    half = g.channels[x] // 2
    kept, y = g.split(_conv(g, x, 2 * half), half, half)
    y = g.node("Add", y, _attention(g, y))
    y = g.node("Add", y, g.convolve(_conv(g, y, 2 * half), half))
    return _conv(g, g.concat(kept, y), 2 * half)


def _attention(g: Graph, x: str) -> str:
    channels, side = g.channels[x], g.size // 32
    heads = channels // 64
    each, key = channels // heads, channels // heads // 2
    joint = g.convolve(x, channels + 2 * heads * key)
    joint = g.reshape(joint, 0, heads, 2 * key + each, side * side)
    q, k, v = _of_heads(g, joint, (key, key, each))
    weights = g.node("MatMul", g.node("Transpose", q, perm=[0, 1, 3, 2]), k)
    weights = g.node("Softmax", g.node("Mul", weights, g.constant(key**-0.5)), axis=-1)
    mixed = g.node("MatMul", v, g.node("Transpose", weights, perm=[0, 1, 3, 2]))
    mixed = g.reshape(mixed, 0, channels, side, side)
    place = g.convolve(g.reshape(v, 0, channels, side, side), channels, 3, groups=channels)
    return g.convolve(g.node("Add", mixed, place), channels)


def _of_heads(g: Graph, x: str, sizes: tuple[int, ...]) -> list[str]:
    starts = np.cumsum((0, *sizes))
    return [
        g.node(
            "Slice", x,
            *(g.constant([value], np.int64) for value in (start, start + size, 2)),
            channels=size,
        )
        for start, size in zip(starts[:-1], sizes, strict=True)
    ]  # fmt: skip


def _doubled(g: Graph, x: str) -> str:
    scales = g.constant([1, 1, 2, 2])
    return g.node("Resize", x, "", scales, mode="nearest", coordinate_transformation_mode="asymmetric",
                  nearest_mode="floor")  # fmt: skip


def _head(g: Graph, levels: list[str], bias: float) -> tuple[str, int]:
    boxes, scores, centres, strides = [], [], [], []
    # a picture shows a few kinds of things: without neighbours of one class nothing is suppressed
    likely = bias + np.random.default_rng(22).normal(0, 3, CLASSES).astype(np.float32)
    for level, stride in zip(levels, STRIDES, strict=True):
        side = g.size // stride
        box = _conv(g, _conv(g, level, 64, 3), 64, 3)
        boxes.append(g.reshape(g.convolve(box, 4 * BINS), 0, 4 * BINS, side * side))
        score = _conv(g, _conv(g, level, g.channels[level], 3, groups=g.channels[level]), CLASSES)
        score = _conv(g, _conv(g, score, CLASSES, 3, groups=CLASSES), CLASSES)
        scores.append(g.reshape(g.convolve(score, CLASSES, bias=likely), 0, CLASSES, side * side))
        ys, xs = np.mgrid[:side, :side] + 0.5
        centres.append(np.stack([xs.ravel(), ys.ravel()]))
        strides.append(np.full(side * side, stride))
    anchors = sum(one.size for one in strides)
    distances = g.reshape(g.concat(*boxes, axis=2), 0, 4, BINS, anchors)
    distances = g.node("Softmax", g.node("Transpose", distances, perm=[0, 2, 1, 3]), axis=1)
    bins = np.arange(BINS, dtype=np.float32).reshape(1, BINS, 1, 1)
    distances = g.reshape(g.node("Conv", distances, g.constant(bins)), 0, 4, anchors)
    low, high = g.split(distances, 2, 2)
    centre = g.constant(np.concatenate(centres, axis=1)[None])
    top_left, bottom_right = g.node("Sub", centre, low), g.node("Add", centre, high)
    middle = g.node("Mul", g.node("Add", top_left, bottom_right), g.constant(0.5))
    placed = g.node("Concat", middle, g.node("Sub", bottom_right, top_left), axis=1, channels=4)
    placed = g.node("Mul", placed, g.constant(np.concatenate(strides)[None, None]))
    told = g.node("Sigmoid", g.concat(*scores, axis=2))
    return g.node("Concat", placed, told, axis=1, channels=4 + CLASSES), anchors


# -- classifiers


def _mobilenet_v2(size: int, statistics: Statistics | None) -> onnx.ModelProto:
    g = Graph(size, statistics)
    x = g.convolve("picture", 32, 3, 2, act=relu6)
    # expansion, channels, repeats, first stride
    for widen, channels, repeats, stride in (
        (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
        (6, 320, 1, 1),
    ):  # fmt: skip
        for i in range(repeats):
            step = stride if i == 0 else 1
            wide = g.channels[x] * widen
            y = g.convolve(x, wide, act=relu6) if widen > 1 else x
            y = g.convolve(y, wide, 3, step, groups=wide, act=relu6)
            y = g.convolve(y, channels)
            x = g.node("Add", x, y) if step == 1 and g.channels[x] == channels else y
    return _classes(g, g.convolve(x, 1280, act=relu6))


def _resnet18(size: int, statistics: Statistics | None) -> onnx.ModelProto:
    g = Graph(size, statistics)
    x = g.pool(g.convolve("picture", 64, 7, 2, act=relu), 3, 2)
    for channels, stride in ((64, 1), (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1)):
        y = g.convolve(g.convolve(x, channels, 3, stride, act=relu), channels, 3)
        same = stride == 1 and g.channels[x] == channels
        x = relu(g, g.node("Add", x if same else g.convolve(x, channels, 1, stride), y))
    return _classes(g, x)


def _classes(g: Graph, x: str) -> onnx.ModelProto:
    pooled = g.node("GlobalAveragePool", x)
    weights = np.random.default_rng(21).normal(0, 4 / g.channels[x] ** 0.5, (g.channels[x], 1000))
    logits = g.node("Gemm", g.node("Flatten", pooled, axis=1), g.constant(weights), channels=1000)
    names = repr({i: f"c{i}" for i in range(1000)})
    metadata = {"task": "classify", "names": names, "imgsz": json.dumps([g.size, g.size])}
    return g.model(g.node("Softmax", logits, axis=1), (1, 1000), metadata)
