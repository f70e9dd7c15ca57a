"""What every result of a station says about where it comes from."""

from __future__ import annotations

from dataclasses import dataclass

from edge_infer.result import Device, Identifier, ModelIdentity, Origin


@dataclass(frozen=True, slots=True)
class Identity:
    """Constant while a configuration runs."""

    station: str
    source: Origin
    recipe: Identifier
    configuration: Identifier
    backend: str
    device: Device
    model: ModelIdentity | None
    boot_id: str
