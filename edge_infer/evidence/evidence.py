"""Pictures of results: chosen, encoded, named in the result, and stored, while nobody waits for the disk."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from edge_infer.drawing import caption
from edge_infer.evidence.folder import Folder, day_of, name_of
from edge_infer.evidence.health import Alarm, Health
from edge_infer.evidence.keeping import Keeping
from edge_infer.evidence.pictures import Encoded, Scene, encode_all
from edge_infer.evidence.records import HOLD_S, Held, Records
from edge_infer.evidence.settings import EvidenceSettings
from edge_infer.evidence.writer import Named, Writer
from edge_infer.progress import NEVER, Loop
from edge_infer.result import Result

log = logging.getLogger(__name__)

FRAMES = 4
"""Frames that may wait to be encoded, of all stations together; beyond them results go without pictures."""
HANG_S = 30.0
"""Told where one result's pictures take longer; results go on without them."""
ENCODE_S = 0.2
"""Of a stop: for the frames that wait."""

Publish = Callable[[Result, Encoded], None]
"""Sends a picture to the broker; must not wait for it."""


@dataclass(frozen=True, slots=True, eq=False)
class _Job:
    held: Held
    scene: Scene


class Evidence:
    """Thread-safe. `offer` hands over at once; a station's results come out in order."""

    def __init__(
        self,
        settings: EvidenceSettings,
        folder: Path,
        *,
        record: Callable[[Result], None],
        alarm: Alarm,
        publish: Publish,
    ) -> None:
        """``record`` takes each result exactly once, with its pictures named in it; it must not wait."""
        self._settings = settings
        self._folder = Folder(folder)
        self._publish = publish
        self._health = Health(alarm)
        self._records = Records(record)
        self._writer = Writer(self._folder, settings, self._health, alarm)
        self._keeping: dict[str, Keeping] = {}
        self._jobs: deque[_Job] = deque()
        self._changed = threading.Condition()
        self._closing = False
        self._loop = Loop("making of pictures", limit_s=HANG_S, patience_s=NEVER)
        self._told: set[str] = set()
        """Why pictures were given up, each reason once."""
        self._thread = threading.Thread(target=self._run, name="evidence-encoder", daemon=True)
        self._writer.start()
        self._thread.start()

    @property
    def stored(self) -> int:
        """Results whose pictures are on disk."""
        return self._writer.stored

    @property
    def loops(self) -> tuple[Loop, ...]:
        """The check-points of its threads."""
        return self._loop, self._records.loop, self._writer.loop

    @property
    def dropped(self) -> int:
        """Results that go without the pictures that they should have."""
        return self._health.dropped

    @property
    def size_bytes(self) -> int:
        """Pictures on disk, as far as counted."""
        return self._writer.size_bytes

    @property
    def storing(self) -> bool:
        """The disk takes pictures."""
        return self._health.well

    def configure(self, settings: EvidenceSettings) -> None:
        """From now on; how old pictures may become stays."""
        with self._changed:
            self._settings = settings
            self._keeping.clear()
            self._writer.configure(settings)

    def offer(self, result: Result, scene: Scene | None) -> None:
        """A result for the outbox, and what its pictures are made of; None where no frame was seen."""
        with self._changed:
            if scene is not None and self._wants(result):
                if len(self._jobs) < FRAMES and self._health.well and not self._closing:
                    self._jobs.append(_Job(self._records.hold(result), scene))
                    self._changed.notify()
                    return
                self._drop("pictures come faster than they can be encoded" if self._health.well else None)
        # a station's results come one after the other: nothing gets between them here
        self._records.pass_on(result)

    def close(self, timeout_s: float) -> None:
        """All results are out, what the disk takes in that time is stored, the rest told to be lost."""
        end_s = time.monotonic() + timeout_s
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(min(ENCODE_S, timeout_s))
        self._records.close()
        self._writer.close(max(0.0, end_s - time.monotonic()))
        if self.stored or self.dropped:
            log.info("pictures: %d result(s) with, %d without that should have", self.stored, self.dropped)

    def _wants(self, result: Result) -> bool:
        keeping = self._keeping.setdefault(result.station, Keeping(self._settings))
        return keeping.wants(result, time.monotonic())

    def _drop(self, why: str | None) -> None:
        """``why`` is logged once; None where something else tells it."""
        self._health.drop()
        if why is not None and why not in self._told:
            self._told.add(why)
            log.warning("%s: results go without", why)

    # -- the encoder's thread

    def _run(self) -> None:
        try:
            _warm_up()
        except Exception:  # what cannot be drawn here is told by the picture that needs it
            log.exception("the drawing of text fails")
        while True:
            self._loop.rest()
            with self._changed:
                self._changed.wait_for(lambda: self._jobs or self._closing)
                if not self._jobs:
                    return
                job = self._jobs.popleft()
            self._loop.passed()
            try:
                self._encode(job.held, job.scene)
            except Exception:  # a picture that cannot be made is not the end of the line
                log.exception("result %s goes without some pictures", job.held.result.result_id)
            finally:
                self._records.complete(job.held)

    def _encode(self, held: Held, scene: Scene) -> None:
        if not self._writer.takes_more():
            self._drop(None)
            return
        result = held.result
        made: list[Encoded] = []
        try:
            for picture in encode_all(result, scene):
                uri = self._folder.uri(day_of(result), name_of(result, picture.kind))
                if not self._records.attach(held, picture.kind, picture.stored(uri)):
                    break
                made.append(picture)
        finally:
            # also where drawing failed: what the result names is stored
            self._records.complete(held)
            self._store(result, tuple(made), scene)

    def _store(self, result: Result, made: tuple[Encoded, ...], scene: Scene) -> None:
        if not made:
            size = f"{scene.frame.width}x{scene.frame.height}"
            self._drop(f"a picture of {size} cannot be encoded in {HOLD_S:g} s")
            return
        self._writer.put(Named(result, made))
        for picture in made:
            if picture.kind in self._settings.publish:
                self._publish(result, picture)


def _warm_up() -> None:
    """The first letter that OpenCV draws takes as long as many pictures."""
    caption(np.zeros((64, 64, 3), np.uint8), "OK", "")
