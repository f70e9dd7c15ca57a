"""Recordings: a video, a picture, a folder or a pattern of them; and a folder that pictures are put into."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator
from datetime import UTC, datetime
from pathlib import Path, PurePath
from typing import Literal

from pydantic import Field, ValidationInfo, field_validator

from edge_infer.errors import SourceError, SourceStalledError
from edge_infer.frame import Frame
from edge_infer.settings import Secrets, SitePath
from edge_infer.sources import Source, SourceSettings
from edge_infer.sources._recording import PICTURES, Shot, find, shots

PICTURE_S = 0.5
"""Pictures know no time: so far are they apart."""
LATE_S = 1.0
"""A live playback that is further behind goes on from now instead of catching up."""
CLOSE_S = 1.0
"""How long ``close`` waits for a file that does not answer (a network folder)."""


class Files(SourceSettings):
    """``{type: files, path: videos/bottles.mp4}``: nothing is dropped, every frame is judged once."""

    type: Literal["files"]
    path: SitePath
    """A video, a picture, a folder, or a pattern like ``parts/*.png``."""
    loop: bool = False
    """Begin again at the end; plays as a live camera, at the recording's own pace."""
    realtime: bool = False
    """Play once as a live camera: at the recording's own pace, the newest frame wins."""
    watch: bool = False
    """Judge each picture that is put into the folder, once it is complete, for ever; each is a part."""
    settle_s: float | None = Field(default=None, gt=0, le=3600)
    """Of a watched folder: half a picture that nobody wrote to for so long is damaged; default 5."""
    done: SitePath | None = None
    """Of a watched folder: where a picture is moved to once its result is stored; default it stays."""
    failed: SitePath | None = None
    """Of a watched folder: where a damaged one is moved to; default it stays."""

    # each at its own key
    @field_validator("watch")
    @classmethod
    def _watch_alone(cls, watch: bool, info: ValidationInfo) -> bool:
        if watch and (info.data.get("loop") or info.data.get("realtime")):
            raise ValueError("a watched folder has no loop and no realtime; remove them")
        return watch

    @field_validator("settle_s", "done", "failed")
    @classmethod
    def _only_watched(cls, value: Path | float | None, info: ValidationInfo) -> Path | float | None:
        if value is not None and not info.data.get("watch"):
            raise ValueError("is for a watched folder; write watch: true, or remove it")
        if isinstance(value, Path) and value == info.data.get("path"):
            raise ValueError("is the watched folder itself; name another one")
        return value

    @property
    def has_line(self) -> bool:
        """True of a watched folder: each picture in it is a part."""
        return self.watch

    @property
    def waits(self) -> bool:
        """True of a watched folder: nobody need put anything there."""
        return self.watch

    @property
    def recorded(self) -> bool:
        """True unless it plays as a live camera."""
        return not (self.loop or self.realtime)

    def open(self, camera: str, secrets: Secrets) -> Source:  # noqa: ARG002 - files need no password
        """Find the files and decode the first frame; of a watched folder: find the folder."""
        if self.watch:
            from edge_infer.sources._watched import Watched

            return Watched(self, camera)
        return FilesSource(self, camera)


class FilesSource:
    """Files in natural order (2 before 10), one after the other on one clock.

    A picture that cannot be read is a small black frame that says why in ``damaged``: it was asked for, so
    it is answered. A video that breaks off gives its frames so far, then SourceError.
    """

    def __init__(self, settings: Files, camera: str) -> None:
        self._settings = settings
        self._camera = camera
        self._seq = 0
        self._started_s: float | None = None
        self._failure: SourceError | None = None
        self._closed = threading.Event()
        # who holds it may touch the video library
        self._lock = threading.Lock()
        self._shots = self._play()
        # a wrong path is a mistake of opening
        self._next = self._fetch()

    def read(self, timeout_s: float) -> Frame | None:
        """The next frame, see Source; only live playback waits."""
        with self._lock:
            self._check_open()
            shot = self._next = self._next or self._fetch()
        if shot is None:
            return None
        time_s = shot.time_s if self._settings.recorded else self._wait(shot.time_s, timeout_s)
        with self._lock:
            self._check_open()
            self._next = None
            self._seq += 1
        return Frame(
            camera=self._camera,
            seq=self._seq,
            pixels=shot.pixels,
            time_s=time_s,
            captured_at=datetime.now(UTC),
            damaged=shot.damaged,
            still=PurePath(shot.name).suffix.lower() in PICTURES,
            name=shot.name,
        )

    def close(self) -> None:
        """End a pending read, close the file."""
        self._closed.set()
        if self._lock.acquire(timeout=CLOSE_S):
            self._shots.close()
            self._next = None
            self._lock.release()

    def _check_open(self) -> None:
        if self._closed.is_set():
            raise SourceError(f"camera {self._camera} is closed")

    def _fetch(self) -> Shot | None:
        if self._failure is not None:
            # a generator that raised would look like one that has ended
            raise SourceError(self._failure.message, hint=self._failure.hint)
        try:
            return next(self._shots, None)
        except SourceError as error:
            self._failure = SourceError(f"camera {self._camera}: {error.message}", hint=error.hint)
            raise self._failure from error

    def _play(self) -> Generator[Shot, None, None]:
        """Every frame, on one clock over all files and rounds."""
        start_s = last_s = 0.0
        step_s = PICTURE_S
        while True:
            for path in find(self._settings.path):
                for shot in shots(path):
                    time_s = start_s + shot.time_s
                    if time_s > last_s:
                        step_s = time_s - last_s
                    last_s = time_s
                    yield shot._replace(time_s=time_s)
                start_s = last_s + step_s
            if not self._settings.loop:
                return

    def _wait(self, position_s: float, timeout_s: float) -> float:
        """Until a live playback is due; when that was, on the monotonic clock."""
        now_s = time.monotonic()
        if self._started_s is None or now_s - self._started_s - position_s > LATE_S:
            self._started_s = now_s - position_s
        due_s = self._started_s + position_s
        if self._closed.wait(max(0.0, min(due_s - now_s, timeout_s))):
            self._check_open()
        if due_s - now_s > timeout_s:
            raise SourceStalledError(f"camera {self._camera}: its next frame is not due yet")
        return due_s
