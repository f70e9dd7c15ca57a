"""From a site and what was chosen to what a station runs. Changes nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from edge_infer.changeover.choices import NAME, Choice
from edge_infer.config.consistency import drops_all_below
from edge_infer.config.site import Site
from edge_infer.engine import Engine
from edge_infer.engines import Loaded
from edge_infer.errors import EdgeInferError
from edge_infer.imagehealth.reference import path_of
from edge_infer.result import Device, Identifier, ModelIdentity, Origin
from edge_infer.station import StationSettings
from edge_infer.station.identity import Identity
from edge_infer.station.inspection import Unusable
from edge_infer.station.setup import Setup
from edge_infer.yamlfile import did_you_mean


class Threshold(NamedTuple):
    """One that was set by command."""

    rule: str | None
    """None: the anomaly threshold."""
    value: float


def recipes_of(site: Site, station: str) -> list[str]:
    """The recipes that the station may run."""
    return [name for name, stations in site.recipes.items() if station in stations]


def settings_in_force(site: Site, station: str, choice: Choice) -> StationSettings | Unusable:
    """What the station judges by, thresholds included; else why that cannot be told."""
    if choice.unknown:
        return Unusable(
            "rule_not_evaluable",
            f"which recipe was selected is not known any more: {NAME} could not be read; select one, "
            f"or delete {NAME} in the state folder and restart",
        )
    written = _written(site, station, choice.recipe)
    if written is None:
        return Unusable(
            "rule_not_evaluable",
            f"the recipe {choice.recipe} is selected, but the configuration has none of that name for this "
            "station; select another one, or put it back under recipes: and reload",
        )
    rules = tuple(
        rule.model_copy(
            update={
                "count": rule.count.model_copy(
                    update={"min_score": choice.min_scores.get(rule.name, rule.count.min_score)}
                )
            }
        )
        for rule in written.rules
    )
    threshold = written.anomaly_threshold if choice.anomaly_threshold is None else choice.anomaly_threshold
    return written.model_copy(update={"rules": rules, "anomaly_threshold": threshold})


def without_effect(site: Site, station: str, choice: Choice) -> Sequence[Threshold]:
    """Thresholds that were set for what the configuration does not have any more."""
    written = _written(site, station, choice.recipe)
    if written is None:
        # it may come back
        return ()
    names = {rule.name for rule in written.rules}
    gone = [Threshold(rule, value) for rule, value in choice.min_scores.items() if rule not in names]
    card = site.cards.get(written.model)
    if choice.anomaly_threshold is not None and card is not None and card.task != "anomaly":
        gone.append(Threshold(None, choice.anomaly_threshold))
    return gone


def check_threshold(site: Site, settings: StationSettings, rule: str | None, value: float) -> float | None:
    """EdgeInferError where the value means nothing or has no effect.

    Else the value in force; None: the model's own threshold.
    """
    if not 0 <= value <= 1:
        raise EdgeInferError(f"a threshold lies in 0..1, not at {value:g}")
    card = site.cards.get(settings.model)
    if rule is None:
        if card is None or card.task != "anomaly":
            raise EdgeInferError(
                f"the model {settings.model} finds no anomalies, it has no threshold of its own",
                hint=f"name one of the station's rules: {', '.join(one.name for one in settings.rules)}",
            )
        return settings.anomaly_threshold
    for one in settings.rules:
        if one.name == rule:
            if card is not None and drops_all_below(card, value):
                raise EdgeInferError(
                    f"a min_score of {value:g} would have no effect: the model {settings.model} drops "
                    f"everything below its score_threshold {card.score_threshold:g}",
                    hint="lower score_threshold in the model card, or choose a higher value",
                )
            return one.count.min_score
    names = [one.name for one in settings.rules]
    raise EdgeInferError(f"the station has no rule {rule}{did_you_mean(rule, names)}")


def setup_of(
    site: Site,
    loaded: Loaded,
    station: str,
    choice: Choice,
    *,
    number: int | None,
    boot_id: str,
    state_dir: Path,
) -> Setup:
    """With a memory that starts anew. ``number``: of the configuration; None where it has none."""
    settings = settings_in_force(site, station, choice)
    in_force = settings if isinstance(settings, StationSettings) else None
    failed = settings if isinstance(settings, Unusable) else loaded.failure(settings.model)
    used = in_force or site.stations[station]
    engine = loaded.get(used.model) if failed is None else None
    backend = site.models[used.model].backend
    identity = Identity(
        station=station,
        source=Origin(site=site.site, line=site.line, device=site.device, camera=used.camera),
        recipe=_internal(station, in_force),
        configuration=Identifier(
            id=site.path.name,
            version=str(number) if number is not None else None,
            hash=site.sha256,
            hash_algorithm="sha256",
        ),
        backend=backend.type,
        device=engine.network.device if engine else Device(requested=backend.device, running="none"),
        model=_model(site, used.model, engine),
        boot_id=boot_id,
        external_recipe=Identifier(id=choice.recipe) if choice.recipe is not None else None,
    )
    return Setup.new(used, identity, engine, failed, path_of(state_dir, station))


def _written(site: Site, station: str, recipe: str | None) -> StationSettings | None:
    return site.stations[station] if recipe is None else site.recipes.get(recipe, {}).get(station)


def _model(site: Site, name: str, engine: Engine | None) -> ModelIdentity | None:
    if engine is None:
        return None
    files = site.contents.models.get(name)
    return engine.network.identity.model_copy(update={"card_sha256": files.card if files else None})


def _internal(station: str, settings: StationSettings | None) -> Identifier:
    if settings is None:
        return Identifier(id=station)
    digest = hashlib.sha256(settings.model_dump_json().encode()).hexdigest()
    return Identifier(id=station, hash=digest, hash_algorithm="sha256")
