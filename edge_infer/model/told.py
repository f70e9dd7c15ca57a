"""What an exporter wrote about its network, whichever exporter it was."""

from __future__ import annotations

from dataclasses import dataclass

from edge_infer.model.card import Align, AnomalyCard, Color, Resize, Task


@dataclass(frozen=True, slots=True)
class Told:
    """None where the file says nothing."""

    exporter: str = ""
    """Whose words these are: Ultralytics, Model API."""
    task: Task | None = None
    """As the exporter names it, which may be something else; who completes the card refuses that."""
    labels: tuple[str, ...] | None = None
    size: tuple[int, int] | None = None
    """height, width."""
    size_is_exact: bool | None = None
    """The network takes no other one, though its shape leaves it free."""
    end2end: bool | None = None
    """The network gives final rows, without overlapping boxes."""
    nms_inside: bool | None = None
    head: str | None = None
    """The exporter's class name of the network's last layer."""
    resize: Resize | None = None
    align: Align | None = None
    pad_value: int | None = None
    color: Color | None = None
    scale: float | None = None
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    score_threshold: float | None = None
    nms_iou: float | None = None
    keypoints: tuple[int, int] | None = None
    """How many, and how many numbers each."""
    anomaly: AnomalyCard | None = None
    warnings: tuple[str, ...] | None = None
    """Sentences: what is not followed."""
