"""What ``edge-infer ctl`` is answered."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from datetime import datetime
from typing import Literal

from edge_infer import __version__
from edge_infer.changeover.changeover import Changeover
from edge_infer.changeover.configurations import Configurations
from edge_infer.changeover.floor import Floor
from edge_infer.changeover.history import sha256_of
from edge_infer.ctl.protocol import (
    Answer,
    CameraNow,
    KeptConfiguration,
    LastOutcome,
    ModelNow,
    Request,
    RunningConfiguration,
    StationNow,
    Status,
)
from edge_infer.engines import Engines
from edge_infer.errors import ConfigError, EdgeInferError

WAIT_S = 0.2
"""How often somebody who waits for the start looks whether the service stops."""


class Desk:
    """Called by many threads. What is asked while the service starts waits until it has."""

    def __init__(
        self, floor: Floor, engines: Engines, *, since: datetime, stopping: Callable[[], bool]
    ) -> None:
        self._floor = floor
        self._engines = engines
        self._since = since
        self._stopping = stopping
        self._opened = threading.Event()
        self._changeover: Changeover | None = None
        self._configurations: Configurations | None = None

    def open(self, changeover: Changeover, configurations: Configurations) -> None:
        """The start is over."""
        self._changeover, self._configurations = changeover, configurations
        self._opened.set()

    def answer(self, request: Request, who: str) -> Answer:
        """Carries it out."""
        if request.do == "status":
            return Answer(code=0, message="", status=self.status())
        while not self._opened.wait(WAIT_S):
            if self._stopping():
                return Answer(code=1, message="the service stops; nothing was changed")
        if self._configurations is None:
            raise AssertionError("open without what is opened")
        return self._change(self._configurations, request, who)

    def _change(self, configurations: Configurations, request: Request, who: str) -> Answer:
        before = configurations.number
        try:
            if request.do == "reload":
                changed = configurations.reload(by=who, again=request.again)
            else:
                changed = configurations.rollback(
                    by=who, number=request.number, at_restart=request.at_restart
                )
        except ConfigError as error:
            mistakes = tuple(str(one) for one in error.mistakes)
            text = f"{len(mistakes)} mistake(s); nothing was changed"
            return Answer(code=78, message=text, number=configurations.number, mistakes=mistakes)
        except EdgeInferError as error:
            return Answer(code=error.exit_code, message=str(error), number=configurations.number)
        away, later = configurations.rolled_back, configurations.next_start
        if request.at_restart and later is not None:
            text = f"configuration {later} runs from the next start on: systemctl restart edge-infer"
            return Answer(code=0, message=text, number=configurations.number)
        same = not changed and configurations.number == before
        text = (
            f"configuration {configurations.number} runs{': nothing is another than before' if same else ''}"
        )
        if away is not None:
            text += "; the file on disk does NOT run until it is changed and reloaded"
        return Answer(code=0, message=text, number=configurations.number, changed=tuple(changed))

    def status(self) -> Status:
        """As of now."""
        changeover, configurations = self._changeover, self._configurations
        state: Literal["starting", "running", "stopping"] = "running" if changeover else "starting"
        if self._stopping():
            state = "stopping"
        plain = Status(
            version=__version__, pid=os.getpid(), state=state, since=self._since, configuration=None
        )
        if changeover is None or configurations is None:
            return plain
        last = configurations.last
        return plain.model_copy(
            update={
                "configuration": _running(changeover, configurations),
                "kept": tuple(_kept(configurations)),
                "stations": tuple(_stations(self._floor)),
                "cameras": tuple(
                    CameraNow(camera=name, state=one.state, text=one.text, since=one.since)
                    for name, one in list(self._floor.cameras.items())
                ),
                "models": tuple(_models(changeover, self._engines)),
                "last": LastOutcome(
                    what=last.what,
                    by=last.by,
                    at=last.at,
                    done=not last.mistakes,
                    changed=last.changed,
                    mistakes=last.mistakes,
                )
                if last is not None
                else None,
            }
        )


def _running(changeover: Changeover, configurations: Configurations) -> RunningConfiguration:
    site, entry, away = changeover.site, configurations.entry, configurations.rolled_back
    # not its networks: whoever asks each second must not slow the line down
    sha256 = sha256_of(site.path)
    file_is: Literal["running", "changed", "rolled back", "unreadable"] = "changed"
    if sha256 is None:
        file_is = "unreadable"
    elif away is not None and sha256 == away.sha256:
        file_is = "rolled back"
    elif sha256 == site.sha256:
        file_is = "running"
    return RunningConfiguration(
        file=str(site.path),
        number=changeover.number,
        sha256=site.sha256,
        loaded_at=entry.loaded_at if entry is not None else None,
        by=entry.by if entry is not None else None,
        next_start=configurations.next_start,
        rolled_back=configurations.left,
        file_is=file_is,
    )


def _kept(configurations: Configurations) -> list[KeptConfiguration]:
    return [
        KeptConfiguration(
            number=one.number,
            sha256=one.sha256,
            loaded_at=one.loaded_at,
            by=one.by,
            owner=one.owner,
            models={name: files.network for name, files in one.contents.models.items()},
        )
        for one in configurations.history.entries()
    ]


def _stations(floor: Floor) -> list[StationNow]:
    found = []
    for name, station in list(floor.stations.items()):
        setup, unusable = station.setup, station.unusable
        camera = floor.cameras.get(station.camera)
        blind = camera.blinds if camera is not None else None
        recipe = setup.identity.external_recipe
        found.append(
            StationNow(
                station=name,
                camera=station.camera,
                model=setup.settings.model,
                recipe=recipe.id if recipe is not None else None,
                recipe_hash=setup.identity.recipe.hash,
                trouble=unusable.text if unusable is not None else blind,
            )
        )
    return found


def _models(changeover: Changeover, engines: Engines) -> list[ModelNow]:
    site, now = changeover.site, engines.now
    found = []
    for name in site.used_models:
        engine, failure = now.get(name), now.failure(name)
        found.append(
            ModelNow(
                model=name,
                identity=engine.network.identity if engine is not None else None,
                backend=site.models[name].backend.type,
                device=engine.network.device if engine is not None else None,
                trouble=failure.text if failure is not None else None,
            )
        )
    return found
