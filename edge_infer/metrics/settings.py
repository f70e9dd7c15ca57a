"""``metrics:`` in the site's YAML."""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from edge_infer.settings import Settings, SitePath

SUFFIX = ".prom"


def _address(value: str) -> str:
    try:
        return str(ipaddress.ip_address(value))
    except ValueError:
        raise ValueError(f"{value!r} is no IP address; write one of this device, like 127.0.0.1") from None


def _prom(path: Path) -> Path:
    if path.suffix != SUFFIX:
        raise ValueError(f"node_exporter reads only files whose name ends in {SUFFIX}")
    return path


class MetricsSettings(Settings):
    """``metrics: {port: 9464}``, or ``{textfile: /run/edge-infer/edge-infer.prom}``, or both."""

    address: Annotated[str, AfterValidator(_address)] = "127.0.0.1"
    """Where Prometheus may ask: an IP address of this device. Whoever can reach it reads the numbers."""
    port: Annotated[int, Field(ge=1, le=65535)] | None = None
    """The TCP port that serves http://ADDRESS:PORT/metrics, usually 9464; without it none is opened."""
    textfile: Annotated[SitePath, AfterValidator(_prom)] | None = None
    """A file for node_exporter's textfile collector, replaced again and again; its name ends in .prom."""
    every_s: Annotated[float, Field(ge=1, le=3600)] = 15
    """Seconds between two writes of the textfile."""
    sysfs: SitePath = Path("/sys")
    """Where the kernel tells of temperatures and energy."""

    @property
    def loopback(self) -> bool:
        """Only programs on this device can ask."""
        return ipaddress.ip_address(self.address).is_loopback

    @model_validator(mode="after")
    def _somewhere(self) -> MetricsSettings:
        if self.port is None and "address" in self.model_fields_set:
            raise ValueError("an address needs a port beside it: port: 9464")
        if self.port is None and self.textfile is None:
            raise ValueError("metrics go nowhere: write port: 9464, or textfile: PATH, or remove metrics")
        return self
