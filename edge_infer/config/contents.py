"""What a site consists of beside its YAML: hashes that tell whether two configurations judge the same."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from pathlib import Path

from edge_infer.model.card import ModelCard
from edge_infer.settings import Settings


class ModelFiles(Settings):
    """One model's."""

    network: str
    """sha256 of the network file and, behind it, of the files that hold its weights."""
    card: str | None = None
    """sha256 of model.yaml; None where the network is named without a card."""
    content: str
    """sha256 of everything that judges, labels and golden pictures included, wherever the files lie."""


class Contents(Settings):
    """All files that a site's decisions depend on, as they were when they were read."""

    models: Mapping[str, ModelFiles]
    """By name; those whose network cannot be used are left out."""
    lenses: Mapping[str, str]
    """Calibrations: sha256 by path."""

    def fingerprint(self, yaml_sha256: str) -> str:
        """One hash over these and the YAML."""
        whole = [
            yaml_sha256,
            {name: one.content for name, one in self.models.items()},
            sorted(self.lenses.values()),
        ]
        return hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()

    def other_files(self, now: Contents) -> list[str]:
        """The models and calibrations that are others in ``now``, for people."""
        names = {**self.models, **now.models}
        found = [f"models.{name}" for name in names if self.models.get(name) != now.models.get(name)]
        paths = {**self.lenses, **now.lenses}
        return found + [path for path in paths if self.lenses.get(path) != now.lenses.get(path)]


def contents_of(cards: Mapping[str, ModelCard], lenses: Iterable[Path]) -> Contents:
    """Reads golden pictures and calibrations; networks and cards were hashed when they were read."""
    return Contents(
        models={name: files_of(card) for name, card in cards.items()},
        lenses={str(path): _sha256(path) for path in dict.fromkeys(lenses)},
    )


def files_of(card: ModelCard) -> ModelFiles:
    """One model's hashes."""
    # where it lies and what was said about it judge nothing
    silent = {"network", "origins", "warnings", "card_sha256"}
    values = {one.name: getattr(card, one.name) for one in fields(card) if one.name not in silent}
    values["input"] = asdict(card.input)
    values["anomaly"] = asdict(card.anomaly) if card.anomaly is not None else None
    values["golden"] = [[_sha256(one.image), _sha256(one.expect)] for one in card.golden]
    text = json.dumps(values, sort_keys=True, default=str)
    return ModelFiles(
        network=card.sha256, card=card.card_sha256, content=hashlib.sha256(text.encode()).hexdigest()
    )


def _sha256(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        # who uses it says so
        return "unreadable"
