"""Frames of several threads that go through the network together, for devices that gain from it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Literal

from edge_infer.backends import Backend, Request
from edge_infer.backends.pool import Pool
from edge_infer.errors import ModelError
from edge_infer.model.card import ModelCard
from edge_infer.tensor import Canvas, PictureSpec, Tensor, TensorSpec

NO_BATCHES = "export it with a free batch, or remove `batch` under `backend:`"
"""What to do about a network that takes one picture at a time."""


class Batching(Pool["_Place"]):
    """A backend whose network takes ``size`` pictures, for threads that have one each.

    The first frame of a batch waits at most ``wait_s`` for the others, and goes with those that came.
    """

    def __init__(self, backend: Backend, card: ModelCard, size: int, wait_s: float) -> None:
        """ModelError where the network does not answer each picture of a batch on its own."""
        odd = [spec.name for spec in backend.outputs if not spec.shape or spec.shape[0] != size]
        if odd:
            backend.close()
            raise ModelError(
                f"{card.network} cannot take batches of {size}: "
                f"its output {odd[0]} has no place for each picture",
                hint=NO_BATCHES,
            )
        self._backend = backend
        self.inputs: tuple[TensorSpec, ...] = tuple(_of_one(spec) for spec in backend.inputs)
        self.outputs = tuple(replace(spec, shape=(1, *spec.shape[1:])) for spec in backend.outputs)
        self.profile = backend.profile
        self.requested, self.running = backend.requested, backend.running
        self.precision, self.version = backend.precision, backend.version
        self.requests = backend.requests * size
        groups = [_Group(backend, size, wait_s) for _ in range(backend.requests)]
        super().__init__("batching", [place for group in groups for place in group.places])

    @contextmanager
    def request(self) -> Iterator[_Place]:
        """See Backend."""
        with super().request() as place:
            try:
                yield place
            finally:
                place.leave()

    def close(self) -> None:
        """See Backend."""
        super().close()
        self._backend.close()


def _of_one(spec: TensorSpec) -> TensorSpec:
    return replace(spec, shape=(1, *spec.shape[1:])) if isinstance(spec, PictureSpec) else spec


class _Place:
    """One picture's part of a batch."""

    def __init__(self, group: _Group, index: int, tensor: Tensor) -> None:
        self._group = group
        self._part = slice(index, index + 1)
        self.picture = Canvas(tensor[self._part])
        self._reads = False

    def infer(self, others: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """See Request."""
        outputs = self._group.infer(others)
        self._reads = True
        return {name: tensor[self._part] for name, tensor in outputs.items()}

    def leave(self) -> None:
        """What was read is of no interest any more."""
        if self._reads:
            self._reads = False
            self._group.leave()


class _Group:
    """The places of one batch. They come together, the last one or the one whose time is up runs it."""

    def __init__(self, backend: Backend, size: int, wait_s: float) -> None:
        # held for good: the places are what is handed out
        self._held = backend.request()
        self._request: Request = self._held.__enter__()
        self._size, self._wait_s = size, wait_s
        self._changed = threading.Condition()
        self._state: Literal["gathering", "running", "reading"] = "gathering"
        self._there = 0
        self._run = 0
        self._until_s = 0.0
        self._outcome: dict[str, Tensor] | Exception = {}
        self.places = [_Place(self, index, self._request.picture.tensor) for index in range(size)]

    def infer(self, others: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Come, wait for the batch, and get its outputs, which stay until everyone left."""
        with self._changed:
            # the outputs of the batch before are still read
            self._changed.wait_for(lambda: self._state == "gathering")
            self._there += 1
            if self._there == 1:
                self._until_s = time.monotonic() + self._wait_s
            mine = self._run
            full = self._there == self._size
            if not full:
                left_s = self._until_s - time.monotonic()
                self._changed.wait_for(
                    lambda: self._run != mine or self._state == "running", max(0.0, left_s)
                )
            if self._run == mine and self._state == "gathering":
                self._state = "running"
                leads = True
            else:
                self._changed.wait_for(lambda: self._run != mine)
                leads = False
        if leads:
            self._go(others)
        outcome = self._outcome
        if isinstance(outcome, Exception):
            self.leave()
            raise outcome
        return outcome

    def _go(self, others: Mapping[str, Tensor]) -> None:
        outcome: dict[str, Tensor] | Exception
        try:
            outcome = self._request.infer(others)
        except Exception as error:  # noqa: BLE001 - each of the batch raises it
            outcome = error
        with self._changed:
            self._outcome = outcome
            self._run += 1
            self._state = "reading"
            self._changed.notify_all()

    def leave(self) -> None:
        """One of those that came is done with the outputs."""
        with self._changed:
            self._there -= 1
            if self._there == 0:
                self._state = "gathering"
                self._changed.notify_all()
