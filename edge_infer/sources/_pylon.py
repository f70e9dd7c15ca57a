"""A Basler camera as pylon gives it."""

from __future__ import annotations

import heapq
import logging
import threading
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from edge_infer.errors import SourceBusyError, SourceError
from edge_infer.sources._driver import Capture
from edge_infer.sources._genicam.pixel_formats import BY_NUMBER, to_bgr

if TYPE_CHECKING:
    from edge_infer.sources.basler import Basler

log = logging.getLogger(__name__)

_POLL_S = 0.1
_ASKED = 64
"""Parts that may wait for their picture to be taken."""
_BUFFERS = 8
_CABLE = "is it switched on, is the cable in, is it in this network?"


class Camera:
    """Open and set up; takes pictures (a Driver)."""

    def __init__(self, settings: Basler, camera: str) -> None:
        self._settings = settings
        self._label = f"camera {camera}: {settings.serial}"
        try:
            from pypylon import genicam, pylon
        except ImportError as error:
            raise SourceError(
                f"camera {camera}: pypylon is not installed: {error}",
                hint="`pip install 'edge-infer[basler]'`, then start again",
            ) from error
        self._pylon: Any = pylon
        self._error: Any = genicam.GenericException
        self._changed = threading.Condition()
        self._due: list[float] = []
        self._fired_s: float | None = None
        """When the picture that is being taken was asked for."""
        self._last_s = 0.0
        self._incomplete = 0
        self._camera = self._find()
        try:
            self._open()
            self._set_up()
            self._width, self._height = int(self._value("Width")), int(self._value("Height"))
            self._camera.MaxNumBuffer.Value = _BUFFERS
            every = settings.waits
            self._camera.StartGrabbing(
                pylon.GrabStrategy_OneByOne if every else pylon.GrabStrategy_LatestImageOnly
            )
        except self._error as error:
            self._camera.DestroyDevice()
            raise SourceError(f"{self._label} does not start: {_told(error)}", hint=_CABLE) from error
        except BaseException:
            self._camera.DestroyDevice()
            raise
        log.info("%s is %s, %dx%d", self._label, self._name, self._width, self._height)
        self._came_s = time.monotonic()

    def fire(self, at_s: float) -> None:
        """Take a picture at that monotonic time. Any thread, at once."""
        with self._changed:
            if len(self._due) < _ASKED:
                heapq.heappush(self._due, at_s)
                self._changed.notify_all()

    def capture(self) -> Capture | None:
        """See Driver. Of a camera that runs freely the newest; else each one."""
        software = self._settings.trigger == "software"
        try:
            if software and self._fired_s is None and not self._take():
                self._check()
                return None
            result = self._camera.RetrieveResult(int(_POLL_S * 1000), self._pylon.TimeoutHandling_Return)
            if not result.IsValid():
                self._check()
                return self._never_came()
            try:
                return self._captured(result)
            finally:
                result.Release()
        except self._error as error:
            raise SourceError(f"{self._label} is lost: {_told(error)}", hint=_CABLE) from error

    def close(self) -> None:
        """See Driver."""
        if self._incomplete:
            log.info("%s: %d picture(s) came incomplete", self._label, self._incomplete)
        try:
            self._camera.StopGrabbing()
            self._camera.Close()
        except self._error as error:
            log.debug("%s: %s", self._label, _told(error))
        finally:
            self._camera.DestroyDevice()

    # -- opening

    def _find(self) -> Any:
        factory = self._pylon.TlFactory.GetInstance()
        try:
            found = list(factory.EnumerateDevices())
            for one in found:
                if one.GetSerialNumber() == self._settings.serial:
                    self._name = one.GetModelName()
                    return self._pylon.InstantCamera(factory.CreateDevice(one))
        except self._error as error:
            raise SourceError(f"{self._label} does not answer: {_told(error)}", hint=_CABLE) from error
        there = ", ".join(f"{one.GetSerialNumber()} ({one.GetModelName()})" for one in found)
        hint = f"cameras that answer: {there}" if found else f"no camera answers; {_CABLE}"
        raise SourceError(f"{self._label} is not there", hint=hint)

    def _open(self) -> None:
        try:
            self._camera.Open()
        except self._error as error:
            told = _told(error)
            if "exclusive" in told.lower() or "controlled" in told.lower():
                raise SourceBusyError(
                    f"{self._label} is in use by another host or program",
                    hint="close the viewer that has it open",
                ) from error
            raise SourceError(f"{self._label} cannot be opened: {told}", hint=_CABLE) from error

    def _set_up(self) -> None:
        settings = self._settings
        for feature, value in settings.features.items():
            self._set(feature, value)
        sizes = {
            "Width": settings.width, "Height": settings.height,
            "OffsetX": settings.offset_x, "OffsetY": settings.offset_y,
        }  # fmt: skip
        if any(size is not None for size in sizes.values()):
            # a new size must find room
            self._set("OffsetX", 0)
            self._set("OffsetY", 0)
        if settings.pixel_format is not None:
            self._set("PixelFormat", settings.pixel_format)
        for feature, size in sizes.items():
            if size is not None:
                self._set(feature, size)
        if settings.exposure_us is not None:
            self._off("ExposureAuto")
            self._set(self._first("ExposureTime", "ExposureTimeAbs"), settings.exposure_us)
        if settings.gain_db is not None:
            self._off("GainAuto")
            self._set("Gain", settings.gain_db)
        if settings.frame_rate is not None:
            self._set("AcquisitionFrameRateEnable", True)
            self._set(self._first("AcquisitionFrameRate", "AcquisitionFrameRateAbs"), settings.frame_rate)
        self._set_trigger()

    def _set_trigger(self) -> None:
        selector = self._node("TriggerSelector")
        for one in selector.Symbolics if selector is not None else ():
            # any of them may be stored in the camera as switched on
            self._set("TriggerSelector", one)
            self._off("TriggerMode")
        if self._settings.trigger is None:
            return
        if selector is not None and "FrameStart" in selector.Symbolics:
            self._set("TriggerSelector", "FrameStart")
        self._set("TriggerSource", self._settings.line or "Software")
        self._set("TriggerMode", "On")

    def _node(self, feature: str) -> Any:
        node = self._camera.GetNodeMap().GetNode(feature)
        from pypylon import genicam

        return node if node is not None and genicam.IsImplemented(node) else None

    def _first(self, *features: str) -> str:
        return next((one for one in features if self._node(one) is not None), features[0])

    def _off(self, feature: str) -> None:
        if self._node(feature) is not None:
            self._set(feature, "Off")

    def _value(self, feature: str) -> Any:
        return self._node(feature).Value

    def _set(self, feature: str, value: bool | float | str) -> None:
        """And read it back: cameras round, and some keep silently what they had."""
        node = self._node(feature)
        if node is None:
            raise SourceError(
                f"{self._label} has no feature {feature}", hint="pylon Viewer lists those of this camera"
            )
        try:
            if value is True and hasattr(node, "Execute"):
                node.Execute()
                return
            node.Value = float(value) if "Float" in type(node).__name__ else value
            taken = node.Value
        except (self._error, TypeError, ValueError) as error:
            raise SourceError(
                f"{self._label}: cannot set {feature} to {value}: {_told(error)}", hint=_allowed(node)
            ) from error
        same = taken == value
        if isinstance(taken, float) and not isinstance(value, str):
            same = abs(taken - value) <= 0.01 * abs(value) + 1e-6
        if not same:
            raise SourceError(
                f"{self._label}: cannot set {feature} to {value}: it stays {taken}", hint=_allowed(node)
            )

    # -- pictures

    def _take(self) -> bool:
        """Have the next picture taken if it is due; waits a moment for that."""
        with self._changed:
            now_s = time.monotonic()
            if not self._due or self._due[0] > now_s:
                wait_s = min(_POLL_S, self._due[0] - now_s) if self._due else _POLL_S
                self._changed.wait(wait_s)
            if not self._due or self._due[0] > time.monotonic():
                return False
            heapq.heappop(self._due)
        self._camera.WaitForFrameTriggerReady(1000, self._pylon.TimeoutHandling_ThrowException)
        self._fired_s = time.monotonic()
        self._camera.ExecuteSoftwareTrigger()
        return True

    def _check(self) -> None:
        if self._camera.IsCameraDeviceRemoved():
            raise SourceError(f"{self._label} is lost: it no longer answers", hint=_CABLE)
        silent_s = time.monotonic() - self._came_s
        if not self._settings.waits and silent_s >= self._settings.read_timeout_s:
            raise SourceError(f"{self._label} is lost: it sent no picture for {silent_s:.1f} s", hint=_CABLE)

    def _never_came(self) -> Capture | None:
        """A part that asked is answered, also where its picture got lost."""
        if self._fired_s is None or time.monotonic() - self._fired_s < self._settings.read_timeout_s:
            return None
        return self._damaged("its picture never came", self._time())

    def _captured(self, result: Any) -> Capture:
        self._came_s = time.monotonic()
        time_s = self._time()
        skipped = int(result.GetNumberOfSkippedImages())
        if not result.GrabSucceeded():
            return self._damaged(" ".join(str(result.GetErrorDescription()).split()), time_s, skipped)
        form = BY_NUMBER.get(int(result.GetPixelType()) & 0xFFFFFFFF)
        if form is None:
            raise SourceError(
                f"{self._label} sends pixels that cannot be read ({self._value('PixelFormat')})",
                hint="set pixel_format to Mono8, BayerRG8 or RGB8, as the camera has it",
            )
        data = np.frombuffer(result.GetBuffer(), np.uint8)
        pixels = to_bgr(form, data, int(result.Width), int(result.Height), int(result.PaddingX))
        settings = self._settings
        return Capture(pixels, time_s, lost=skipped, kept=settings.waits, part=settings.has_line)

    def _damaged(self, why: str, time_s: float, skipped: int = 0) -> Capture:
        self._incomplete += 1
        black = np.zeros((self._height, self._width, 3), np.uint8)
        settings = self._settings
        return Capture(black, time_s, why, lost=skipped, kept=settings.waits, part=settings.has_line)

    def _time(self) -> float:
        """When it was asked for, else when it arrived; later than the one before it."""
        time_s, self._fired_s = self._fired_s or time.monotonic(), None
        self._last_s = max(time_s, self._last_s + 1e-6)
        return self._last_s


def _told(error: BaseException) -> str:
    """Without the place in Basler's sources, in one line."""
    return " ".join(str(error).partition(" : ")[0].split())


def _allowed(node: Any) -> str:
    symbols = getattr(node, "Symbolics", None)
    if symbols:
        return f"allowed are {', '.join(symbols)}"
    if hasattr(node, "Min"):
        return f"allowed is {node.Min} to {node.Max}"
    return "another feature may forbid it now; set that first, under features"
