"""The connection to an industrial camera: found, taken, set up; its pictures and the lost ones."""

from __future__ import annotations

import heapq
import ipaddress
import logging
import socket
import threading
import time
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from edge_infer.errors import SourceBusyError, SourceError
from edge_infer.sources._driver import Capture
from edge_infer.sources._genicam.aravis import COMPLETE, EMPTY, STATUS, Camera, Found, Image, find
from edge_infer.sources._genicam.features import Features
from edge_infer.sources._genicam.library import LIBRARY, AravisError, library
from edge_infer.sources._genicam.pixel_formats import BY_NAME, BY_NUMBER, PixelFormat, to_bgr
from edge_infer.sources._genicam.setup import set_up

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from edge_infer.sources.gige import Gige

log = logging.getLogger(__name__)

_BUFFERS = 8
_POP_S = 0.1
"""How often a waiting thread looks whether the camera is still there."""
_CONTROLLER = 0x0A14
"""The bootstrap register with the address of the host that controls a camera."""
_RESTART = 0x4000
"""A frame id that jumps further than this began anew."""

_ANSWERED = 64
"""At most so many parts are answered for one gap."""
_NOTHING_YET = "does a firewall drop UDP, is packet_size more than the network carries? try 1400"
_CABLE = "is it switched on, is the cable in, is it in this network?"


