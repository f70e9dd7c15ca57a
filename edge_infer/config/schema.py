"""What may stand in the site's YAML. Each piece's keys live in the piece's own room."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Union

from pydantic import Field

from edge_infer.backends import BACKENDS, BackendSettings
from edge_infer.config.recipes import RecipeSettings
from edge_infer.evidence.settings import EvidenceSettings
from edge_infer.metrics.settings import MetricsSettings
from edge_infer.mqtt.settings import MqttSettings
from edge_infer.outbox.settings import OutboxSettings
from edge_infer.outbox.shifts import DEFAULT as DEFAULT_SHIFTS
from edge_infer.outbox.shifts import ShiftTimes
from edge_infer.registry import resolve
from edge_infer.remote.settings import CommandSettings
from edge_infer.settings import FormatOne, Id, Settings, SitePath
from edge_infer.sources import SOURCES, SourceSettings
from edge_infer.station import StationSettings


def _one_of(table: Mapping[str, str]) -> Any:
    """The settings classes of a table, told apart by ``type:``."""
    classes = tuple(resolve(table, name) for name in table)
    return Annotated[Union[classes], Field(discriminator="type")]  # noqa: UP007 - of a tuple, not of types


if TYPE_CHECKING:
    AnyCamera = SourceSettings
    AnyBackend = BackendSettings
else:
    AnyCamera = _one_of(SOURCES)
    AnyBackend = _one_of(BACKENDS)


def _default_backend() -> BackendSettings:
    backend: BackendSettings = resolve(BACKENDS, "onnxruntime")(type="onnxruntime")
    return backend


class ModelUse(Settings):
    """``seals: {path: models/seals, backend: {type: openvino, device: NPU}}``."""

    path: SitePath
    """A folder with model.yaml, or a bare .onnx or .xml."""
    backend: AnyBackend = Field(default_factory=_default_backend)
    """The runtime and its device; default {type: onnxruntime, device: CPU}."""


class SiteFile(Settings):
    """The site's YAML as it is written. Paths are relative to the file."""

    format: FormatOne
    """The version of this file's format: 1."""
    site: Id
    """The plant; part of every topic."""
    line: Id
    """The production line; part of every topic."""
    device: Id | None = None
    """This device; part of every topic. Default: its host name."""
    state_dir: SitePath | None = None
    """Where the outbox lives; default $STATE_DIRECTORY, else ~/.local/state/edge-infer."""
    mqtt: MqttSettings
    """The broker that gets the results."""
    cameras: Annotated[dict[Id, AnyCamera], Field(min_length=1)]
    """Where frames come from, by name."""
    models: Annotated[dict[Id, ModelUse], Field(min_length=1)]
    """The networks, by name."""
    stations: Annotated[dict[Id, StationSettings], Field(min_length=1)]
    """What is inspected, by name: a camera, a trigger, a model, rules."""
    evidence: EvidenceSettings | None = None
    """Which pictures of results are kept; without it none is."""
    outbox: OutboxSettings = OutboxSettings()
    """The durable queue that results wait in."""
    shifts: ShiftTimes = DEFAULT_SHIFTS
    """When shifts begin, local time: `counts` tells each one's decisions. Quoted: without quotes 14:00 is a
    number to YAML."""
    commands: CommandSettings = CommandSettings()
    """What may be asked of the device over MQTT; default nothing."""
    metrics: MetricsSettings | None = None
    """Numbers for Prometheus, read by whoever can reach them; default none."""
    recipes: dict[Id, Annotated[dict[Id, RecipeSettings], Field(min_length=1)]] = Field(default_factory=dict)
    """Named sets of station settings, by name and station, switched by command between two parts."""


def json_schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of the site's YAML, for editors."""
    schema = SiteFile.model_json_schema(mode="validation")
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "edge-infer site, format 1"
    return schema
