"""The networks of a site: those that stations judge with at once, and those of their recipes."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from edge_infer.backends import BackendSettings, Profile
from edge_infer.backends.blobs import Blobs
from edge_infer.config.contents import ModelFiles, files_of
from edge_infer.config.site import Site
from edge_infer.engine import Engine
from edge_infer.errors import ConfigError, EdgeInferError
from edge_infer.golden import verify
from edge_infer.model.load import load_model
from edge_infer.network import Network
from edge_infer.progress import Loop
from edge_infer.station.inspection import Unusable

log = logging.getLogger(__name__)

LOOK_S = 0.05
"""How often it is looked whether an old network has nothing left to do."""
LET_GO_S = 10.0
"""An old network that does not come back for so long is told."""


@dataclass(frozen=True, slots=True)
class MadeOf:
    """What an engine was made of: where it is the same, the engine is."""

    backend: BackendSettings
    files: ModelFiles | None
    """None where its network could not be used."""


@dataclass(frozen=True, slots=True, eq=False)
class Loaded:
    """A site's models, each opened or known not to run."""

    engines: Mapping[str, Engine] = field(default_factory=dict)
    failures: Mapping[str, Unusable] = field(default_factory=dict)
    """Why the model cannot run."""
    made_of: Mapping[str, MadeOf] = field(default_factory=dict)

    def get(self, model: str) -> Engine | None:
        """None where the model cannot run."""
        return self.engines.get(model)

    def failure(self, model: str) -> Unusable | None:
        """Why the model cannot run."""
        return self.failures.get(model)

    def with_(self, name: str, opened: Engine | Unusable, made_of: MadeOf) -> Loaded:
        """And this one."""
        engines, failures = dict(self.engines), dict(self.failures)
        if isinstance(opened, Engine):
            engines[name] = opened
        else:
            failures[name] = opened
        return Loaded(engines, failures, {**self.made_of, name: made_of})


class Engines:
    """By model. One that cannot run is the trouble of those stations and recipes only that name it."""

    def __init__(self, blobs: Blobs | None = None) -> None:
        """``blobs``: where compiled networks are kept for the next start."""
        self._blobs = blobs
        # replaced whole, never changed: other threads look at it
        self._now = Loaded()
        self._leaving: tuple[tuple[str, Engine], ...] = ()
        """Old ones that still have something in hand."""
        self._lock = threading.Lock()
        self._stopping = threading.Event()

    def open(
        self,
        site: Site,
        loading: Callable[[str], None],
        event: Callable[[str, Mapping[str, Any]], None],
        stopping: Callable[[], bool],
    ) -> bool:
        """Load, compile and verify each model that is used, which takes seconds; False: asked to stop.

        ``loading`` is told of each before it is loaded.
        """
        for name in site.used_models:
            if stopping():
                return False
            loading(name)
            opened = _open(name, site, self._blobs)
            if isinstance(opened, Unusable):
                log.error("model %s cannot run: %s", name, opened.text)
                event("model_failed", {"model": name, "code": opened.code, "error": opened.text})
            self._now = self._now.with_(name, opened, _made_of(name, site))
        return True

    def prepare(self, site: Site, loading: Callable[[], None], stopping: Callable[[], bool]) -> Loaded:
        """What another site needs: models that are the same are those that run, the others are loaded,
        compiled and verified beside them. Nothing that runs is touched. ``loading`` is called before each.

        ConfigError with every model that cannot run and is not just as before, EdgeInferError where asked to
        stop: then what was loaded is closed again.
        """
        now, ready, mistakes = self._now, Loaded(), []
        try:
            for name in site.used_models:
                made_of = _made_of(name, site)
                same, running = now.made_of.get(name) == made_of, now.get(name)
                if same and running is not None:
                    ready = ready.with_(name, running, made_of)
                    continue
                if stopping():
                    raise EdgeInferError("the service stops; nothing was changed")
                loading()
                opened = _open(name, site, self._blobs)
                if isinstance(opened, Unusable) and not same:
                    mistakes.append(site.document.mistake(("models", name), opened.text))
                ready = ready.with_(name, opened, made_of)
            if mistakes:
                raise ConfigError(mistakes)
        except BaseException:
            self.discard(ready)
            raise
        return ready

    def discard(self, prepared: Loaded) -> None:
        """Close what was prepared and is not wanted."""
        running = self._now.engines.values()
        for engine in prepared.engines.values():
            if engine not in running:
                engine.stop(1.0)

    def adopt(self, prepared: Loaded, in_use: Callable[[Engine], bool]) -> None:
        """From now on these are the site's; the others end once nobody says that they are in use."""
        with self._lock:
            before, self._now = self._now, prepared
            old = [
                (name, one) for name, one in before.engines.items() if one not in prepared.engines.values()
            ]
            self._leaving = (*self._leaving, *old)
        for engine in prepared.engines.values():
            if engine not in before.engines.values():
                engine.start()
        if old:
            threading.Thread(
                target=self._let_go, args=(old, in_use), name="engines-let-go", daemon=True
            ).start()

    def _let_go(self, old: list[tuple[str, Engine]], in_use: Callable[[Engine], bool]) -> None:
        for name, engine in old:
            while in_use(engine):
                if self._stopping.wait(LOOK_S):
                    return
            while not engine.stop(LET_GO_S):
                if self._stopping.is_set():
                    return
                log.error("model %s: the network that was replaced does not come back", name)
            with self._lock:
                self._leaving = tuple(one for one in self._leaving if one[1] is not engine)
            log.info("model %s: the network that was replaced is closed", name)

    @property
    def now(self) -> Loaded:
        """Those of the site that runs."""
        return self._now

    def get(self, model: str) -> Engine | None:
        """None where the model cannot run."""
        return self._now.get(model)

    def failure(self, model: str) -> Unusable | None:
        """Why the model cannot run."""
        return self._now.failure(model)

    @property
    def known(self) -> frozenset[str]:
        """The models that were opened, well or not."""
        return frozenset(self._now.made_of)

    @property
    def failed(self) -> int:
        """How many cannot run."""
        return len(self._now.failures)

    @property
    def loops(self) -> list[Loop]:
        """Of all engines."""
        return [loop for _, engine in self._all() for loop in engine.loops]

    @property
    def bugs(self) -> list[Exception | None]:
        """What ended a thread that should run for ever; None for each that does."""
        return [engine.failure for _, engine in self._all()]

    def start(self) -> None:
        """Begin to take work."""
        for engine in self._now.engines.values():
            engine.start()

    def stop(self, timeout_s: float) -> list[str]:
        """End after what is in hand; the models whose runtime did not come back in time."""
        end_s = time.monotonic() + timeout_s
        self._stopping.set()
        # a model may still be loading: it is not among them
        return [name for name, one in self._all() if not one.stop(max(0.0, end_s - time.monotonic()))]

    def _all(self) -> list[tuple[str, Engine]]:
        with self._lock:
            return [*self._now.engines.items(), *self._leaving]


