"""What a decoder finds is its own: the next frame writes over the runtime's memory, which it reads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edge_infer.answer import as_json
from edge_infer.decoders import DECODERS, TASK_DECODERS
from edge_infer.findings import Detections, Findings, Grid
from tests.support.heads import Head, heads
from tests.support.tasks import FRAME, TRANSFORM, decoder_of

HEADS = heads()


def _runtime(head: Head) -> tuple[dict[str, NDArray[Any]], dict[str, NDArray[Any]]]:
    """The memory and views of it that nobody may write to."""
    memory = {name: each.copy() for name, each in head.outputs.items()}
    views = {name: each.view() for name, each in memory.items()}
    for each in views.values():
        each.flags.writeable = False
    return memory, views


def _overwrite(memory: dict[str, NDArray[Any]]) -> None:
    for each in memory.values():
        each[...] = np.nan if each.dtype.kind == "f" else 77


def _decode(head: Head, views: dict[str, NDArray[Any]]) -> Findings:
    return decoder_of(head.card, views).decode(views, TRANSFORM)


def _told(part: Any) -> Any:
    """Everything that it says, also what is worked out only when asked."""
    if isinstance(part, np.ndarray):
        return part.tolist()
    if isinstance(part, tuple):
        return [_told(each) for each in part]
    if not is_dataclass(part) or isinstance(part, type):
        return part
    told = {each.name: _told(getattr(part, each.name)) for each in fields(part)}
    if isinstance(part, Detections):
        told |= {"each": [_told(one) for one in part], "areas": part.areas.tolist()}
    if isinstance(part, Grid):
        spread = part.on_frame(*FRAME, outside=-1)
        told |= {"spread": spread.tobytes(), "area": part.area, "is_empty": part.is_empty}
    if isinstance(part, Findings):
        told["json"] = as_json(part)
    return told


def _arrays(part: Any) -> Iterator[NDArray[Any]]:
    if isinstance(part, np.ndarray):
        yield part
    elif isinstance(part, tuple):
        for each in part:
            yield from _arrays(each)
    elif is_dataclass(part):
        for each in fields(part):
            yield from _arrays(getattr(part, each.name))


def test_every_decoder_has_a_head_here() -> None:
    assert {name.split()[0] for name in HEADS} == {*DECODERS, *TASK_DECODERS}


@pytest.mark.parametrize("name", list(HEADS))
def test_findings_stay_as_they_are_when_the_next_frame_writes_over_the_outputs(name: str) -> None:
    memory, views = _runtime(HEADS[name])
    expected = _told(_decode(HEADS[name], views))
    findings = _decode(HEADS[name], views)
    # before anything is asked of them
    _overwrite(memory)
    assert _told(findings) == expected


@pytest.mark.parametrize("name", list(HEADS))
def test_findings_share_no_memory_with_the_outputs_and_find_something(name: str) -> None:
    memory, views = _runtime(HEADS[name])
    findings = _decode(HEADS[name], views)
    assert (
        findings.classes or findings.anomaly or (findings.detections is not None and len(findings.detections))
    )
    assert not any(np.shares_memory(array, each) for array in _arrays(findings) for each in memory.values())


@pytest.mark.parametrize("name", list(HEADS))
def test_outputs_are_only_read(name: str) -> None:
    memory, views = _runtime(HEADS[name])
    _decode(HEADS[name], views)
    for output, each in HEADS[name].outputs.items():
        np.testing.assert_array_equal(memory[output], each)
