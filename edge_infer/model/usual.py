"""How each family's own exporter feeds a picture, where neither the card nor the network file says."""

from __future__ import annotations

from dataclasses import dataclass

from edge_infer.model.card import Align, Color, Interpolation, Resize

_IMAGENET_MEAN = (0.485, 0.456, 0.406)
_IMAGENET_STD = (0.229, 0.224, 0.225)


@dataclass(frozen=True, slots=True)
class Usual:
    """The stated defaults of ``input:`` for one decoder."""

    resize: Resize = "letterbox"
    interpolation: Interpolation = "linear"
    align: Align = "center"
    pad_value: int = 114
    color: Color = "rgb"
    scale: float = 255
    mean: tuple[float, ...] = (0.0,)
    """One number, or one a channel in ``color`` order; with ``std`` only where divided by ``scale``."""
    std: tuple[float, ...] = (1.0,)
    labels: tuple[str, ...] | None = None
    """Of families that know one kind of object only."""
    differs: bool = False
    """Networks of this family are fed in several ways: the default is said as a guess."""


_STRETCHED_IMAGENET = Usual(resize="stretch", mean=_IMAGENET_MEAN, std=_IMAGENET_STD)

_MEGVII = Usual(align="top_left", color="bgr", scale=1)

USUAL = {
    # before its version 0.1.1 it divided by ImageNet's mean and std
    "yolox": _MEGVII,
    "yolox-raw": _MEGVII,
    "nms": Usual(differs=True),
    "ssd": Usual(resize="stretch", color="bgr", scale=1, differs=True),
    # its networks normalise inside the graph, and most take bytes
    "tf-detection": Usual(resize="stretch", scale=1, differs=True),
    "detr": _STRETCHED_IMAGENET,
    "rtdetr": Usual(resize="stretch"),
    "rfdetr": _STRETCHED_IMAGENET,
    "nanodet": Usual(
        pad_value=0, color="bgr", scale=1, mean=(103.53, 116.28, 123.675), std=(57.375, 57.12, 58.395)
    ),
    "fastestdet": Usual(resize="stretch", interpolation="area", color="bgr"),
    "yunet": Usual(align="top_left", pad_value=0, color="bgr", scale=1, labels=("face",)),
    # their references resize with PIL or torchvision, which smooth what they shrink
    "classify": Usual(resize="center_crop", interpolation="antialias"),
    "anomaly": Usual(resize="stretch", interpolation="antialias"),
    "semantic": Usual(resize="stretch"),
    "ultraface": Usual(resize="stretch", scale=1, mean=(127.0,), std=(128.0,), labels=("face",)),
}
"""Decoder -> what is usual; every other decoder: ``Usual()``."""
