"""When a frame of a stream was taken."""

from __future__ import annotations


class CaptureClock:
    """When a frame was taken, from its timestamp and its arrival.

    The two clocks differ by an offset that is smallest for the frame that waited least on its way. Measured
    against that, a frame that was held up somewhere is known to be old: a frame that lay in a buffer during
    a stall does not come out as new.
    """

    WINDOW_S = 15.0
    """The offset is the smallest of one to two windows, so that clocks may drift."""
    JUMP_S = 5.0
    """A timestamp that runs ahead of its arrival by this much began anew."""

    def __init__(self) -> None:
        self._since_s = 0.0
        self._offset_s: float | None = None
        self._before_s: float | None = None
        self._last_pts_s: float | None = None

    def taken(self, pts_s: float | None, arrived_s: float) -> float:
        """Monotonic seconds, never later than ``arrived_s``."""
        if pts_s is None:
            return arrived_s
        offset_s = arrived_s - pts_s
        if self._last_pts_s is not None and pts_s < self._last_pts_s - self.JUMP_S:
            self._offset_s = self._before_s = None
        self._last_pts_s = pts_s
        if self._offset_s is not None and arrived_s - self._since_s > self.WINDOW_S:
            self._before_s, self._offset_s = self._offset_s, None
        if self._offset_s is None:
            self._since_s, self._offset_s = arrived_s, offset_s
        self._offset_s = min(self._offset_s, offset_s)
        smallest_s = self._offset_s if self._before_s is None else min(self._offset_s, self._before_s)
        return pts_s + smallest_s
