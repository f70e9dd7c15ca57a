"""What every result of a station says about where it comes from."""

from __future__ import annotations

from dataclasses import dataclass

from edge_infer.result import Device, Identifier, ModelIdentity, Origin


@dataclass(frozen=True, slots=True)
class Identity:
    """Constant while a station judges by the same settings of the same configuration."""

    station: str
    source: Origin
    recipe: Identifier
    """The station and the hash of the settings in force."""
    configuration: Identifier
    backend: str
    device: Device
    model: ModelIdentity | None
    boot_id: str
    external_recipe: Identifier | None = None
    """The recipe that was selected; None: the settings under ``stations:``."""
