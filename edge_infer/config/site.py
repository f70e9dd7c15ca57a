"""A site's configuration, read whole."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel

from edge_infer.config.consistency import check_against_card, check_consistency, device_name
from edge_infer.config.contents import Contents, contents_of
from edge_infer.config.pieces import take_apart
from edge_infer.config.presence import check_files, read_cards
from edge_infer.config.recipes import kept_keys
from edge_infer.config.schema import ModelUse, SiteFile
from edge_infer.errors import ConfigError, EdgeInferError, Mistake
from edge_infer.evidence.settings import EvidenceSettings
from edge_infer.metrics.settings import MetricsSettings
from edge_infer.model.card import ModelCard
from edge_infer.mqtt.settings import MqttSettings
from edge_infer.outbox.settings import OutboxSettings
from edge_infer.outbox.shifts import ShiftTimes
from edge_infer.remote.settings import CommandSettings
from edge_infer.settings import Secret, Secrets
from edge_infer.sources import SourceSettings
from edge_infer.station import StationSettings
from edge_infer.yamlfile import Document, in_order, load, tree


@dataclass(frozen=True, slots=True, eq=False)
class Site:
    """One site, whole and consistent; made by ``load_site``."""

    path: Path
    """The YAML file."""
    sha256: str
    """Of the file's bytes."""
    site: str
    line: str
    device: str
    state_dir: Path | None
    """None where the file does not say."""
    mqtt: MqttSettings
    topic_prefix: str
    """Filled in, without a slash at its end."""
    cameras: Mapping[str, SourceSettings]
    models: Mapping[str, ModelUse]
    stations: Mapping[str, StationSettings]
    evidence: EvidenceSettings | None
    outbox: OutboxSettings
    shifts: ShiftTimes
    """When shifts begin."""
    commands: CommandSettings
    metrics: MetricsSettings | None
    """None where nothing is exposed."""
    recipes: Mapping[str, Mapping[str, StationSettings]]
    """By name and station: the station's settings with the recipe's keys put in."""
    cards: Mapping[str, ModelCard]
    """Of the models whose network file can be used."""
    broken_models: tuple[Mistake, ...]
    """Networks that cannot be used: their stations are UNDEFINED, the others run."""
    warnings: tuple[Mistake, ...]
    """What runs but is probably not meant."""
    document: Document
    contents: Contents
    """Hashes of the other files that decisions depend on."""

    @property
    def fingerprint(self) -> str:
        """Another one where anything is another that decisions depend on."""
        return self.contents.fingerprint(self.sha256)

    @property
    def is_stored(self) -> bool:
        """It is an earlier version, not the file as it is now."""
        return self.document.path != self.path

    @property
    def used_models(self) -> tuple[str, ...]:
        """The models that stations judge with, at once or once a recipe is selected."""
        settings = [
            *self.stations.values(),
            *(one for each in self.recipes.values() for one in each.values()),
        ]
        return tuple(dict.fromkeys(one.model for one in settings))

    def missing_secrets(self, secrets: Secrets) -> list[Mistake]:
        """The secrets that cannot be read on this machine, each at its key."""
        missing = []
        for path, secret in _secrets(self):
            try:
                secrets.read(secret)
            except EdgeInferError as error:
                missing.append(self.document.mistake(path, str(error)))
        return in_order(missing)

    def require_secrets(self, secrets: Secrets) -> None:
        """ConfigError where a secret cannot be read on this machine."""
        missing = self.missing_secrets(secrets)
        if missing:
            raise ConfigError(missing)


def load_site(path: Path, *, stored: Path | None = None) -> Site:
    """Read and check; ConfigError with every mistake at once, those in model cards at their own place.

    Looks at files only (cards, recordings, certificates): no device, no broker, no secret. ``stored``: an
    earlier version of the file, read in its place; paths in it are still relative to ``path``.
    """
    document = load(path) if stored is None else load(stored, base=path.parent)
    written, mistakes = document.check(SiteFile)
    pieces = take_apart(document)
    check_consistency(pieces)
    cards = read_cards(pieces)
    for place, station in pieces.judged():
        if station.model in cards or station.model not in pieces.models:
            check_against_card(pieces, place, station, cards.get(station.model))
    check_files(pieces)
    mistakes = _each_key_once([*document.mistakes, *kept_keys(document), *mistakes, *pieces.mistakes])
    if written is None or mistakes:
        raise ConfigError(in_order(mistakes))
    device = device_name(written.device)
    return Site(
        path=path,
        sha256=document.sha256,
        site=written.site,
        line=written.line,
        device=device,
        state_dir=written.state_dir,
        mqtt=written.mqtt,
        topic_prefix=written.mqtt.prefix(site=written.site, line=written.line, device=device),
        cameras=written.cameras,
        models=written.models,
        stations=written.stations,
        evidence=written.evidence,
        outbox=written.outbox,
        shifts=written.shifts,
        commands=written.commands,
        metrics=written.metrics,
        recipes=pieces.recipes,
        cards=cards,
        broken_models=tuple(pieces.broken_models),
        warnings=tuple(in_order(pieces.warnings)),
        document=document,
        contents=contents_of(cards, _lenses(written.stations, pieces.recipes)),
    )


def _lenses(
    stations: Mapping[str, StationSettings], recipes: Mapping[str, Mapping[str, StationSettings]]
) -> Iterator[Path]:
    for each in (stations, *recipes.values()):
        yield from (one.undistort for one in each.values() if one.undistort is not None)


def _each_key_once(mistakes: list[Mistake]) -> list[Mistake]:
    """Two checks that stumble over the same value say it once; the first one knows it best."""
    return list({(one.file, one.line, one.column, one.key): one for one in reversed(mistakes)}.values())[::-1]


def _secrets(site: Site) -> Iterator[tuple[tree.Path, Secret]]:
    yield from _secrets_in(("mqtt",), site.mqtt)
    for name, camera in site.cameras.items():
        yield from _secrets_in(("cameras", name), camera)


def _secrets_in(path: tree.Path, settings: BaseModel) -> Iterator[tuple[tree.Path, Secret]]:
    for name in type(settings).model_fields:
        value = getattr(settings, name)
        if isinstance(value, Secret):
            yield (*path, name), value
        elif isinstance(value, BaseModel):
            yield from _secrets_in((*path, name), value)
