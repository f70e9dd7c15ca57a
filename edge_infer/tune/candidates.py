"""What is tried: a network in a precision on a device (variant), in a profile with requests and threads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from edge_infer import cores
from edge_infer.backends import BACKENDS, BackendSettings, Profile
from edge_infer.model.card import ModelCard
from edge_infer.registry import resolve

_MOST_REQUESTS = 16


@dataclass(frozen=True, slots=True)
class Variant:
    """One network file on one device in one precision: it answers the same however many requests it has."""

    backend: str
    device: str
    precision: str
    """FP32, BF16 or INT8."""
    card: ModelCard
    """With the network file that it runs."""
    method: str | None = None
    """How it was quantised."""

    @property
    def exact(self) -> bool:
        """Whether it computes in float32."""
        return self.precision == "FP32" and self.device.partition(".")[0] != "NPU"

    def __str__(self) -> str:
        by = f" by {self.method}" if self.method else ""
        return f"{self.backend} {self.device} {self.precision}{by}"

    def settings(self, **more: Any) -> BackendSettings:
        """Of its backend."""
        if self.precision == "BF16":
            more["precision"] = "bf16"
        settings: BackendSettings = resolve(BACKENDS, self.backend)(
            type=self.backend, device=self.device, **more
        )
        return settings


@dataclass(frozen=True, slots=True)
class Candidate:
    """A variant and how it is run."""

    variant: Variant
    profile: Profile
    requests: int | None
    """None: as many as the profile needs on the device."""
    threads: int | None
    """None: it is no matter of the CPU."""

    def __str__(self) -> str:
        told = f"{self.variant}, {self.profile}"
        told += "" if self.requests is None else f", requests {self.requests}"
        return told + ("" if self.threads is None else f", threads {self.threads}")

    @property
    def settings(self) -> BackendSettings:
        """To open it with."""
        more = {"profile": self.profile, "requests": self.requests, "threads": self.threads}
        return self.variant.settings(**{key: value for key, value in more.items() if value is not None})

    def yaml(self, requests: int) -> dict[str, Any]:
        """The ``backend:`` of the site's YAML; ``requests``: as many as it had when it was measured."""
        keys = ("type", "device", "precision", "profile", "requests", "threads")
        told = replace(self, requests=requests).settings.model_dump()
        wanted = {key: told[key] for key in keys if told.get(key) is not None}
        if wanted.get("precision") == "f32":
            del wanted["precision"]
        return wanted


def ways(variant: Variant, usable: int | None = None) -> Iterator[Candidate]:
    """The ways to run a variant that can differ; ``usable``: cores, those of this process by default."""
    usable = usable or cores.usable()
    if variant.device.upper() != "CPU":
        yield Candidate(variant, "latency", None, None)
        yield Candidate(variant, "throughput", None, None)
        return
    yield Candidate(variant, "latency", 1, usable)
    if usable > 1:
        # leaves cores to cameras and to other networks, and small networks lose nothing by it
        yield Candidate(variant, "latency", 1, usable // 2)
    yield Candidate(variant, "throughput", None, usable)
    # ONNX Runtime computes in the caller's thread: more callers than cores only wait
    if variant.backend == "openvino" and usable > 1:
        yield Candidate(variant, "throughput", min(_MOST_REQUESTS, 3 * usable), usable)
        yield Candidate(variant, "throughput", usable, usable)
