"""Which of several sources gives a value, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn, TypeVar

from edge_infer.errors import ConfigError, Mistake, ModelError
from edge_infer.model.card import Origin
from edge_infer.yamlfile import Document

T = TypeVar("T")


class Choices:
    """Collects origins, warnings and mistakes while one card is completed."""

    def __init__(self, document: Document | None, network: Path) -> None:
        """``document``: the card; None for a bare network, where the first mistake is an error."""
        self._document = document
        self._network = network
        self.origins: dict[str, Origin] = {}
        self.warnings: list[str] = []
        self._mistakes: list[Mistake] = []

    def pick(self, key: str, written: T | None, told: T | None, default: T) -> T:
        """The card's word before the network file's before the default."""
        if written is not None:
            self.origins[key] = "card"
            return written
        if told is not None:
            self.origins[key] = "network"
            return told
        self.origins[key] = "default"
        return default

    def wrong(self, at: Sequence[str], message: str, hint: str) -> None:
        """A mistake at a key of the card; ModelError where there is no card."""
        if self._document is None:
            raise ModelError(
                f"{self._network}: {message}", hint=f"{hint} in a model.yaml beside it, and name the folder"
            )
        self._mistakes.append(self._document.mistake(tuple(at), f"{message}; {hint}"))

    def unusable(self, message: str, hint: str | None = None) -> NoReturn:
        """No card can mend it."""
        raise ModelError(f"{self._network}: {message}", hint=hint)

    def stop_if_wrong(self) -> None:
        """ConfigError with every mistake so far."""
        if self._mistakes:
            raise ConfigError(self._mistakes)
