"""``model.yaml`` as it is written: only ``format``, ``name`` and ``network`` are required."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Discriminator, Field, Tag, ValidationInfo, field_validator

from edge_infer.model.card import Align, Background, Color, Interpolation, Layout, Resize, Task
from edge_infer.settings import FormatOne, Settings, SitePath


def _in_pairs(stride: tuple[float, ...]) -> tuple[float, ...]:
    if len(stride) % 2:
        raise ValueError(f"{len(stride)} numbers; anchors are pairs: width, height, width, height ...")
    return stride


DecoderName = Literal[
    "yolov5", "yolov5-raw", "yolov8", "yolo-end2end", "yolox", "yolox-raw", "yolo-nas", "nms", "ssd",
    "tf-detection", "detr", "rtdetr", "rfdetr", "nanodet", "fastestdet", "yunet", "ultraface", "classify",
    "semantic", "anomaly",
]  # fmt: skip
Fraction = Annotated[float, Field(ge=0, le=1)]
Pixels = Annotated[int, Field(ge=1, le=16384)]
Size = tuple[Pixels, Pixels]
Channels = Annotated[tuple[float, ...], Field(min_length=1, max_length=4)]
Anchors = tuple[
    Annotated[
        tuple[Annotated[float, Field(gt=0)], ...], Field(min_length=2), AfterValidator(_in_pairs)
    ], ...
]  # fmt: skip
Text = Annotated[str, Field(min_length=1, max_length=200)]
Labels = Annotated[
    Annotated[tuple[Text, ...], Field(min_length=1), Tag("list")]
    | Annotated[dict[Annotated[int, Field(ge=0)], Text], Field(min_length=1), Tag("map")],
    # a tag, so that a mistake is reported once and not once a form
    Discriminator(lambda value: "map" if isinstance(value, dict) else "list"),
]


class TilesFile(Settings):
    """``tiles:`` a large picture is looked at in parts that overlap."""

    size: Size
    """height, width of a tile in pixels of the picture."""
    overlap: Annotated[float, Field(ge=0, le=0.9)] = 0.2
    """The fraction of a tile that its neighbour sees too; more than the objects are large."""


class InputFile(Settings):
    """``input:`` how a picture becomes the network's input."""

    size: Size | None = None
    """height, width; for networks with free sizes."""
    resize: Resize | None = None
    """letterbox, stretch or center_crop."""
    interpolation: Interpolation | None = None
    """linear, area or antialias; the default follows the exporter."""
    align: Align | None = None
    """center or top_left: where a letterboxed picture lies."""
    crop: Size | None = None
    """height, width cut from the centre; center_crop only."""
    graph_crop: Size | None = None
    """height, width that the network itself cuts from the centre: maps cover only that part."""
    tiles: TilesFile | None = None
    """Look at a large picture in parts; networks that find boxes only."""
    pad_value: Annotated[int, Field(ge=0, le=255)] | None = None
    """The grey around a letterboxed picture, 0..255."""
    color: Color | None = None
    """rgb, bgr or gray: what the network was trained with; rgb is the stated default."""
    layout: Layout | None = None
    """nchw or nhwc; read from the network where it can be told."""
    scale: Annotated[float, Field(gt=0)] | None = None
    """x / scale, then (x - mean) / std, in the network's colour order; 1 for uint8 inputs."""
    mean: Channels | None = None
    """One number, or one a channel."""
    std: Annotated[tuple[Annotated[float, Field(gt=0)], ...], Field(min_length=1, max_length=4)] | None = None
    """One number, or one a channel."""


class AnomalyFile(Settings):
    """``anomaly:`` normalises a score: (score - threshold) / (max - min) + 0.5."""

    threshold: float = 0.5
    min: float = 0
    max: Annotated[float, Field(validate_default=True)] = 1

    @field_validator("max")
    @classmethod
    def _min_below_max(cls, high: float, info: ValidationInfo) -> float:
        if not info.data.get("min", 0) < high:
            raise ValueError(f"max {high:g} must be above min {info.data['min']:g}")
        return high


class GoldenFile(Settings):
    """One picture and the findings it must give."""

    image: SitePath
    """A picture."""
    expect: SitePath
    """The file with its findings."""


class CardFile(Settings):
    """``model.yaml``."""

    format: FormatOne
    """The version of this file's format: 1."""
    name: Text
    """What the model is called in results."""
    version: Text | None = None
    """Text; quote a number."""
    network: SitePath
    """model.onnx or model.xml, relative to this file."""
    task: Task | None = None
    """Read from the network where it says."""
    decoder: DecoderName | None = None
    """Only where it cannot be told from the network."""
    labels: Labels | None = None
    """One name a class, or {class id: name}."""
    labels_file: SitePath | None = None
    """A text file with one name a line."""
    background: Background | None = None
    """none, first or last: a class column that means nothing."""
    anchors: Anchors | None = None
    """Raw grids only: a list of width, height, width, height ... a stride."""
    input: InputFile = InputFile()
    """How a picture becomes the network's input."""
    score_threshold: Fraction | None = None
    """Findings below it are dropped."""
    nms_iou: Fraction | None = None
    """Of two boxes of one class that overlap more, the weaker is dropped."""
    max_detections: Annotated[int, Field(ge=1, le=100_000)] | None = None
    """The best ones are kept."""
    anomaly: AnomalyFile | None = None
    """How an anomaly score is normalised."""
    golden: tuple[GoldenFile, ...] = ()
    """Pictures whose findings must come out on every device."""
    license: Text | None = None
    """Of the weights."""

    @field_validator("labels_file")
    @classmethod
    def _one_source_of_labels(cls, path: SitePath | None, info: ValidationInfo) -> SitePath | None:
        if path is not None and info.data.get("labels") is not None:
            raise ValueError("labels and labels_file: write one of them")
        return path
