"""The pipeline of one network: the service's own engine, fed with frames that are there already."""

from __future__ import annotations

import itertools
import threading
import time

from edge_infer.bench.frames import Frames
from edge_infer.bench.windows import Window
from edge_infer.engine import Engine, Work
from edge_infer.errors import BackendError, EdgeInferError
from edge_infer.network import Network

PATIENCE_S = 60.0
"""How long one frame may take."""
STOP_S = 10.0


class Saturated:
    """A station that always has a frame while it is open: for so many seconds, or for one frame."""

    def __init__(self, name: str, network: Network, frames: Frames) -> None:
        self.network = network
        self._name = name
        self._pixels = itertools.cycle(frames.pixels)
        self._lock = threading.Lock()
        self._idle = threading.Event()
        self._open = False
        self._until_s = 0.0
        self._taken = self._done = 0
        self._last_s = 0.0
        self._failure: EdgeInferError | None = None
        self._engine = Engine("bench", network)
        self._engine.add(self)
        self._engine.start()

    def window(self, seconds: float) -> Window:
        """As many frames as it can; BackendError where the runtime fails."""
        cpu_s = time.process_time()
        began_s = self._work(seconds)
        return Window({self._name: self._done}, self._last_s - began_s, time.process_time() - cpu_s)

    def latencies_ms(self, seconds: float) -> list[float]:
        """From the capture to the result, of frames that come one by one."""
        until_s = time.perf_counter() + seconds
        latencies: list[float] = []
        while not latencies or time.perf_counter() < until_s:
            captured_s = self._work(0.0)
            latencies.append((self._last_s - captured_s) * 1000)
        return latencies

    def close(self) -> None:
        """End the engine's threads and the network."""
        if not self._engine.stop(STOP_S):
            raise BackendError(f"the runtime did not come back within {STOP_S:g} s")

    def take_triggered(self, engine: Engine) -> Work | None:  # noqa: ARG002 - Feed's parameter
        """See Feed: no part asks."""
        return None

    def take_newest(self, engine: Engine) -> Work | None:  # noqa: ARG002 - Feed's parameter
        """See Feed: a frame as long as the window is open, at least one."""
        with self._lock:
            if not self._open:
                return None
            if self._taken and time.perf_counter() >= self._until_s:
                self._close_window()
                return None
            self._taken += 1
            return self._inspect

    def _work(self, seconds: float) -> float:
        """Open for so long; when it began, once the last frame is done."""
        with self._lock:
            self._idle.clear()
            self._taken = self._done = 0
            began_s = time.perf_counter()
            self._until_s = began_s + seconds
            self._open = True
        for _ in range(self.network.requests if seconds else 1):
            self._engine.wake()
        if not self._idle.wait(seconds + PATIENCE_S) and self._engine.failure is None:
            raise BackendError(f"a frame was not done after {PATIENCE_S:g} s")
        if (failure := self._engine.failure or self._failure) is not None:
            raise failure
        return began_s

    def _inspect(self, network: Network) -> None:
        try:
            network.infer(next(self._pixels))
        except EdgeInferError as error:
            self._failure = error
            self._until_s = 0.0
        now_s = time.perf_counter()
        with self._lock:
            self._done += 1
            self._last_s = now_s
            if now_s >= self._until_s:
                self._close_window()

    def _close_window(self) -> None:
        """Inside the lock."""
        self._open = False
        if self._done == self._taken:
            self._idle.set()
