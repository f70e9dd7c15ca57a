"""What can go wrong as expected, each with what, where and what to do next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar


class EdgeInferError(Exception):
    """An expected failure. ``str()`` is one line: what and where, then the hint."""

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}; {self.hint}" if self.hint else self.message


@dataclass(frozen=True, slots=True)
class Mistake:
    """One thing wrong in a configuration file."""

    file: str
    line: int
    """From 1; 0 where the mistake has no place (a missing file)."""
    column: int
    """From 1; 0 where the mistake has no place."""
    key: str
    """Dotted path of the key, empty for the file as a whole."""
    message: str
    """What is wrong and what would be right."""

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}:{self.column}" if self.line else self.file
        return f"{place}: {self.key}: {self.message}" if self.key else f"{place}: {self.message}"


class ConfigError(EdgeInferError):
    """A configuration (or model card) that cannot be used; holds every mistake at once."""

    exit_code = 78

    def __init__(self, mistakes: Sequence[Mistake]) -> None:
        super().__init__("\n".join(str(mistake) for mistake in mistakes))
        self.mistakes = tuple(mistakes)


class UnfitMachineError(EdgeInferError):
    """A machine on which the runtimes cannot run; starting again would not mend it."""

    exit_code = 78


class ModelError(EdgeInferError):
    """A network file that cannot be used or does not fit its card."""


class BackendError(EdgeInferError):
    """A runtime or device that is not there or failed."""


class SourceError(EdgeInferError):
    """A camera, video or picture that cannot be opened or was lost."""


class SourceStalledError(SourceError):
    """A camera that is open but gave no frame in time; it may recover by itself."""


class SourceBusyError(SourceError):
    """A camera that is there, but another program or host uses it."""


class PictureError(SourceError):
    """A picture file that cannot be read: missing, empty, damaged, not a picture."""


class OutboxError(EdgeInferError):
    """The durable queue cannot be used."""


class DeliveryError(EdgeInferError):
    """The broker or the connection to it cannot be used."""
