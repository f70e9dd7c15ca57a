"""What is said over the socket: one line of JSON each way, then it is closed."""

from __future__ import annotations

from typing import Literal

from pydantic import AwareDatetime, Field

from edge_infer.messages.camera import CameraState
from edge_infer.messages.info import LeftConfiguration
from edge_infer.result import Device, ModelIdentity, Part

FORMAT = 1
"""Of both lines; a service of another version says so instead of guessing."""
LONGEST_REQUEST = 16 * 1024
LONGEST_ANSWER = 4 * 1024 * 1024
"""Bytes, of a site with thousands of mistakes."""
SOCKET = "ctl.sock"
"""In the unit's runtime directory, else in the state folder."""


class Request(Part):
    """What is asked for."""

    format: Literal[1] = 1
    do: Literal["status", "reload", "rollback"]
    again: bool = False
    """reload: also a file that was rolled back from."""
    number: int | None = None
    """rollback: to which configuration; None: to the one that ran before."""
    at_restart: bool = False
    """rollback: not now, but from the next start on."""


class KeptConfiguration(Part):
    """One that ran and can run again."""

    number: int
    sha256: str
    """Of the file's bytes."""
    loaded_at: AwareDatetime
    by: str | None
    """Who asked for it; null: the start of the service."""
    owner: str | None
    models: dict[str, str]
    """sha256 of each model's network and weights."""


class RunningConfiguration(Part):
    """What decisions are made by."""

    file: str
    number: int | None
    """Null where the disk did not take it."""
    sha256: str
    loaded_at: AwareDatetime | None
    by: str | None
    next_start: int | None
    """Which one runs from the next start on, where somebody asked for that."""
    rolled_back: LeftConfiguration | None
    """Null: it is the operator's file, as it was when it was loaded."""
    file_is: Literal["running", "changed", "rolled back", "unreadable"]
    """The operator's file as it is now, other files left out; ``changed``: not loaded yet."""


class StationNow(Part):
    """One station."""

    station: str
    camera: str
    model: str
    recipe: str | None
    recipe_hash: str | None
    trouble: str | None
    """Why it judges nothing."""


class CameraNow(Part):
    """One camera."""

    camera: str
    state: CameraState
    text: str
    since: AwareDatetime


class ModelNow(Part):
    """One model that stations or their recipes use."""

    model: str
    identity: ModelIdentity | None
    """Null where it cannot run."""
    backend: str
    device: Device | None
    trouble: str | None


class LastOutcome(Part):
    """Of the newest reload, or of going back."""

    what: Literal["reload", "rollback"]
    by: str
    at: AwareDatetime
    done: bool
    changed: tuple[str, ...]
    mistakes: tuple[str, ...]


class Status(Part):
    """How the service is."""

    version: str
    pid: int
    state: Literal["starting", "running", "stopping"]
    since: AwareDatetime
    configuration: RunningConfiguration | None
    """Null while it starts."""
    kept: tuple[KeptConfiguration, ...] = ()
    """Newest first."""
    stations: tuple[StationNow, ...] = ()
    cameras: tuple[CameraNow, ...] = ()
    models: tuple[ModelNow, ...] = ()
    last: LastOutcome | None = None
    """Since the start."""


class Answer(Part):
    """What came of it."""

    format: Literal[1] = 1
    code: int
    """The command's exit code: 0 done, 1 refused, 78 a wrong configuration."""
    message: str
    number: int | None = None
    """Of the configuration that runs now."""
    changed: tuple[str, ...] = ()
    mistakes: tuple[str, ...] = Field(default=())
    """Each with file, line and column where it has a place."""
    status: Status | None = None
