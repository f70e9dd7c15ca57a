"""Work that may hang, in a thread that may be left behind."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import TypeVar

T = TypeVar("T")


def later(name: str, work: Callable[[], T]) -> Future[T]:
    """Begun at once; its ``result`` waits."""
    future: Future[T] = Future()
    threading.Thread(target=partial(_do, work, future), name=f"doctor-{name}", daemon=True).start()
    return future


def _do(work: Callable[[], T], future: Future[T]) -> None:
    try:
        future.set_result(work())
    except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
        future.set_exception(error)
