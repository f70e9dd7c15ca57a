"""``info``: what the device is and what it can do. Names and types only: no address, no secret."""

from __future__ import annotations

from typing import Literal

from pydantic import AwareDatetime, Field

from edge_infer.result import Device, Identifier, ModelIdentity, Part, TriggerType

SCHEMA = "info/1"


class Versions(Part):
    """What is installed."""

    edge_infer: str
    python: str
    packages: dict[str, str]
    """By name, those that judge and deliver."""
    os: str | None
    """As the system names itself."""
    kernel: str


class Hardware(Part):
    """The machine."""

    architecture: str
    cpu: str | None
    """As the kernel names it."""
    cores: int
    """That this process may use."""
    memory_bytes: int | None


class CameraInfo(Part):
    """One source of frames."""

    camera: str
    type: str
    recorded: bool


class StationInfo(Part):
    """One place of inspection."""

    station: str
    camera: str
    trigger: TriggerType
    recipe: str | None
    """That it runs now; null: the settings under ``stations:``."""
    recipe_hash: str | None
    """Of its settings, as `internalRecipeId.hash` in its results."""
    model: ModelIdentity | None
    """Null where it could not be loaded."""
    backend: str
    device: Device


class LeftConfiguration(Part):
    """The configuration file of the device does not run: somebody went back to an earlier version."""

    number: int
    """The configuration that was left."""
    sha256: str | None
    """Of the file that does not run; null where it could not be read."""
    at: AwareDatetime
    by: str


class InfoMessage(Part):
    """Retained; told again at each connection and when something in it changes."""

    schema_: Literal["info/1"] = Field(default="info/1", alias="schema")
    boot_id: str
    since: AwareDatetime
    """When the service started."""
    versions: Versions
    hardware: Hardware
    configuration: Identifier
    """What runs; its version counts the configurations that ran on this device."""
    rolled_back: LeftConfiguration | None = None
    """Null: `configuration` is the device's file."""
    cameras: tuple[CameraInfo, ...]
    stations: tuple[StationInfo, ...]
    recipes: tuple[str, ...]
    """That may be selected."""
    commands: tuple[str, ...]
    """That are allowed."""
    schemas: tuple[str, ...]
    """Of the messages that this version sends."""