class Connection:
    """An open camera that takes pictures (a Driver)."""

    def __init__(self, settings: Gige, camera: str) -> None:
        self._settings = settings
        self._label = f"camera {camera}: {settings.name}"
        try:
            library()
        except OSError as error:
            raise SourceError(
                f"camera {camera}: {LIBRARY} is not installed: {error}",
                hint="`sudo apt-get install libaravis-0.8-0`, then start again",
            ) from error
        self._camera = self._connect()
        self._trigger: _Trigger | None = None
        self._gone = False
        self._ids = FrameIds()
        self._ready: deque[Capture] = deque()
        self._incomplete = 0
        self._last_s = 0.0
        try:
            if not self._camera.is_ours:
                raise self._in_use()
            # after a crash it may still send, and takes no new size then
            self._camera.stop()
            features = Features(self._camera, self._label)
            set_up(features, settings, is_network=self._camera.is_network)
            self._width, self._height = features.integer("Width"), features.integer("Height")
            self._check_format(features)
            self._start()
        except AravisError as error:
            self._camera.close()
            raise SourceError(f"{self._label} broke off while it was set up: {error}", hint=_CABLE) from error
        except BaseException:
            self._camera.close()
            raise
        if settings.trigger == "software":
            self._trigger = _Trigger(self._camera, camera)
        self._came_s = time.monotonic()

    def fire(self, at_s: float) -> None:
        """Take a picture at that monotonic time; one that runs freely or has a line takes its own anyway."""
        if self._trigger is not None:
            self._trigger.fire(at_s)

    def capture(self) -> Capture | None:
        """See Driver. Of a camera that runs freely the newest; else each one, lost ones as damaged."""
        if self._ready:
            return self._ready.popleft()
        if self._camera.is_lost:
            raise SourceError(
                f"{self._label} is lost: it no longer answers, or another host took control of it",
                hint=_CABLE,
            )
        if (first := self._camera.take(_POP_S)) is None:
            self._check_silence()
            return None
        self._came_s = time.monotonic()
        buffers = [first]
        while len(buffers) < _BUFFERS and (buffer := self._camera.take(0)) is not None:
            buffers.append(buffer)
        if not self._settings.waits:
            # the library gives the oldest first, however late we are
            for buffer in buffers[:-1]:
                self._camera.give_back(buffer)
            del buffers[:-1]
        for buffer in buffers:
            try:
                image = self._camera.look(buffer)
                if image.status != EMPTY:
                    self._ready.extend(self._captures(image))
            finally:
                self._camera.give_back(buffer)
        return self._ready.popleft() if self._ready else None

    def close(self) -> None:
        """See Driver."""
        if self._trigger is not None:
            self._trigger.close()
        if self._incomplete:
            log.info("%s: %d picture(s) came incomplete", self._label, self._incomplete)
        if self._gone or self._camera.is_lost:
            # saying goodbye to a camera that is not there takes some ten seconds
            threading.Thread(
                target=self._camera.close, name=f"goodbye-{self._settings.name}", daemon=True
            ).start()
        else:
            self._camera.close()

    # -- opening

    def _connect(self) -> Camera:
        settings = self._settings
        try:
            if settings.address is not None:
                return Camera(address=settings.address)
            found = find()
            for one in found:
                if settings.serial == one.serial or settings.device_id == one.id:
                    by_address = one.protocol == "GigEVision"
                    return Camera(address=one.address) if by_address else Camera(one.id)
        except AravisError as error:
            raise SourceError(
                f"{self._label} does not answer: {error}", hint=_what_is_there(find())
            ) from error
        raise SourceError(f"{self._label} is not there", hint=_what_is_there(found))

    def _in_use(self) -> SourceBusyError:
        try:
            owner = self._camera.register(_CONTROLLER)
        except AravisError:
            owner = 0
        who = f" ({ipaddress.IPv4Address(owner)})" if owner else ""
        return SourceBusyError(
            f"{self._label} is in use by another host{who} or program",
            hint="close the viewer that has it open; after a crash it is free again within some seconds",
        )

    def _check_format(self, features: Features) -> None:
        name = features.text("PixelFormat")
        if name not in BY_NAME:
            able = [one for one in features.entries("PixelFormat") if one in BY_NAME]
            raise SourceError(
                f"{self._label} sends {name}, which cannot be read",
                hint=f"set pixel_format to one of {', '.join(able) or '(none of this camera can be read)'}",
            )
        log.info(
            "%s is %s %s, %dx%d %s",
            self._label,
            features.text("DeviceVendorName"),
            features.text("DeviceModelName"),
            self._width,
            self._height,
            name,
        )

    def _start(self) -> None:
        try:
            self._camera.start(
                _BUFFERS,
                self._settings.socket_buffer,
                packet_size_as_set=self._settings.packet_size is not None,
            )
        except AravisError as error:
            raise SourceError(
                f"{self._label} does not start to send: {error}", hint="switch the camera off and on again"
            ) from error

    # -- pictures

    def _check_silence(self) -> None:
        if self._trigger is not None and (failure := self._trigger.failure) is not None:
            self._gone = True
            raise SourceError(f"{self._label} could not be triggered: {failure}", hint=_CABLE)
        silent_s = time.monotonic() - self._came_s
        if not self._settings.waits and silent_s >= self._settings.read_timeout_s:
            self._gone = True
            text = f"{self._label} is lost: it sent no picture for {silent_s:.1f} s"
            # it answered while it was set up: then it is its pictures that do not get through
            raise SourceError(text, hint=_CABLE if self._last_s else _NOTHING_YET)

    def _captures(self, image: Image) -> list[Capture]:
        """The picture, and before it those that never came."""
        kept, part = self._settings.waits, self._settings.has_line
        missed = self._ids.missed(image.frame_id)
        captures = []
        for _ in range(min(missed, _ANSWERED) if kept else 0):
            self._count_incomplete("all of it")
            time_s = self._time(None)
            captures.append(Capture(self._black(), time_s, "it was lost on the way", kept=kept, part=part))
        lost = missed - len(captures)
        damaged = self._damage(image)
        if damaged is not None:
            self._count_incomplete(damaged)
        pixels = (
            self._black()
            if damaged
            else to_bgr(BY_NUMBER[image.pixel_format], image.data, image.width, image.height, image.padding)
        )
        captures.append(
            Capture(
                pixels,
                self._time(image),
                damaged,
                lost=lost,
                kept=kept,
                part=part,
                packets_lost=self._camera.packets_lost(),
            )
        )
        return captures

    def _damage(self, image: Image) -> str | None:
        if image.status != COMPLETE:
            return STATUS.get(image.status, "it is not complete")
        form: PixelFormat | None = BY_NUMBER.get(image.pixel_format)
        if form is None:
            return f"its pixel format {image.pixel_format:#x} cannot be read"
        if image.data.size < (form.row_bytes(image.width) + image.padding) * image.height - image.padding:
            return "it is shorter than the camera said"
        return None

    def _black(self) -> NDArray[np.uint8]:
        """What arrived of a damaged picture stands beside the remains of an older one."""
        return np.zeros((self._height, self._width, 3), np.uint8)

    def _time(self, image: Image | None) -> float:
        """When a picture's first packet arrived, on the monotonic clock; later than the one before it."""
        fired_s = self._trigger.fired() if self._trigger is not None else None
        if image is not None and image.wall_ns:
            time_s = on_monotonic_clock(image.wall_ns)
        else:
            time_s = time.monotonic() if fired_s is None else fired_s
        self._last_s = max(time_s, self._last_s + 1e-6)
        return self._last_s

    def _count_incomplete(self, why: str) -> None:
        self._incomplete += 1
        if self._incomplete == 1:
            log.warning("%s: a picture is damaged: %s; %s", self._label, why, _loss_advice(self._settings))


