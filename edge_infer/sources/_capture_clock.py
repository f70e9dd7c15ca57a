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

    def __init__(self) -> None:
        self._since_s = 0.0
        self._offset_s: float | None = None
        self._before_s: float | None = None
        self._last_pts_s: float | None = None
        self._last_arrived_s = 0.0
        self._late_s = 0.0
        """How long the last frame waited, at least."""

    def taken(self, pts_s: float | None, arrived_s: float) -> float:
        """Monotonic seconds, never later than ``arrived_s``."""
        if pts_s is None:
            return arrived_s
        offset_s = arrived_s - pts_s
        if self._last_pts_s is not None and pts_s < self._last_pts_s:
            self._begin_anew(offset_s, arrived_s)
        self._last_pts_s, self._last_arrived_s = pts_s, arrived_s
        if self._offset_s is not None and arrived_s - self._since_s > self.WINDOW_S:
            self._before_s, self._offset_s = self._offset_s, None
        if self._offset_s is None:
            self._since_s, self._offset_s = arrived_s, offset_s
        self._offset_s = min(self._offset_s, offset_s)
        smallest_s = self._offset_s if self._before_s is None else min(self._offset_s, self._before_s)
        self._late_s = offset_s - smallest_s
        return pts_s + smallest_s

    def _begin_anew(self, offset_s: float, arrived_s: float) -> None:
        """Frames come in the order of their times: an earlier one is of another count of time.

        It waited as long as the frame before it, but for the time that has passed: what lay in a buffer
        stays old.
        """
        late_s = max(0.0, self._late_s - (arrived_s - self._last_arrived_s))
        self._since_s, self._offset_s, self._before_s = arrived_s, offset_s - late_s, None


class Dating:
    """When a frame was taken by the camera's own wall clock, as far as that agrees with its arrival.

    Shows what arrival cannot: how long the camera itself took to encode and send. A clock that is wrong is
    not followed; times go on without a step either way.
    """

    LIMIT_S = 1.0
    """A camera that seems to take longer than this, or to send before it sees, has another time than we."""

    def __init__(self) -> None:
        self.ahead_s: float | None = None
        """By how much later than it arrived the camera dates the last frame: negative for an honest one."""
        self._delay_s = 0.0
        self._last_s: float | None = None

    @property
    def agrees(self) -> bool:
        """The camera's clock and ours show the same time."""
        return self.ahead_s is not None and abs(self.ahead_s) <= self.LIMIT_S

    def taken(self, by_arrival_s: float, told_s: float | None) -> float:
        """``told_s``: what the camera says, by our monotonic clock; None where it says nothing."""
        if told_s is not None:
            self.ahead_s = told_s - by_arrival_s
        wanted_s = max(0.0, -self.ahead_s) if self.agrees and self.ahead_s is not None else 0.0
        if self._last_s is None:
            self._delay_s = wanted_s
        else:
            # by half of what passed: a later frame stays later
            step_s = max(0.0, by_arrival_s - self._last_s) / 2
            self._delay_s += min(step_s, max(-step_s, wanted_s - self._delay_s))
        self._last_s = by_arrival_s
        return by_arrival_s - self._delay_s
