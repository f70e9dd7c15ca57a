"""How fast a network runs as its station runs it: preprocessing, network and decoder, all requests busy."""

from __future__ import annotations

import itertools
import os
import statistics
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edge_infer.errors import EdgeInferError
from edge_infer.network import Network
from edge_infer.tune.energy import Meter

_WARM = 3
"""Frames a thread that are not counted: memory is planned and caches filled by then."""


@dataclass(frozen=True, slots=True)
class Speed:
    """One window, or the median of several."""

    fps: float
    p50_ms: float
    """From a frame in memory to its findings."""
    p95_ms: float
    cpu_ms: float
    """Of this process, a frame."""
    joules: float | None
    """Of the whole processor, a frame; None where no meter can be read."""
    others: float
    """Cores that other processes were busy on meanwhile: they make every figure but ``cpu_ms`` worse."""


def measure(network: Network, pictures: Sequence[NDArray[np.uint8]], seconds: float, meter: Meter) -> Speed:
    """Run ``pictures`` in turn for ``seconds``, one thread a request. EdgeInferError where it fails."""
    took: list[list[float]] = [[] for _ in range(network.requests)]
    failures: list[Exception] = []
    start = threading.Barrier(network.requests + 1)
    ended = threading.Event()

    def work(mine: list[float], offset: int) -> None:
        try:
            for number in range(_WARM):
                network.infer(pictures[number % len(pictures)])
            start.wait()
            for number in itertools.count(offset):
                begin = time.perf_counter()
                network.infer(pictures[number % len(pictures)])
                mine.append((time.perf_counter() - begin) * 1000)
                if ended.is_set():
                    return
        except EdgeInferError as error:
            failures.append(error)
            start.abort()
        except threading.BrokenBarrierError:
            return

    threads = [
        threading.Thread(target=work, args=(mine, offset), name=f"tune-{offset}", daemon=True)
        for offset, mine in enumerate(took)
    ]
    for thread in threads:
        thread.start()
    try:
        start.wait()
        joules, busy, cpu, begin = meter.read(), _busy_s(), time.process_time(), time.perf_counter()
        ended.wait(seconds)
    except threading.BrokenBarrierError:
        joules, busy, cpu, begin = None, 0.0, time.process_time(), time.perf_counter()
    finally:
        ended.set()
        for thread in threads:
            thread.join()
    lasted, used = time.perf_counter() - begin, time.process_time() - cpu
    after, others = meter.read(), max(0.0, _busy_s() - busy - used) / lasted
    if failures:
        raise failures[0]
    all_ms = sorted(itertools.chain.from_iterable(took))
    spent = meter.joules(joules, after)
    return Speed(
        fps=len(all_ms) / lasted,
        p50_ms=_quantile(all_ms, 0.5),
        p95_ms=_quantile(all_ms, 0.95),
        cpu_ms=used * 1000 / len(all_ms),
        joules=None if spent is None else spent / len(all_ms),
        others=others,
    )


def median(windows: Sequence[Speed]) -> Speed:
    """Of each figure by itself."""
    joules = [one.joules for one in windows if one.joules is not None]
    return Speed(
        fps=statistics.median(one.fps for one in windows),
        p50_ms=statistics.median(one.p50_ms for one in windows),
        p95_ms=statistics.median(one.p95_ms for one in windows),
        cpu_ms=statistics.median(one.cpu_ms for one in windows),
        joules=statistics.median(joules) if joules else None,
        others=statistics.median(one.others for one in windows),
    )


def _busy_s() -> float:
    """Seconds that the cores of the machine were busy so far; 0 where it does not say."""
    try:
        told = Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()
    except OSError:
        return 0.0
    user, nice, system, _, _, irq, softirq, *_ = map(int, told[1:])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def _quantile(ordered: Sequence[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
