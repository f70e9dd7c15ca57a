"""ONNX Runtime alone: callers that compute in their own thread, or one that all cores help."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from edge_infer import cores
from edge_infer.backends.bare import Run, tensors
from edge_infer.backends.common import reason
from edge_infer.backends.onnxruntime import OnnxRuntime, failures, open_session, spec_of, version
from edge_infer.errors import BackendError
from edge_infer.model.card import ModelCard


class BareOnnxRuntime:
    """Its inputs and outputs are bound once: a frame allocates nothing."""

    def __init__(self, settings: OnnxRuntime, card: ModelCard) -> None:
        self.version = version()
        threads = settings.threads or cores.usable()
        self._where = f"ONNX Runtime failed on {settings.device}"
        self._callers = ThreadPoolExecutor(threads, thread_name_prefix="bare")
        alone = _Bound(open_session(card, settings.device, 1), card)
        helped = {
            f"1 caller, {threads} threads": _Bound(open_session(card, settings.device, threads), card),
            f"1 caller, {threads} threads that spin": _Bound(
                open_session(card, settings.device, threads, spinning=True), card
            ),
        }
        callers = [alone, *(_Bound(alone.session, card) for _ in range(threads - 1))]
        self.ways: Mapping[str, Run] = {
            f"{threads} callers, 1 thread": lambda stop: self._together(callers, stop),
            **{name: self._way(one) for name, one in helped.items()},
        }
        self.infer_once: Mapping[str, Callable[[], None]] = {
            name: self._once(one) for name, one in helped.items()
        }

    def close(self) -> None:
        """Safe to call twice."""
        self._callers.shutdown()
        self.ways, self.infer_once = {}, {}

    def _way(self, bound: _Bound) -> Run:
        return lambda stop: self._run(bound, stop)

    def _once(self, bound: _Bound) -> Callable[[], None]:
        def once() -> None:
            try:
                bound.infer()
            except failures() as error:
                raise BackendError(f"{self._where}: {reason(error)}") from error

        return once

    def _together(self, callers: list[_Bound], stop: Callable[[], bool]) -> int:
        lock = threading.Lock()

        def asked() -> bool:
            with lock:
                return stop()

        return sum(self._callers.map(lambda one: self._run(one, asked), callers))

    def _run(self, bound: _Bound, stop: Callable[[], bool]) -> int:
        done = 0
        try:
            while not stop():
                bound.infer()
                done += 1
        except failures() as error:
            raise BackendError(f"{self._where}: {reason(error)}") from error
        return done


class _Bound:
    """A session with memory of its own for one caller."""

    def __init__(self, session: Any, card: ModelCard) -> None:
        import onnxruntime

        self.session = session
        self._binding: Any = session.io_binding()
        given = tensors(card, [spec_of(value) for value in session.get_inputs()])
        for name, tensor in given.items():
            self._binding.bind_ortvalue_input(name, onnxruntime.OrtValue.ortvalue_from_numpy(tensor))
        names = [value.name for value in session.get_outputs()]
        for name in names:
            self._binding.bind_output(name)
        session.run_with_iobinding(self._binding)
        # the shapes are known now
        for name, value in zip(names, self._binding.get_outputs(), strict=True):
            self._binding.bind_ortvalue_output(name, value)

    def infer(self) -> None:
        """Releases Python's lock while it computes."""
        self.session.run_with_iobinding(self._binding)