def _made_of(name: str, site: Site) -> MadeOf:
    return MadeOf(backend_settings(site, name), site.contents.models.get(name))


def backend_settings(site: Site, model: str) -> BackendSettings:
    """What the model's network is opened with: what the site says, and what its stations make of it."""
    alone = len(site.used_models) == 1
    return site.models[model].backend.in_profile(profile(site, model), alone=alone)


def _open(name: str, site: Site, blobs: Blobs | None) -> Engine | Unusable:
    """Load, compile, verify; why the model cannot run, where it cannot."""
    card, backend = site.cards.get(name), backend_settings(site, name)
    try:
        network = Network.open(card or load_model(site.models[name].path), backend, blobs)
    except EdgeInferError as error:
        return Unusable("backend_failed", str(error))
    except MemoryError:
        return Unusable("backend_failed", "there is not enough memory to load it")
    trouble = _judges_wrong(name, network) or _replaced(name, site)
    if trouble is not None:
        network.close()
        return trouble
    return Engine(name, network)


def _judges_wrong(name: str, network: Network) -> Unusable | None:
    for warning in network.card.warnings:
        log.warning("model %s: %s", name, warning)
    log.info(
        "model %s runs on %s %s in %s, for %s with %d request(s)",
        name, network.backend_name, network.device.running, network.precision,
        network.profile, network.requests,
    )  # fmt: skip
    if network.card.golden:
        report = verify(network)
        if report.problems:
            return Unusable("golden_failed", f"golden pictures: {report}")
        log.info("model %s: %s", name, report)
    return None


def _replaced(name: str, site: Site) -> Unusable | None:
    """Results would name files that are not those that were loaded."""
    try:
        # none are known where they could not be read a moment ago
        if files_of(load_model(site.models[name].path)) == site.contents.models.get(name):
            return None
    except EdgeInferError:
        # half copied
        pass
    return Unusable(
        "backend_failed", "its files were replaced while they were read; reload once all are there"
    )


def profile(site: Site, model: str) -> Profile:
    """How the model is compiled where its settings do not say: for the stations that judge with it.

    Throughput costs each frame twice the time and more, so it is for those that wait for the next free
    request anyway: recordings, and several stations that judge frame after frame.
    """
    streaming = set()
    for name, station in site.stations.items():
        for settings in (station, *(each[name] for each in site.recipes.values() if name in each)):
            if settings.model != model:
                continue
            if site.cameras[settings.camera].recorded:
                return "throughput"
            if not settings.trigger.triggered:
                streaming.add(name)
    return "throughput" if len(streaming) > 1 else "latency"
