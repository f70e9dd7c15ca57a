"""A camera's web server: a stream of pictures, or one at each request."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from edge_infer import picture
from edge_infer.errors import PictureError, SourceError
from edge_infer.sources._capture_clock import CaptureClock
from edge_infer.sources._driver import Capture
from edge_infer.sources._http_connection import HttpConnection
from edge_infer.sources._multipart import MOST_BYTES, Parts

if TYPE_CHECKING:
    from http.client import HTTPResponse

    from edge_infer.sources._driver import Driver
    from edge_infer.sources.http import Http

_POLL_S = 0.1
"""How often a waiting thread looks whether it should end."""
_DRAIN_S = 0.2
"""A camera that sends faster than pictures are looked at: after so long the newest so far is."""
_NO_PICTURE = "the address is of a page for people: look up that of the stream or snapshot in the manual"


def connect(settings: Http, camera: str, password: str | None) -> Driver:
    """Ask once, and see what comes."""
    connection = HttpConnection(camera, settings.url, ca=settings.ca, user=settings.user, password=password)
    try:
        asked_s = time.monotonic()
        response = connection.get(settings.open_timeout_s)
        kind = response.headers.get_content_maintype()
        label = f"camera {camera}: {settings.address}"
        if kind == "multipart" and settings.mode != "snapshot":
            return _Stream(settings, connection, response.headers.get_boundary())
        if kind == "multipart":
            raise SourceError(f"{label} is a stream, not a snapshot", hint="write mode: mjpeg")
        if settings.mode == "mjpeg":
            told = response.headers.get_content_type()
            raise SourceError(f"{label} is no MJPEG stream ({told})", hint=_NO_PICTURE)
        if kind == "text":
            told = response.headers.get_content_type()
            raise SourceError(f"{label} gives no pictures ({told})", hint=_NO_PICTURE)
        return _Snapshots(settings, connection, response, asked_s)
    except BaseException:
        connection.close()
        raise


class _Newest(NamedTuple):
    body: bytes
    time_s: float


class _Stream:
    """Pictures as they come; only the newest is decoded."""

    def __init__(self, settings: Http, connection: HttpConnection, boundary: str | None) -> None:
        self._settings = settings
        self._connection = connection
        self._parts = Parts(boundary)
        self._clock = StampClock()
        self._decoder = _Decoder()
        self._whole_s = time.monotonic()
        """When the last picture was whole."""

    def capture(self) -> Capture | None:
        """See Driver."""
        newest: _Newest | None = None
        skipped = 0
        stop_s = time.monotonic() + _DRAIN_S
        while time.monotonic() < stop_s:
            found = self._early()
            if not found:
                if not self._connection.readable(0.0 if newest else _POLL_S):
                    break
                # not the time of the whole picture alone: a camera may drip
                self._parts.feed(self._connection.read(self._whole_s + self._settings.read_timeout_s))
                found = self._whole_parts()
            if found:
                skipped += len(found) - (newest is None)
                newest = found[-1]
        if newest is None:
            if time.monotonic() - self._whole_s >= self._settings.read_timeout_s:
                text = f"it sent no whole picture for {self._settings.read_timeout_s:g} s"
                raise self._connection.lost(text)
            return None
        return self._decoder.capture(newest.body, newest.time_s, skipped)

    def close(self) -> None:
        """See Driver."""
        self._connection.close()

    def _early(self) -> list[_Newest]:
        """A picture whose boundary comes only with the next one."""
        if self._connection.readable(0.0) or (part := self._parts.early()) is None:
            return []
        return [self._timed(part.body, part.headers)] if part.is_picture else []

    def _whole_parts(self) -> list[_Newest]:
        found = []
        try:
            while (part := self._parts.next()) is not None:
                if part.is_picture and part.body:
                    found.append(self._timed(part.body, part.headers))
        except ValueError as error:
            raise self._connection.lost(f"it sends {error}") from error
        return found

    def _timed(self, body: bytes, headers: dict[str, str]) -> _Newest:
        self._whole_s = time.monotonic()
        return _Newest(body, self._clock.taken(headers.get("x-timestamp"), self._whole_s))


class _Snapshots:
    """A picture at each request, at a fixed pace."""

    def __init__(
        self, settings: Http, connection: HttpConnection, first: HTTPResponse, asked_s: float
    ) -> None:
        self._settings = settings
        self._connection = connection
        self._decoder = _Decoder()
        self._first: HTTPResponse | None = first
        self._due_s = asked_s

    def capture(self) -> Capture | None:
        """See Driver."""
        asked_s = time.monotonic()
        if (wait_s := self._due_s - asked_s) > 0:
            time.sleep(min(wait_s, _POLL_S))
            return None
        until_s = asked_s + self._settings.read_timeout_s
        response, self._first = self._first, None
        if response is not None:
            asked_s = self._due_s
        else:
            response = self._connection.get(self._settings.read_timeout_s)
        body = self._connection.body(until_s, MOST_BYTES)
        # no catching up: a slow camera is asked again at once, not several times
        self._due_s = max(self._due_s + self._settings.interval_s, time.monotonic())
        age = response.headers.get("Age", "").strip()
        # taken somewhere between question and answer: never called newer than it may be
        return self._decoder.capture(body, asked_s - (int(age[:9]) if age.isdecimal() else 0), 0)

    def close(self) -> None:
        """See Driver."""
        self._connection.close()


class _Decoder:
    """Bytes of a picture file as a capture."""

    def __init__(self) -> None:
        self._last_s = 0.0
        self._shape = (32, 32, 3)

    def capture(self, body: bytes, time_s: float, skipped: int) -> Capture:
        """``skipped``: pictures before it that were not looked at."""
        self._last_s = max(time_s, self._last_s + 1e-6)
        try:
            pixels = picture.decode(body, "what came").pixels
        except PictureError as error:
            return Capture(np.zeros(self._shape, np.uint8), self._last_s, error.message, lost=skipped)
        self._shape = (*pixels.shape[:2], 3)
        return Capture(pixels, self._last_s, lost=skipped)


class StampClock:
    """When a picture was taken, by its X-Timestamp where that runs like a clock, else by its arrival.

    Cameras write seconds, milliseconds or microseconds of any clock, whole seconds, or the same for ever.
    """

    _UNITS = (1.0, 1e-3, 1e-6)
    _AFTER_S, _AFTER = 2.0, 5
    """It is believed after so long and so many pictures."""

    def __init__(self) -> None:
        self._last: float | None = None
        self._first = self._began_s = 0.0
        self._count = 0
        self._unit: float | None = None
        self._clock = CaptureClock()

    def taken(self, stamp: str | None, came_s: float) -> float:
        """Monotonic seconds, never later than ``came_s``."""
        try:
            value = float(stamp or "")
        except ValueError:
            return came_s
        if not abs(value) < 1e18:
            return came_s
        if self._last is None or value <= self._last:
            self._begin(value, came_s)
        self._last = value
        self._count += 1
        passed_s = came_s - self._began_s
        if self._unit is None and self._count > self._AFTER and passed_s >= self._AFTER_S:
            ran = value - self._first
            # 0: it is no clock, until it begins anew
            self._unit = next((unit for unit in self._UNITS if 0.8 < ran * unit / passed_s < 1.25), 0.0)
        if not self._unit:
            return came_s
        return self._clock.taken(value * self._unit, came_s)

    def _begin(self, value: float, came_s: float) -> None:
        self._first, self._began_s, self._count = value, came_s, 0
        self._unit = None
        self._clock = CaptureClock()
