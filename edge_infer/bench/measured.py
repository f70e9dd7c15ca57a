"""What a bench says."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import cv2
import numpy as np

from edge_infer import __version__
from edge_infer.bench.frames import Frames
from edge_infer.bench.windows import Turns, percentile


class Share(NamedTuple):
    """One station of a site."""

    station: str
    model: str
    fps: float
    share: float
    """Of all frames that were judged, 0..1."""
    dropped: int
    """Frames that a newer one replaced before a request was free."""
    undefined: int
    """Inspections that no network answered."""


@dataclass(frozen=True, slots=True)
class Measured:
    """The figures of one model, or of a site with all its stations."""

    model: str
    backend: str
    device: str
    precision: str
    profile: str
    """That the frames a second were measured in."""
    requests: int
    frames: Frames
    network: Sequence[int]
    """height, width of the network's input; of a site nothing."""
    bare_way: str
    """The bare runtime's fastest."""
    turns: Turns
    latencies_ms: Sequence[float]
    """From the capture to the result."""
    bare_latency_ms: float
    """The bare runtime's synchronous p50."""
    peak_rss_mb: float
    """Of the process before the bare runtime was loaded; the pictures in memory are part of it."""
    runtimes: Sequence[str]
    """With their versions."""
    stations: Sequence[Share] = ()

    @property
    def fairness(self) -> float:
        """The slowest station's frames a second in those of the fastest one; of a site only."""
        rates = [one.fps for one in self.stations]
        return min(rates) / max(rates) if max(rates) else 0.0

    def as_json(self) -> dict[str, Any]:
        """The object of ``bench --json``."""
        width, height = self.frames.size
        answer: dict[str, Any] = {
            "model": self.model,
            "backend": self.backend,
            "device": self.device,
            "precision": self.precision,
            "input": {"source": self.frames.name, "width": width, "height": height},
            "bare_fps": round(self.turns.bare_fps, 2),
            "pipeline_fps": round(self.turns.pipeline_fps, 2),
            "ratio": round(self.turns.ratio, 4),
            "latency_ms": {
                name: round(percentile(self.latencies_ms, share), 3)
                for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))
            },
            "bare_latency_ms": round(self.bare_latency_ms, 3),
            "cpu_ms_per_frame": round(self.turns.cpu_ms_per_frame, 3),
            "peak_rss_mb": round(self.peak_rss_mb, 1),
            "versions": versions(self.runtimes),
        }
        if self.network:
            answer["input"]["network"] = list(self.network)
        if self.stations:
            answer["stations"] = [_rounded(one) for one in self.stations]
            answer["fairness"] = round(self.fairness, 4)
        return answer


def versions(runtimes: Sequence[str]) -> Mapping[str, str]:
    """Of what takes part."""
    named = dict(one.rsplit(" ", 1) for one in runtimes)
    return {
        "edge-infer": __version__,
        **named,
        "OpenCV": cv2.__version__,
        "numpy": np.__version__,
        "Python": platform.python_version(),
    }


def _rounded(one: Share) -> dict[str, Any]:
    return one._asdict() | {"fps": round(one.fps, 2), "share": round(one.share, 4)}
