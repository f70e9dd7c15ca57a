"""One item becomes one line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from edge_infer.batch.items import Item, Position
from edge_infer.errors import ModelError
from edge_infer.findings import Findings
from edge_infer.network import Network
from edge_infer.picture_answer import json_line, picture_answer


@dataclass(frozen=True, slots=True)
class Line:
    """What is written of one item."""

    after: Position
    text: bytes
    """With its line feed."""
    error: bool
    """There was no picture to judge."""


def judge(network: Network, item: Item) -> Line:
    """Never a verdict on a damaged frame. BackendError: the runtime failed, no fault of the picture's."""
    if item.pixels is None:
        return _error(item, item.error or "")
    height, width = item.pixels.shape[:2]
    if item.damaged is not None:
        findings = Findings(undefined="damaged", warnings=(item.damaged,))
    else:
        try:
            findings = network.infer(item.pixels).findings
        except ModelError as error:
            # this picture does not fit the card: too many tiles
            return _error(item, str(error))
    answer = picture_answer(
        network, item.image, (width, height), findings, frame=item.frame, warnings=item.warnings
    )
    return Line(item.after, json_line(answer), error=False)


def _error(item: Item, why: str) -> Line:
    answer: dict[str, Any] = {"image": item.image}
    if item.frame is not None:
        answer["frame"] = item.frame
    return Line(item.after, json_line({**answer, "error": why}), error=True)
