"""Changes what a running station judges by: stored first, then swapped between two inspections, then told."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from edge_infer.changeover.choices import Choice, Choices, ChoicesFile
from edge_infer.changeover.setups import (
    Threshold,
    check_threshold,
    recipes_of,
    settings_in_force,
    setup_of,
    without_effect,
)
from edge_infer.config.site import Site
from edge_infer.engine import Engine
from edge_infer.engines import Engines, Loaded
from edge_infer.errors import EdgeInferError
from edge_infer.frame import Frame
from edge_infer.station.inspection import Unusable
from edge_infer.station.setup import Setup
from edge_infer.station.station import Station
from edge_infer.yamlfile import did_you_mean, tree

log = logging.getLogger(__name__)

LONGEST_BY = 100
"""Characters of who asked, in logs and events."""


class Event(Protocol):
    """Tells that something happened."""

    def __call__(self, kind: str, data: Mapping[str, Any], station: str | None = None) -> None:
        """Hands over at once."""


class Floor(Protocol):
    """The stations that run."""

    @property
    def stations(self) -> Mapping[str, Station]:
        """By name."""

    def change(self, before: Site, after: Site, setups: Mapping[str, Setup]) -> None:
        """Stations, cameras and all that hangs on them are what ``after`` says. Fails only by a bug."""

    def uses(self, engine: Engine) -> bool:
        """Whether a station still has something for it."""


class Changeover:
    """What the running stations judge by. One change at a time; threads that judge are never waited for."""

    def __init__(
        self,
        site: Site,
        engines: Engines,
        state_dir: Path,
        event: Event,
        *,
        boot_id: str,
        floor: Floor,
        number: int | None = None,
    ) -> None:
        """Reads what was chosen before; nothing is changed yet. ``number``: of the configuration."""
        self._site = site
        self._number = number
        self._engines = engines
        self._event = event
        self._boot_id = boot_id
        self._state_dir = state_dir
        self._floor = floor
        self._file = ChoicesFile(state_dir)
        self._closed = False
        self.failure: Exception | None = None
        """A bug that left a change half done: the service must be started again."""
        # what runs and what is stored change together
        self._lock = threading.Lock()
        self._choices: Choices = self._load()

    @property
    def site(self) -> Site:
        """That runs now."""
        return self._site

    @property
    def number(self) -> int | None:
        """Of the configuration that runs now; None where it could not be kept."""
        return self._number

    def setup(self, station: str) -> Setup:
        """What the station starts with."""
        choice = self._choice(station)
        setup = self._setup_of(self._site, self._engines.now, station, choice, self._number)
        if choice != Choice():
            log.info("station %s: %s, as chosen before", station, _told(choice))
        if setup.failed is not None:
            log.error("station %s judges nothing: %s", station, setup.failed.text)
        return setup

    def close(self, timeout_s: float) -> bool:
        """Nothing changes any more; False where a change does not come to its end in time."""
        if not self._lock.acquire(timeout=timeout_s):
            return False
        self._closed = True
        self._lock.release()
        return True

    # -- as `remote.Control`

    def select_recipe(self, station: str, recipe: str | None, *, by: str) -> None:
        """See `Control`."""
        with self._lock:
            self._running(station)
            known = recipes_of(self._site, station)
            if recipe is not None and recipe not in known:
                raise EdgeInferError(
                    f"the station {station} has no recipe {short(recipe)}{did_you_mean(recipe, known)}"
                )
            before = self._choice(station)
            choice = Choice(recipe=recipe)
            setup = self._setup_now(station, choice)
            if recipe is not None and setup.failed is not None:
                raise EdgeInferError(f"the recipe {recipe} is not available: {setup.failed.text}")
            self._change(station, choice, setup)
            log.info("station %s: %s; asked by %s", station, _told(choice), short(by))
            self._event(
                "recipe_selected", {"recipe": recipe, "before": before.recipe, "by": short(by)}, station
            )

    def set_threshold(self, station: str, rule: str | None, value: float, *, by: str) -> None:
        """See `Control`."""
        with self._lock:
            self._running(station)
            choice = self._choice(station)
            settings = settings_in_force(self._site, station, choice)
            if isinstance(settings, Unusable):
                raise EdgeInferError(f"the station {station} judges nothing: {settings.text}")
            before = check_threshold(self._site, settings, rule, value)
            changed = choice.with_threshold(rule, value)
            self._change(station, changed, self._setup_now(station, changed))
            log.info(
                "station %s: %s is %g; asked by %s",
                station, f"min_score of {rule}" if rule else "anomaly_threshold", value, short(by),
            )  # fmt: skip
            data = {"rule": rule, "value": value, "before": before, "by": short(by)}
            self._event("threshold_changed", data, station)

    def newest_frame(self, station: str) -> Frame | None:
        """See `Control`."""
        return self._running(station).newest_frame

    # -- another configuration

    def swap(
        self, site: Site, loaded: Loaded, number: int | None, store: Callable[[], None]
    ) -> Sequence[str]:
        """Run another site with its models, loaded beside those that run; what changed beside its settings.

        ``store`` is called when nothing can go wrong any more but the disk: what it raises changes nothing.
        """
        with self._lock:
            if self._closed:
                raise EdgeInferError("the service stops; nothing was changed")
            choices, dropped = _still_of_effect(site, self._choices)
            # all of it is made before any of it runs
            setups = {
                name: self._setup_of(site, loaded, name, choices.get(name, Choice()), number)
                for name in site.stations
            }
            references = [
                f"stations.{name}.reference"
                for name, station in self._floor.stations.items()
                if name in setups and setups[name].reference != station.setup.reference
            ]
            if dropped:
                self._file.store(choices)
            try:
                store()
            except EdgeInferError:
                if dropped:
                    self._file.store(self._choices)
                raise
            before, self._site, self._choices, self._number = self._site, site, choices, number
            try:
                self._engines.adopt(loaded, self._floor.uses)
                kept = {
                    name: _remembering(station, setups[name])
                    for name, station in self._floor.stations.items()
                    if name in setups
                }
                self._floor.change(before, site, setups | kept)
            except Exception as error:
                # half of it must not go on: the next start does all of it
                self.failure = error
                raise
        for name, setup in setups.items():
            if setup.failed is not None:
                log.error("station %s judges nothing: %s", name, setup.failed.text)
        self._tell_dropped(dropped)
        return references

    # -- inside the lock

    def _change(self, station: str, choice: Choice, setup: Setup) -> None:
        if self._closed:
            raise EdgeInferError("the service stops; nothing was changed")
        choices = {**self._choices, station: choice}
        self._file.store(choices)
        self._choices = choices
        self._floor.stations[station].configure(setup)

    def _load(self) -> Choices:
        choices, aside = self._file.load()
        if aside is not None:
            log.error("%s cannot be read (%s); set aside as %s", self._file.path, aside.why, aside.path.name)
            self._event("choices_damaged", {"setAside": aside.path.name, "why": aside.why})
            # a station with recipes must not guess which one the line runs
            choices = {
                name: Choice(unknown=True) for name in self._site.stations if recipes_of(self._site, name)
            }
        choices, dropped = _still_of_effect(self._site, choices)
        if aside is not None or dropped:
            try:
                self._file.store(choices)
            except EdgeInferError as error:
                log.warning("after the next start this is told again: %s", error)
        self._tell_dropped(dropped)
        return choices

    def _tell_dropped(self, dropped: Mapping[str, Sequence[Threshold]]) -> None:
        for station, thresholds in dropped.items():
            for one in thresholds:
                what = f"min_score of {one.rule}" if one.rule else "anomaly_threshold"
                log.warning(
                    "station %s: %s was set to %g; the configuration does not have it any more",
                    station, what, one.value,
                )  # fmt: skip
                self._event("threshold_dropped", {"rule": one.rule, "value": one.value}, station)

    def _setup_now(self, station: str, choice: Choice) -> Setup:
        return self._setup_of(self._site, self._engines.now, station, choice, self._number)

    def _setup_of(
        self, site: Site, loaded: Loaded, station: str, choice: Choice, number: int | None
    ) -> Setup:
        return setup_of(
            site, loaded, station, choice, number=number, boot_id=self._boot_id, state_dir=self._state_dir
        )

    def _choice(self, station: str) -> Choice:
        return self._choices.get(station, Choice())

    def _running(self, station: str) -> Station:
        if station not in self._site.stations:
            raise EdgeInferError(
                f"there is no station {short(station)}{did_you_mean(station, self._site.stations)}"
            )
        running = self._floor.stations.get(station)
        if running is None:
            raise EdgeInferError(f"the station {station} does not run yet", hint="try again in a moment")
        return running


def _still_of_effect(site: Site, choices: Choices) -> tuple[Choices, dict[str, Sequence[Threshold]]]:
    """Without the thresholds that the configuration has no place for any more; and those."""
    kept, dropped = dict(choices), {}
    for station, choice in choices.items():
        if station in site.stations and (gone := without_effect(site, station, choice)):
            dropped[station] = gone
            kept[station] = choice.without([one.rule for one in gone])
    return kept, dropped


def _remembering(station: Station, setup: Setup) -> Setup:
    """With the memory in use where the station judges as before."""
    before = station.setup
    same = (
        setup.settings == before.settings
        and setup.engine is before.engine
        and setup.failed == before.failed
        and setup.reference == before.reference
        and setup.lens == before.lens
        and setup.identity.external_recipe == before.identity.external_recipe
    )
    return before.told_as(setup.identity) if same else setup


def _told(choice: Choice) -> str:
    if choice.unknown:
        return "nobody knows which recipe was selected"
    runs = f"recipe {choice.recipe}" if choice.recipe is not None else "the settings under stations:"
    thresholds = [f"min_score of {rule}: {value:g}" for rule, value in choice.min_scores.items()]
    if choice.anomaly_threshold is not None:
        thresholds.append(f"anomaly_threshold: {choice.anomaly_threshold:g}")
    return ", ".join([runs, *thresholds])


def short(text: str) -> str:
    """Text from outside, fit for a log."""
    return tree.one_line(text)[:LONGEST_BY]
