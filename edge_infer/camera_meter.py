"""What one camera has given since the start of the service, over all its connections."""

from __future__ import annotations

from collections import deque
from datetime import datetime

from edge_infer import clock
from edge_infer.frame import Frame
from edge_infer.messages.camera import CameraMessage, CameraState
from edge_infer.sources import CountsPackets, Source

WINDOW_S = 5.0
"""The rate is measured over so long."""
_EACH_S = 0.5
"""Between two marks in it."""


class Meter:
    """Used by the camera's thread alone."""

    def __init__(self) -> None:
        self._frames = self._dropped = self._damaged = self._opened = 0
        self._seq: int | None = None
        """Of the newest frame of this connection; None where it gave none yet."""
        self._last_frame_at: datetime | None = None
        self._source: Source | None = None
        self._packets_before: int | None = None
        """Lost over earlier connections."""
        self._marks: deque[tuple[float, int]] = deque()
        """When (monotonic), and how many frames the camera had taken by then."""

    def opened(self, source: Source) -> None:
        """A new connection; its frames count from 1 again."""
        self._packets_before = self._packets_lost
        self._source, self._seq = source, None
        self._marks.clear()

    def count(self, frame: Frame, now_s: float) -> None:
        """A frame was given."""
        self._opened += self._seq is None
        self._dropped += frame.seq - (self._seq or 0) - 1
        self._seq = frame.seq
        self._frames += 1
        self._damaged += frame.damaged is not None
        self._last_frame_at = frame.captured_at
        if not self._marks or now_s >= self._marks[-1][0] + _EACH_S:
            self._marks.append((now_s, self._frames + self._dropped))

    def message(
        self, camera: str, state: CameraState, text: str, since: datetime, now_s: float
    ) -> CameraMessage:
        """As of now."""
        return CameraMessage(
            camera=camera,
            state=state,
            text=text,
            since=since,
            time=clock.now(),
            frames=self._frames,
            dropped=self._dropped,
            damaged=self._damaged,
            packets_lost=self._packets_lost,
            reconnections=max(0, self._opened - 1),
            last_frame_at=self._last_frame_at,
            fps=self._fps(now_s),
        )

    @property
    def _packets_lost(self) -> int | None:
        now = self._source.packets_lost if isinstance(self._source, CountsPackets) else None
        return self._packets_before if now is None else now + (self._packets_before or 0)

    def _fps(self, now_s: float) -> float | None:
        """Also of a camera that has gone silent: then it falls to 0."""
        while len(self._marks) > 2 and self._marks[0][0] < now_s - WINDOW_S:
            self._marks.popleft()
        if not self._marks or now_s - self._marks[0][0] < 2 * _EACH_S:
            return None
        since_s, taken = self._marks[0]
        return round((self._frames + self._dropped - taken) / (now_s - since_s), 1)