def on_monotonic_clock(wall_ns: int) -> float:
    """A past wall time, rather too late than too early: no picture may seem older than what asked for it."""
    for _ in range(3):
        asked_s, wall_s, told_s = time.monotonic(), time.time(), time.monotonic()
        if told_s - asked_s < 0.001:
            break
    return told_s - max(0.0, wall_s - wall_ns / 1e9)


class FrameIds:
    """Tells from the camera's own count how many pictures never came. 16 bits without 0, or 64 bits."""

    def __init__(self) -> None:
        self._last: int | None = None
        self._unknown = 0

    def missed(self, frame_id: int | None) -> int:
        """Between the picture before and this one; None where the number itself was lost."""
        if frame_id is None:
            self._unknown += 1
            return 0
        last, unknown = self._last, self._unknown
        self._last, self._unknown = frame_id, 0
        if last is None:
            return 0
        short = frame_id <= 0xFFFF and last <= 0xFFFF
        step = (frame_id - last) % 0xFFFF if short else frame_id - last
        return max(0, step - 1 - unknown) if 0 < step < _RESTART else 0


class _Trigger:
    """Fires the software trigger when it is due; in a thread of its own, as the answer takes time."""

    def __init__(self, camera: Camera, name: str) -> None:
        self.failure: AravisError | None = None
        self._camera = camera
        self._changed = threading.Condition()
        self._due: list[float] = []
        self._fired: deque[float] = deque(maxlen=_ANSWERED)
        self._closed = False
        self._thread = threading.Thread(target=self._run, name=f"trigger-{name}", daemon=True)
        self._thread.start()

    def fire(self, at_s: float) -> None:
        """Hands over at once."""
        with self._changed:
            if len(self._due) < _ANSWERED:
                heapq.heappush(self._due, at_s)
                self._changed.notify_all()

    def fired(self) -> float | None:
        """When the oldest picture that was not given yet was asked for."""
        with self._changed:
            return self._fired.popleft() if self._fired else None

    def close(self) -> None:
        """Fires no more; waits for a command that is under way."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._closed and (not self._due or self._due[0] > time.monotonic()):
                    wait_s = self._due[0] - time.monotonic() if self._due else 1.0
                    self._changed.wait(max(0.0, wait_s))
                if self._closed:
                    return
                heapq.heappop(self._due)
                self._fired.append(time.monotonic())
            try:
                self._camera.execute("TriggerSoftware")
            except AravisError as error:
                self.failure = error
                return


def _what_is_there(found: list[Found]) -> str:
    if not found:
        return f"no camera answers a search; {_CABLE}"
    return f"cameras that answer a search: {', '.join(str(one) for one in found)}"


def _loss_advice(settings: Gige) -> str:
    """What to do about lost packets on this machine."""
    try:
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW).close()
    except OSError:
        allowed = int(Path("/proc/sys/net/core/rmem_max").read_text(encoding="ascii"))
        if allowed < settings.socket_buffer:
            return (
                "give the service CAP_NET_RAW (AmbientCapabilities=CAP_NET_RAW), or "
                f"`sudo sysctl net.core.rmem_max={settings.socket_buffer}` (now {allowed})"
            )
        return "give the service CAP_NET_RAW (AmbientCapabilities=CAP_NET_RAW), or raise packet_delay_ns"
    return "raise packet_delay_ns; packet_size above 1500 needs jumbo frames all the way"
