"""OpenVINO alone, as its benchmark_app measures it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from edge_infer.backends.bare import Run, tensors
from edge_infer.backends.common import reason
from edge_infer.backends.openvino import OpenVino, compile_as_stored, version
from edge_infer.backends.openvino_graph import spec_of
from edge_infer.errors import BackendError
from edge_infer.model.card import ModelCard

_FAILURES = (RuntimeError, ValueError)


class BareOpenVino:
    """Compiled twice: for throughput with the requests that it asks for itself, and for latency with one.

    Where the settings say ``batch``, also for throughput with batches.
    """

    def __init__(self, settings: OpenVino, card: ModelCard) -> None:
        self.version = version()
        self._where = f"OpenVINO failed on {settings.device}"
        self._card = card
        soon = settings.model_copy(update={"profile": "latency", "batch": 1})
        compiled, given = self._compiled(soon)
        self._request: Any = compiled.create_infer_request()
        _set(self._request, given)
        self.ways: dict[str, Run] = {}
        for batch in sorted({1, settings.batch}):
            fast = settings.model_copy(update={"profile": "throughput", "batch": batch})
            name, run = self._throughput(fast)
            self.ways[name] = run
        self.ways["synchronous, latency"] = self._one_by_one
        self.infer_once: Mapping[str, Callable[[], None]] = {"synchronous, latency": self._infer}

    def close(self) -> None:
        """Safe to call twice."""
        self.ways.clear()
        self._request = None

    def _compiled(self, settings: OpenVino) -> tuple[Any, list[Any]]:
        """And a tensor for each of its inputs."""
        import openvino

        compiled = compile_as_stored(self._card, settings)
        specs = [spec_of(index, port) for index, port in enumerate(compiled.inputs)]
        return compiled, [openvino.Tensor(one) for one in tensors(self._card, specs).values()]

    def _throughput(self, settings: OpenVino) -> tuple[str, Run]:
        import openvino

        compiled, given = self._compiled(settings)
        # as many as OPTIMAL_NUMBER_OF_INFER_REQUESTS says
        queue: Any = openvino.AsyncInferQueue(compiled)
        for request in queue:
            _set(request, given)

        def run(stop: Callable[[], bool]) -> int:
            done = 0
            try:
                while not stop():
                    # waits for one that is idle
                    queue.start_async()
                    done += settings.batch
                queue.wait_all()
            except _FAILURES as error:
                raise BackendError(f"{self._where}: {reason(error)}") from error
            return done

        batches = f", batches of {settings.batch}" if settings.batch > 1 else ""
        return f"asynchronous, throughput, {len(queue)} requests{batches}", run

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


def _set(request: Any, given: list[Any]) -> None:
    for index, tensor in enumerate(given):
        request.set_input_tensor(index, tensor)
