"""What was chosen for each station by command; survives a restart, a `kill -9` and a power cut."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field, ValidationError

from edge_infer import clock
from edge_infer.errors import EdgeInferError
from edge_infer.settings import FormatOne, Settings
from edge_infer.wholefile import flush, replacing

log = logging.getLogger(__name__)

NAME = "choices.json"
KEPT_ASIDE = 2
"""Unreadable files kept for a person to look at; older ones are deleted."""


class Choice(Settings):
    """One station's; without any it runs the settings under ``stations:``."""

    recipe: str | None = None
    min_scores: dict[str, float] = Field(default_factory=dict)
    """By rule; they take the place of what is written."""
    anomaly_threshold: float | None = None
    unknown: bool = False
    """The file could not be read: which recipe was chosen nobody knows."""

    def with_threshold(self, rule: str | None, value: float) -> Choice:
        """``rule`` None: the anomaly threshold."""
        if rule is None:
            return self.model_copy(update={"anomaly_threshold": value})
        return self.model_copy(update={"min_scores": {**self.min_scores, rule: value}})

    def without(self, rules: Sequence[str | None]) -> Choice:
        """Without these thresholds; None: the anomaly threshold."""
        kept = {rule: value for rule, value in self.min_scores.items() if rule not in rules}
        threshold = None if None in rules else self.anomaly_threshold
        return self.model_copy(update={"min_scores": kept, "anomaly_threshold": threshold})


Choices = Mapping[str, Choice]
"""By station."""


class _File(Settings):
    format: FormatOne
    stations: dict[str, Choice]


@dataclass(frozen=True, slots=True)
class SetAside:
    """A file that could not be read."""

    path: Path
    """Its name now."""
    why: str


class ChoicesFile:
    """In the folder of the outbox, whose lock keeps other services away."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / NAME

    def load(self) -> tuple[Choices, SetAside | None]:
        """What was stored; nothing where nothing was, or where it cannot be read: then it is set aside."""
        try:
            return _File.model_validate_json(self.path.read_bytes()).stations, None
        except FileNotFoundError:
            return {}, None
        except ValidationError as error:
            why = "; ".join(one["msg"] for one in error.errors(include_url=False, include_input=False))
        except OSError as error:
            why = error.strerror or str(error)
        return {}, SetAside(self._put_aside(), why)

    def store(self, choices: Choices) -> None:
        """On disk when it returns; EdgeInferError where it cannot be, then the old ones are still there."""
        data = _File(format=1, stations=dict(choices)).model_dump_json(exclude_defaults=True, indent=1)
        part = self.path.with_name(f".{NAME}.part")
        try:
            with replacing(self.path, part) as file:
                file.write(data.encode() + b"\n")
            flush(self.path.parent)
        except OSError as error:
            raise EdgeInferError(
                f"the choice cannot be stored in {self.path}: {error.strerror}; nothing was changed",
                hint="is the disk full or read-only?",
            ) from error

    def _put_aside(self) -> Path:
        aside = self.path.with_name(f"{NAME}.unreadable-{clock.now():%Y%m%dT%H%M%S.%fZ}")
        try:
            self.path.replace(aside)
            for old in sorted(self.path.parent.glob(f"{NAME}.unreadable-*Z"))[:-KEPT_ASIDE]:
                old.unlink(missing_ok=True)
        except OSError as error:
            log.warning("%s cannot be set aside: %s", self.path, error.strerror)
            return self.path
        return aside
