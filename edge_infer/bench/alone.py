"""One model's bare runtime, in the fastest of its ways."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial

from edge_infer.backends import BackendSettings
from edge_infer.backends.bare import open_bare
from edge_infer.bench.windows import Window, fastest, timed
from edge_infer.network import Network

TRIES = 3


class Alone:
    """Warm, and tried out: the way with the most frames a second and the one with the shortest frame."""

    def __init__(self, name: str, network: Network, backend: BackendSettings, seconds: float) -> None:
        """On the very device that ``network`` runs on; the ways are tried for ``seconds`` in all."""
        self._name = name
        running = network.device.running
        # several names: a virtual device shares the work among them
        device = network.device.requested if "," in running else running
        at_it = backend.model_copy(update={"device": device, "fallback": ()})
        self._bare = open_bare(at_it, network.card)
        ways, once = self._bare.ways, self._bare.infer_once
        each_s = seconds / (len(ways) + len(once)) / TRIES
        for run in ways.values():
            timed(name, run, 0.0)
        self.way = fastest({key: partial(self._fps, key, each_s) for key in ways}, TRIES)
        """Its name."""
        quickest = fastest({key: partial(self._speed, key, each_s) for key in once}, TRIES)
        self._once = once[quickest]

    def window(self, seconds: float) -> Window:
        """As many frames as it can."""
        return timed(self._name, self._bare.ways[self.way], seconds)

    def latencies_ms(self, seconds: float) -> list[float]:
        """Of one frame after the other, each as soon as possible."""
        return _latencies_ms(self._once, seconds)

    def close(self) -> None:
        """Safe to call twice."""
        self._bare.close()

    def _fps(self, way: str, seconds: float) -> float:
        return timed(self._name, self._bare.ways[way], seconds).fps

    def _speed(self, way: str, seconds: float) -> float:
        return 1 / statistics.median(_latencies_ms(self._bare.infer_once[way], seconds))


def _latencies_ms(once: Callable[[], None], seconds: float) -> list[float]:
    until_s = time.perf_counter() + seconds
    latencies: list[float] = []
    while not latencies or time.perf_counter() < until_s:
        began_s = time.perf_counter()
        once()
        latencies.append((time.perf_counter() - began_s) * 1000)
    return latencies
