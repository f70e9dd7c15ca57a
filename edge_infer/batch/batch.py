"""A batch from its first line to the finished file."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from contextlib import closing
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Protocol

import cv2
import numpy as np

from edge_infer import __version__, cores
from edge_infer.batch import PARQUET
from edge_infer.batch.ahead import in_order
from edge_infer.batch.inputs import Inputs
from edge_infer.batch.items import items
from edge_infer.batch.journal import Mark
from edge_infer.batch.judge import Line, judge
from edge_infer.batch.part import Part, disk_trouble
from edge_infer.errors import BackendError
from edge_infer.model.card import ModelCard
from edge_infer.network import Network

_MARK_S = 0.5
_MARK_LINES = 32
"""So much, or so many, are judged again after a kill."""
_SYNC_S = 5.0
"""So much is judged again after a power cut."""


class Watcher(Protocol):
    """Who wants to know how far a batch is."""

    def begun(self, mark: Mark) -> None:
        """So far an earlier run came."""

    def judged(self, line: Line) -> None:
        """One more."""

    def assembling(self) -> None:
        """All are there; the output is made from them."""


def fingerprint(card: ModelCard, network: Network, inputs: Inputs) -> dict[str, str]:
    """Everything that a line depends on: name -> value. The same again gives the same lines."""
    return {
        "edge-infer": __version__,
        "model": card.sha256,
        "model.yaml": _card(card),
        "backend": network.backend_name,
        "runtime": network.runtime,
        "device": f"{network.device.requested}, running {network.device.running}",
        "precision": network.precision,
        # by how many threads a sum is made decides its last digits
        "requests": str(network.requests),
        "cores": str(cores.usable()),
        # they decode and resize
        "opencv": cv2.__version__,
        "av": version("av"),
        "numpy": np.__version__,
        # told where it differs: who reads it may look for what was changed
        "inputs": f"{len(inputs)} paths; names, sizes and times of change: {inputs.identity()[:16]}",
    }


def run(network: Network, inputs: Inputs, part: Part, stop: threading.Event, watcher: Watcher) -> bool:
    """Judge what is left and finish the output; False where ``stop`` ended it, to be gone on with.

    EdgeInferError: the runtime or the disk; what was judged until then is kept.
    """
    watcher.begun(part.mark)
    if not part.mark.complete and not _judge_rest(network, inputs, part, stop, watcher):
        return False
    return _finish(part, stop, watcher)


def _judge_rest(
    network: Network, inputs: Inputs, part: Part, stop: threading.Event, watcher: Watcher
) -> bool:
    todo = items(inputs, part.mark.next)
    marked_s = synced_s = time.monotonic()
    try:
        # nobody is left in the network when this is left, however
        with closing(in_order(todo, lambda item: judge(network, item), network.requests, stop)) as answers:
            for line in answers:
                part.add(line)
                watcher.judged(line)
                now_s = time.monotonic()
                if now_s - marked_s >= _MARK_S or part.waiting >= _MARK_LINES:
                    part.set_mark()
                    marked_s = now_s
                if now_s - synced_s >= _SYNC_S:
                    part.sync()
                    synced_s = now_s
    except BackendError as error:
        part.set_mark()
        raise BackendError(
            error.message, hint="what was judged is kept: the same command goes on from there"
        ) from error
    if stop.is_set():
        part.set_mark()
        part.sync()
        return False
    part.complete()
    return True


def _finish(part: Part, stop: threading.Event, watcher: Watcher) -> bool:
    """The lines, or what is made of them, under the output's name."""
    if part.is_moved:
        part.clear()
        return True
    if part.out.suffix.lower() != PARQUET:
        part.move(part.lines)
        return True
    from edge_infer.batch.parquet import convert

    watcher.assembling()
    try:
        with part.whole.open("wb") as file:
            if not convert(part.lines, file, stop):
                return False
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise disk_trouble(part.out, "write", error) from error
    part.move(part.whole)
    return True


def _card(card: ModelCard) -> str:
    """A hash of what the card says, wherever the model's folder lies."""
    said = replace(card, network=Path(card.network.name), golden=(), origins={}, card_sha256=None)
    return hashlib.sha256(repr(said).encode(errors="surrogateescape")).hexdigest()
