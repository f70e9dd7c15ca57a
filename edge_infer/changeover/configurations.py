"""Another configuration for the running service: the operator's file once more, or an earlier version."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal

from edge_infer import clock
from edge_infer.changeover import difference
from edge_infer.changeover.changeover import Changeover, Event, short
from edge_infer.changeover.history import Entry, History, RolledBack, as_it_is, owner_of
from edge_infer.config.site import Site, load_site
from edge_infer.engines import Engines, Loaded
from edge_infer.errors import ConfigError, EdgeInferError
from edge_infer.messages.info import LeftConfiguration
from edge_infer.progress import NEVER, Loop
from edge_infer.settings import Secrets

log = logging.getLogger(__name__)

LOADING_S = 120.0
"""A model that is loaded and compiled for longer is told; what runs goes on."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a reload or of going back."""

    what: Literal["reload", "rollback"]
    by: str
    at: datetime
    changed: tuple[str, ...] = ()
    """Keys and files; none: all was as it runs already."""
    mistakes: tuple[str, ...] = ()
    """Why nothing changed."""
    wrong: bool = False
    """The configuration is wrong; else something else stands against it."""


class Configurations:
    """One change at a time: who comes second waits and reads the file after the first one is done."""

    def __init__(
        self,
        site: Site,
        state_dir: Path,
        engines: Engines,
        event: Event,
        *,
        secrets: Secrets,
        stopping: Callable[[], bool],
    ) -> None:
        """Notes that the site runs; where the disk takes nothing it runs all the same."""
        self.history = History(state_dir)
        self._engines = engines
        self._event = event
        self._secrets = secrets
        self._stopping = stopping
        self._changeover: Changeover | None = None
        self._one_at_a_time = threading.Lock()
        self.loop = Loop("reload of the configuration", limit_s=LOADING_S, patience_s=NEVER)
        self.last: Outcome | None = None
        """The newest outcome since the start."""
        self.entry: Entry | None = None
        """About the configuration that runs; None where it could not be kept."""
        self.rolled_back: RolledBack | None = None
        """The operator's file does not run."""
        self.next_start: int | None = None
        """Which configuration somebody wants back that needs a restart."""
        try:
            self._note_start(site)
        except EdgeInferError as error:
            log.warning("there is no way back to this configuration: %s", error)

    def _note_start(self, site: Site) -> None:
        state = self.history.state()
        # without the state's file the newest one is the best guess
        before = state.running if state is not None else self.history.next_number - 1 or None
        running = self.history.entry(before) if before is not None else None
        away = state.rolled_back if state is not None else None
        if site.is_stored:
            self.rolled_back = away
        if running is not None and running.fingerprint == site.fingerprint:
            self.entry = running
            # also where its file cannot be read: it would be told at each start for ever
            if state is None or (away is not None and not site.is_stored):
                self.history.runs(running.number)
        else:
            self.entry = self.history.add(site, before=before, by=None, rolled_back=self.rolled_back)

    def run(self, changeover: Changeover) -> None:
        """From now on there is something to change."""
        self._changeover = changeover

    @property
    def _changes(self) -> Changeover:
        if self._changeover is None:
            raise EdgeInferError("the service is starting", hint="try again in a moment")
        return self._changeover

    @property
    def number(self) -> int | None:
        """Of the configuration that runs."""
        return self.entry.number if self.entry is not None else None

    def reload(self, *, by: str, again: bool = False) -> Sequence[str]:
        """Read the operator's file and run it; the keys and files that changed.

        ``again``: also a file that was rolled back from. ConfigError where it is wrong, EdgeInferError where
        it needs a restart or was rolled back from; then nothing changed.
        """
        return self._guarded("reload", by, lambda: self._reload(short(by), again=again))

    def rollback(self, *, by: str, number: int | None = None, at_restart: bool = False) -> Sequence[str]:
        """Run the configuration that ran before this one, or that number; until the operator's file changes.

        EdgeInferError where there is none, or files that it names are not what they were. ``at_restart``: not
        now, but from the next start on: for what cannot change while the service runs.
        """
        return self._guarded("rollback", by, lambda: self._rollback(short(by), number, at_restart=at_restart))

    def loaded(self, changed: Sequence[str] = (), *, by: str | None = None) -> None:
        """Tell that the configuration runs."""
        site, left = self._changes.site, self.left
        self._event(
            "configuration_loaded",
            {
                "file": site.path.name,
                "number": self.number,
                "sha256": site.sha256,
                "owner": self.entry.owner if self.entry is not None else owner_of(site.path),
                "at": clock.now().isoformat(),
                "changed": list(changed),
                "by": by,
                "rolledBack": left.model_dump(mode="json", by_alias=True) if left is not None else None,
            },
        )

    @property
    def left(self) -> LeftConfiguration | None:
        """What was rolled back from, as it is told."""
        away = self.rolled_back
        if away is None:
            return None
        return LeftConfiguration(number=away.number, sha256=away.sha256, at=away.at, by=away.by)

    # -- one at a time

    def _guarded(
        self,
        what: Literal["reload", "rollback"],
        by: str,
        work: Callable[[], Sequence[str] | None],
    ) -> Sequence[str]:
        with self._one_at_a_time:
            path = self._changes.site.path
            self.loop.passed()
            try:
                changed = work()
            except EdgeInferError as error:
                wrong = isinstance(error, ConfigError)
                told = error.mistakes if isinstance(error, ConfigError) else (error,)
                mistakes = [str(one) for one in told]
                log.error("%s refused, nothing changed: %s", what, error)
                self.last = Outcome(what, short(by), clock.now(), (), tuple(mistakes), wrong)
                self._event(
                    "configuration_refused",
                    {"file": path.name, "mistakes": mistakes, "by": short(by)},
                )
                raise
            finally:
                self.loop.rest()
            self.last = Outcome(what, short(by), clock.now(), tuple(changed or ()))
            if changed is not None:
                self.loaded(changed, by=short(by))
            return changed or ()

    def _reload(self, by: str, *, again: bool) -> Sequence[str]:
        path = self._changes.site.path
        site = load_site(path)
        away = self.rolled_back
        if (
            away is not None
            and not again
            and (site.sha256, site.fingerprint) == (away.sha256, away.fingerprint)
        ):
            raise EdgeInferError(
                f"{path} is what {away.by} rolled back from at {away.at.isoformat(timespec='seconds')}; "
                f"configuration {self.number} goes on",
                hint="change the file and reload, or run it as it is: edge-infer ctl reload --again",
            )
        same = self.entry is not None and self.entry.fingerprint == site.fingerprint
        return self._apply(site, by, self.entry if same else None, None)

    def _rollback(self, by: str, number: int | None, *, at_restart: bool) -> Sequence[str] | None:
        path = self._changes.site.path
        entry = self._earlier(number)
        if Path(entry.file).absolute() != path.absolute():
            raise EdgeInferError(f"configuration {entry.number} was another file: {entry.file}")
        site = load_site(path, stored=self.history.stored(entry))
        if others := entry.contents.other_files(site.contents):
            raise EdgeInferError(
                f"configuration {entry.number} cannot come back: other files lie there now than when it ran: "
                f"{', '.join(others)}",
                hint="put them back (edge-infer ctl status --json shows their hashes), then try again",
            )
        sha256, fingerprint = as_it_is(path)
        away = RolledBack(
            number=self.number or 0, sha256=sha256, fingerprint=fingerprint, at=clock.now(), by=by
        )
        # where the operator put the old file back already, it is simply that file that runs
        pin = None if fingerprint == site.fingerprint else away
        if not at_restart:
            return self._apply(site, by, entry, pin)
        site.require_secrets(self._secrets)
        self.history.runs(entry.number, pin)
        self.next_start = entry.number
        log.warning("configuration %d runs from the next start on, asked by %s", entry.number, by)
        return None

    def _earlier(self, number: int | None) -> Entry:
        if number is None:
            number = self.entry.before if self.entry is not None else None
            if number is None:
                raise EdgeInferError("there is no earlier configuration: nothing to go back to")
        elif number == self.number:
            raise EdgeInferError(f"configuration {number} runs already")
        entry = self.history.entry(number)
        if entry is None:
            kept = ", ".join(str(one.number) for one in self.history.entries())
            raise EdgeInferError(f"configuration {number} is not kept", hint=f"kept are {kept or 'none'}")
        return entry

    def _apply(
        self,
        site: Site,
        by: str,
        entry: Entry | None,
        rolled_back: RolledBack | None,
    ) -> Sequence[str]:
        """``entry``: about the site, where it ran before."""
        running = self._changes.site
        if restart := difference.needs_restart(running, site):
            raise EdgeInferError(
                f"{site.path}: what changed needs a restart: {', '.join(restart)}",
                hint="take these changes back and reload, or restart the service"
                if entry is None
                else f"edge-infer ctl rollback --at-restart {entry.number}, then restart the service",
            )
        site.require_secrets(self._secrets)
        changed = difference.changes(running, site)
        loaded = self._engines.prepare(site, self.loop.passed, self._stopping)
        self.loop.passed()
        changed += _opened_anew(self._engines.now, loaded, changed)
        number = entry.number if entry is not None else self.history.next_number
        before, stored = self.number, entry

        def store() -> None:
            nonlocal stored
            if stored is None:
                stored = self.history.add(site, before=before, by=by, rolled_back=rolled_back)
            elif stored != self.entry or rolled_back != self.rolled_back:
                self.history.runs(stored.number, rolled_back)
            else:
                return
            self.next_start = None

        try:
            changed += self._changes.swap(site, loaded, number, store)
        except BaseException:
            self._engines.discard(loaded)
            raise
        was, self.entry, self.rolled_back = self.rolled_back, stored, rolled_back
        self._log(site, by, changed, was)
        return changed

    def _log(self, site: Site, by: str, changed: Sequence[str], was: RolledBack | None) -> None:
        words = ", ".join(changed) or "nothing"
        away = self.rolled_back
        if away is not None:
            log.warning(
                "configuration %s runs again, asked by %s; %s does NOT run until it is changed and reloaded; "
                "changed: %s",
                self.number, by, site.path, words,
            )  # fmt: skip
            return
        text = "%s is loaded again as configuration %s, asked by %s; changed: %s"
        log.info(text, site.path, self.number, by, words)
        if was is not None:
            log.info("%s runs again; it was rolled back from at %s", site.path, was.at.isoformat())


def _opened_anew(now: Loaded, loaded: Loaded, changed: Sequence[str]) -> Iterator[str]:
    """Models that are others though no key or file of theirs changed."""
    told = {tuple(key.split(".")[:2]) for key in changed}
    for name, engine in loaded.engines.items():
        if ("models", name) in told:
            continue
        if now.failure(name) is not None:
            yield f"models.{name}"
        elif (running := now.get(name)) is not None and running is not engine:
            # other stations judge with it, or other models are used beside it: see `engines.backend_settings`
            same = running.network.profile == engine.network.profile
            yield f"models.{name}.{'backend' if same else 'profile'}"
