"""One model beside its bare runtime."""

from __future__ import annotations

import statistics
from collections.abc import Callable

from edge_infer.backends import BackendSettings
from edge_infer.bench.alone import Alone
from edge_infer.bench.frames import Frames
from edge_infer.bench.measured import Measured
from edge_infer.bench.memory import peak_mb
from edge_infer.bench.saturated import Saturated
from edge_infer.bench.windows import ROUNDS, take_turns
from edge_infer.model.card import ModelCard
from edge_infer.network import Network

Progress = Callable[[str, float], None]
"""What is measured, and which part of the whole is done, 0..1."""

_WARM, _TRY, _TURNS, _LATENCY = 0.05, 0.2, 0.55, 0.2
"""Parts of the time."""
_LATENCY_ROUNDS = 3


def measure_model(
    card: ModelCard, backend: BackendSettings, frames: Frames, seconds: float, progress: Progress
) -> Measured:
    """For about so many seconds, loading aside; ModelError or BackendError where it cannot run."""
    progress(f"{card.name}: loading", 0.0)
    network = Network.open(card, backend.in_profile("throughput"))
    line = Saturated(card.name, network, frames)
    try:
        line.window(seconds * _WARM)
        # before there is anything of the bare runtime in memory
        peak = peak_mb()
        alone = Alone(card.name, network, backend, seconds * _TRY)
        try:
            window_s = seconds * _TURNS / (2 * ROUNDS + 1)
            for turns in take_turns(
                lambda: {card.name: alone.window(window_s)}, lambda: line.window(window_s)
            ):
                done = _WARM + _TRY + _TURNS * len(turns.pipeline) / ROUNDS
                progress(f"{card.name}: {turns.ratio:.3f} of the bare runtime", done)
            line.close()
            progress(f"{card.name}: latency", 1 - _LATENCY)
            one = backend.model_copy(update={"profile": "latency", "requests": 1})
            line = Saturated(card.name, Network.open(card, one), frames)
            ours, theirs = _latencies_ms(line, alone, seconds * _LATENCY)
        finally:
            alone.close()
    finally:
        line.close()
    progress(f"{card.name}: done", 1.0)
    return Measured(
        model=card.name,
        backend=network.backend_name,
        device=network.device.running,
        precision=network.precision,
        profile=network.profile,
        requests=network.requests,
        frames=frames,
        network=card.input.network_size,
        bare_way=alone.way,
        turns=turns,
        latencies_ms=ours,
        bare_latency_ms=statistics.median(theirs),
        peak_rss_mb=peak,
        runtimes=(network.runtime,),
    )


def _latencies_ms(line: Saturated, alone: Alone, seconds: float) -> tuple[list[float], list[float]]:
    """From the capture to the result, and the bare runtime's, in turns."""
    line.window(0.0)
    window_s = seconds / (2 * _LATENCY_ROUNDS)
    ours: list[float] = []
    theirs: list[float] = []
    for _ in range(_LATENCY_ROUNDS):
        theirs += alone.latencies_ms(window_s)
        ours += line.latencies_ms(window_s)
    return ours, theirs
