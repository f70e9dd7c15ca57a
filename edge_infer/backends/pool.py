"""The free requests of one backend."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

from edge_infer.backends import Request
from edge_infer.backends.common import refuse_misfits
from edge_infer.errors import BackendError
from edge_infer.tensor import PictureSpec, Tensor, TensorSpec

R = TypeVar("R", bound=Request)


class Pool(Generic[R]):
    """Hands each request to one thread at a time; a base of backends."""

    inputs: tuple[TensorSpec, ...]

    def __init__(self, runtime: str, requests: Iterable[R]) -> None:
        """``runtime``: its name, for messages."""
        self._runtime = runtime
        self._closed = False
        # None: closed
        self._free: SimpleQueue[R | None] = SimpleQueue()
        for request in requests:
            self._free.put(request)

    @contextmanager
    def request(self) -> Iterator[R]:
        """See Backend."""
        request = self._free.get()
        try:
            if request is None:
                raise BackendError(f"the {self._runtime} backend is closed")
            yield request
        finally:
            self._free.put(request)
            # perhaps by another thread, which looked before this one came back
            if self._closed:
                self.close()

    def infer(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """See Backend."""
        refuse_misfits(self.inputs, tensors)
        picture = next(spec.name for spec in self.inputs if isinstance(spec, PictureSpec))
        with self.request() as request:
            request.picture.fill(tensors[picture])
            answers = request.infer({name: one for name, one in tensors.items() if name != picture})
            return {name: answer.copy() for name, answer in answers.items()}

    def close(self) -> None:
        """See Backend."""
        self._closed = True
        with suppress(Empty):
            while True:
                self._free.get_nowait()
        self._free.put(None)
