"""Requests are handed to one thread at a time, and closing waits for nobody."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from queue import SimpleQueue
from typing import Any

import numpy as np
import pytest

from edge_infer.backends.pool import Pool
from edge_infer.errors import BackendError
from edge_infer.tensor import Canvas, Tensor


class Echo:
    """A request without a runtime."""

    def __init__(self) -> None:
        self.picture = Canvas(np.zeros((1, 4, 4, 3), np.uint8))

    def infer(self, others: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return {"echo": self.picture.tensor, **others}


def pool(requests: int = 1) -> Pool[Echo]:
    return Pool("echo", [Echo() for _ in range(requests)])


class Overtaken(SimpleQueue[Any]):
    """Another thread takes a request between a look at the queue and what follows it."""

    def __init__(self, taken: SimpleQueue[Any], overtake: Callable[[], None]) -> None:
        super().__init__()
        self._overtake = overtake
        while not taken.empty():
            self.put(taken.get())

    def empty(self) -> bool:
        told = super().empty()
        self._overtake()
        return told

    def get_nowait(self) -> Any:
        self._overtake()
        return super().get_nowait()


def test_closing_does_not_wait_for_a_request_that_another_thread_takes_meanwhile() -> None:
    busy, held = pool(), list[AbstractContextManager[Echo]]()
    others = [busy.request()]

    def overtake() -> None:
        if others:
            held.append(others.pop())
            held[-1].__enter__()

    busy._free = Overtaken(busy._free, overtake)
    closing = threading.Thread(target=busy.close, daemon=True)
    closing.start()
    closing.join(5)
    assert not closing.is_alive()


def test_a_request_that_comes_back_while_the_backend_closes_is_handed_out_to_nobody() -> None:
    busy = pool()
    with busy.request():

        class Late(SimpleQueue[Any]):
            """The backend is closed between the thread's last look and what it does then."""

            def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
                if isinstance(item, Echo) and not busy._closed:
                    busy.close()
                super().put(item, block, timeout)

        busy._free = Late()
    for _ in range(3):
        with pytest.raises(BackendError, match="the echo backend is closed"), busy.request():
            pass


def test_who_waits_for_a_request_is_told_that_the_backend_is_closed() -> None:
    busy = pool()
    failures: list[BackendError] = []

    def wait() -> None:
        try:
            with busy.request():
                pass
        except BackendError as error:
            failures.append(error)

    waiting = [threading.Thread(target=wait, daemon=True) for _ in range(3)]
    with busy.request():
        for thread in waiting:
            thread.start()
        busy.close()
        for thread in waiting:
            thread.join(5)
    assert len(failures) == 3
    busy.close()
    with pytest.raises(BackendError), busy.request():
        pass
