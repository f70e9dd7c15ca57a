"""OpenVINO alone, as its benchmark_app measures it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from edge_infer.backends.bare import Run, tensors
from edge_infer.backends.common import reason
from edge_infer.backends.openvino import OpenVino, compile_as_stored, spec_of, version
from edge_infer.errors import BackendError
from edge_infer.model.card import ModelCard

_FAILURES = (RuntimeError, ValueError)


class BareOpenVino:
    """Compiled twice: for throughput with the requests that it asks for itself, and for latency with one."""

    def __init__(self, settings: OpenVino, card: ModelCard) -> None:
        import openvino

        self.version = version()
        self._where = f"OpenVINO failed on {settings.device}"
        fast = compile_as_stored(card, settings.model_copy(update={"profile": "throughput"}))
        soon = compile_as_stored(card, settings.model_copy(update={"profile": "latency"}))
        specs = [spec_of(index, port) for index, port in enumerate(fast.inputs)]
        given = [openvino.Tensor(one) for one in tensors(card, specs).values()]
        # as many as OPTIMAL_NUMBER_OF_INFER_REQUESTS says
        self._queue: Any = openvino.AsyncInferQueue(fast)
        self._request: Any = soon.create_infer_request()
        for request in (*self._queue, self._request):
            for index, tensor in enumerate(given):
                request.set_input_tensor(index, tensor)
        self.ways: Mapping[str, Run] = {
            f"asynchronous, throughput, {len(self._queue)} requests": self._throughput,
            "synchronous, latency": self._one_by_one,
        }
        self.infer_once: Mapping[str, Callable[[], None]] = {"synchronous, latency": self._infer}

    def close(self) -> None:
        """Safe to call twice."""
        self._queue = self._request = None

    def _throughput(self, stop: Callable[[], bool]) -> int:
        done = 0
        try:
            while not stop():
                # waits for one that is idle
                self._queue.start_async()
                done += 1
            self._queue.wait_all()
        except _FAILURES as error:
            raise BackendError(f"{self._where}: {reason(error)}") from error
        return done

    def _one_by_one(self, stop: Callable[[], bool]) -> int:
        done = 0
        while not stop():
            self._infer()
            done += 1
        return done

    def _infer(self) -> None:
        try:
            self._request.infer(share_outputs=True)
        except _FAILURES as error:
            raise BackendError(f"{self._where}: {reason(error)}") from error
