"""The networks of a site, opened once: those that stations judge with at once, and those of their recipes."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

from edge_infer.config.site import Site
from edge_infer.engine import Engine
from edge_infer.errors import EdgeInferError
from edge_infer.golden import verify
from edge_infer.model.load import load_model
from edge_infer.network import Network
from edge_infer.progress import Loop
from edge_infer.station.inspection import Unusable

log = logging.getLogger(__name__)


class Engines:
    """By model. One that cannot run is the trouble of those stations and recipes only that name it."""

    def __init__(self) -> None:
        self._engines: dict[str, Engine] = {}
        self._failures: dict[str, Unusable] = {}

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
            failure = self._open(name, site)
            if failure is not None:
                log.error("model %s cannot run: %s", name, failure.text)
                event("model_failed", {"model": name, "code": failure.code, "error": failure.text})
                self._failures[name] = failure
        return True

    def _open(self, name: str, site: Site) -> Unusable | None:
        """Why the model cannot run, None where it does."""
        use, card = site.models[name], site.cards.get(name)
        try:
            network = Network.open(card or load_model(use.path), use.backend)
        except EdgeInferError as error:
            return Unusable("backend_failed", str(error))
        for warning in network.card.warnings:
            log.warning("model %s: %s", name, warning)
        log.info(
            "model %s runs on %s %s in %s",
            name, network.backend_name, network.device.running, network.precision,
        )  # fmt: skip
        if network.card.golden:
            report = verify(network)
            if report.problems:
                network.close()
                return Unusable("golden_failed", f"golden pictures: {report}")
            log.info("model %s: %s", name, report)
        self._engines[name] = Engine(name, network)
        return None

    def get(self, model: str) -> Engine | None:
        """None where the model cannot run."""
        return self._engines.get(model)

    def failure(self, model: str) -> Unusable | None:
        """Why the model cannot run."""
        return self._failures.get(model)

    @property
    def known(self) -> frozenset[str]:
        """The models that were opened, well or not."""
        return frozenset(self._engines) | frozenset(self._failures)

    @property
    def failed(self) -> int:
        """How many cannot run."""
        return len(self._failures)

    @property
    def loops(self) -> list[Loop]:
        """Of all engines."""
        return [loop for engine in list(self._engines.values()) for loop in engine.loops]

    @property
    def bugs(self) -> list[Exception | None]:
        """What ended a thread that should run for ever; None for each that does."""
        return [engine.failure for engine in list(self._engines.values())]

    def start(self) -> None:
        """Begin to take work."""
        for engine in self._engines.values():
            engine.start()

    def stop(self, timeout_s: float) -> list[str]:
        """End after what is in hand; the models whose runtime did not come back in time."""
        end_s = time.monotonic() + timeout_s
        # a model may still be loading: it is not among them
        engines = list(self._engines.items())
        return [name for name, engine in engines if not engine.stop(max(0.0, end_s - time.monotonic()))]
