"""The bundled line scene as a camera that is also the light barrier of its line."""

from __future__ import annotations

import math
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Literal

from pydantic import Field, model_validator

from edge_infer.errors import SourceError, SourceStalledError
from edge_infer.frame import Frame, PartTrigger
from edge_infer.settings import Secrets
from edge_infer.sources import Source, SourceSettings

if TYPE_CHECKING:
    from edge_infer.scene import Scene


class Synthetic(SourceSettings):
    """``{type: synthetic, ...}``: bottles on a belt, drawn; the same seed gives the same bytes."""

    type: Literal["synthetic"]
    fps: float = Field(default=10.0, ge=0.01, le=100)
    """Frames a second."""
    seed: int = Field(default=1, ge=0, le=2**32 - 1)
    """Names the line: its looks, its parts, their defects."""
    frames: int | None = Field(default=None, ge=1)
    """Makes it a recording that ends after so many frames."""
    defect_rate: float = Field(default=0.2, ge=0, le=1)
    """How many of the parts have a defect, 0..1."""
    realtime: bool = False
    """Play the recording as a live camera: at its own pace, the newest frame wins."""
    loop: bool = False
    """Begin the recording again when it has ended; live."""

    @model_validator(mode="after")
    def _something_to_play(self) -> Synthetic:
        if self.frames is None and (self.loop or self.realtime):
            key = "loop" if self.loop else "realtime"
            raise ValueError(
                f"{key}: true needs frames: N, the length of the recording; without it drop {key}"
            )
        return self

    @property
    def has_line(self) -> bool:
        """True: it draws the light barrier as well."""
        return True

    @property
    def recorded(self) -> bool:
        """True with ``frames``, unless it is played in real time or in a loop."""
        return self.frames is not None and not self.realtime and not self.loop

    def open(self, camera: str, secrets: Secrets) -> Source:  # noqa: ARG002 - a drawn line has no password
        """Draw the line's background, then start its clock."""
        from edge_infer.scene import Scene

        return SyntheticSource(self, camera, Scene(self.seed, self.fps, self.defect_rate))


class SyntheticSource:
    """The open scene. Frame 1 is due 1/fps after opening.

    A live reader that is late gets the newest frame, but never misses the one on which a part passed the
    light barrier: like a triggered camera, the scene keeps that picture until it is fetched.
    """

    def __init__(self, settings: Synthetic, camera: str, scene: Scene) -> None:
        self._camera = camera
        self._scene = scene
        self._fps = settings.fps
        self._recorded = settings.recorded
        self._length = settings.frames
        self._end = None if settings.loop else settings.frames
        self._seq = 0
        self._part = 0
        self._parts_a_loop = self._count_parts()
        self._closed = threading.Event()
        self._start_s = time.monotonic()

    def read(self, timeout_s: float) -> Frame | None:
        """The next frame, see Source."""
        if self._closed.is_set():
            raise self._closed_error()
        seq = self._next_seq()
        if self._end is not None and seq > self._end:
            return None
        if not self._recorded:
            self._wait_for(seq, timeout_s)
        return self._frame(seq)

    def close(self) -> None:
        """End a pending read."""
        self._closed.set()

    def _wait_for(self, seq: int, timeout_s: float) -> None:
        wait_s = self._start_s + seq / self._fps - time.monotonic()
        if wait_s <= 0:
            return
        if self._closed.wait(min(wait_s, timeout_s)):
            raise self._closed_error()
        if wait_s > timeout_s:
            raise SourceStalledError(
                f"camera {self._camera}: no frame within {timeout_s:g} s",
                hint=f"the scene draws {self._fps:g} frames a second; wait longer or raise fps",
            )

    def _next_seq(self) -> int:
        """In order for a recording; live the newest that is due, or the next that shows a triggered part."""
        following = self._seq + 1
        if self._recorded:
            return following
        newest = math.floor((time.monotonic() - self._start_s) * self._fps)
        if self._end is not None:
            newest = min(newest, self._end)
        return max(following, int(min(newest, self._arrival(self._part))))

    def _frame(self, seq: int) -> Frame:
        pixels = self._scene.pixels(self._index(seq))
        wall, now_s = datetime.now(UTC), time.monotonic()
        time_s = seq / self._fps if self._recorded else self._start_s + seq / self._fps
        captured_at = wall if self._recorded else wall - timedelta(seconds=now_s - time_s)
        triggers = []
        while self._arrival(self._part) <= seq:
            triggers.append(self._trigger(self._part, seq, time_s, captured_at))
            self._part += 1
        self._seq = seq
        return Frame(
            camera=self._camera,
            seq=seq,
            pixels=pixels,
            time_s=time_s,
            captured_at=captured_at,
            triggers=tuple(triggers),
            simulated=True,
        )

    def _trigger(self, part: int, seq: int, time_s: float, captured_at: datetime) -> PartTrigger:
        number = part % self._parts_a_loop if self._parts_a_loop else part
        ago_s = max(0.0, self._index(seq) / self._fps - self._scene.arrival_s(number))
        return PartTrigger(
            time_s=time_s - ago_s,
            at=captured_at - timedelta(seconds=ago_s),
            part_id=f"P{part + 1:06d}",
            truth=self._scene.part(number).truth,
        )

    def _arrival(self, part: int) -> float:
        """The frame that shows a part at the light barrier; parts are counted over all rounds of a loop."""
        if self._length is None:
            return self._scene.arrival(part)
        if not self._parts_a_loop:
            return math.inf
        rounds, number = divmod(part, self._parts_a_loop)
        return rounds * self._length + self._scene.arrival(number)

    def _count_parts(self) -> int:
        """Parts that reach the light barrier within the recording; 0 without an end."""
        count = 0
        while self._length is not None and self._scene.arrival(count) <= self._length:
            count += 1
        return count

    def _index(self, seq: int) -> int:
        """The scene's frame for a frame of the camera."""
        return seq if self._length is None else (seq - 1) % self._length + 1

    def _closed_error(self) -> SourceError:
        return SourceError(f"camera {self._camera} was closed")
