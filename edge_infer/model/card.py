"""The completed model card: everything a backend, preprocessing and a decoder need to know of a network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Literal

Task = Literal["detect", "segment", "obb", "pose", "classify", "semantic", "anomaly"]
Resize = Literal["letterbox", "stretch", "center_crop"]
Interpolation = Literal["linear", "area", "antialias"]
Align = Literal["center", "top_left"]
Color = Literal["rgb", "bgr", "gray"]
Layout = Literal["nchw", "nhwc"]
Background = Literal["none", "first", "last"]
Origin = Literal["card", "network", "default", "guess"]
"""Where a value comes from: model.yaml, the network file, a stated default, or nobody knows for sure."""


@dataclass(frozen=True, slots=True)
class Tiles:
    """A large picture is looked at in parts that overlap."""

    size: tuple[int, int]
    """height, width in pixels of the picture."""
    overlap: float = 0.2
    """At least this fraction of a tile is shared with its neighbour: more than the objects are large."""


@dataclass(frozen=True, slots=True)
class InputCard:
    """How a picture becomes the network's input."""

    size: tuple[int, int]
    """height, width of the resized picture: the network's input, except with ``center_crop``."""
    resize: Resize = "letterbox"
    interpolation: Interpolation = "linear"
    align: Align = "center"
    """Where a letterboxed picture lies."""
    crop: tuple[int, int] | None = None
    """height, width cut from the centre after the short side was resized to ``size``; center_crop only."""
    graph_crop: tuple[int, int] | None = None
    """height, width that the network itself cuts from the centre of its input; maps cover only that part."""
    pad_value: int = 114
    """0..255, the picture's grey around a letterboxed picture."""
    color: Color = "rgb"
    """The order the network was trained with."""
    layout: Layout = "nchw"
    scale: float = 255
    """x / scale, then (x - mean) / std, in ``color`` order."""
    mean: tuple[float, ...] = (0.0, 0.0, 0.0)
    std: tuple[float, ...] = (1.0, 1.0, 1.0)
    tiles: Tiles | None = None
    """None: the whole picture at once."""
    name: str = ""
    """The network's input that takes the picture."""

    @property
    def network_size(self) -> tuple[int, int]:
        """height, width of the network's input, whose pixels its answers are counted in."""
        return self.crop or self.size


@dataclass(frozen=True, slots=True)
class AnomalyCard:
    """Normalises an anomaly score: (score - threshold) / (max - min) + 0.5, clipped to 0..1."""

    threshold: float = 0.5
    min: float = 0
    max: float = 1
    own_map: tuple[float, float, float] | None = None
    """threshold, min, max of the map where it is normalised apart from the score."""

    @property
    def of_map(self) -> tuple[float, float, float]:
        """threshold, min, max."""
        return self.own_map or (self.threshold, self.min, self.max)


@dataclass(frozen=True, slots=True)
class GoldenImage:
    """A picture and the file with the findings it must give."""

    image: Path
    expect: Path


@dataclass(frozen=True, slots=True)
class ModelCard:
    """A network with nothing left open; made by ``load_model``."""

    name: str
    network: Path
    """Absolute path of the .onnx or .xml file."""
    sha256: str
    """Of the network file and, behind it, of the files that hold its weights, by name."""
    task: Task
    decoder: str
    """A name in ``DECODERS``."""
    labels: tuple[str, ...]
    """One name a class that the head tells; background left out."""
    input: InputCard
    version: str | None = None
    background: Background = "none"
    """A class column that means nothing."""
    anchors: tuple[tuple[float, ...], ...] = ()
    """Raw grids only: a list (w, h, w, h, ...) a stride, in network pixels."""
    score_threshold: float = 0.25
    nms_iou: float = 0.45
    max_detections: int = 300
    anomaly: AnomalyCard | None = None
    """None: the network normalises its score itself."""
    keypoints: tuple[int, int] | None = None
    """pose: how many points an object has, and how many numbers each (3: with its visibility)."""
    logits: bool | None = None
    """classify, semantic: a softmax (a sigmoid for one channel) is left to do; None: the values must tell."""
    golden: tuple[GoldenImage, ...] = ()
    license: str | None = None
    origins: Mapping[str, Origin] = field(default_factory=lambda: MappingProxyType({}))
    """Where each value comes from, by its key in model.yaml (``input.color``)."""
    warnings: tuple[str, ...] = ()
    """Sentences: what is a guess and how to settle it."""
    card_sha256: str | None = None
    """Of model.yaml; None where the network was named without one."""
