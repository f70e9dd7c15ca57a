"""Network cameras over RTSP."""

from __future__ import annotations

import errno
import logging
import socket
import sys
import time
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal
from urllib.parse import quote, urlsplit

from pydantic import Field, field_validator, model_validator

from edge_infer.errors import SourceError
from edge_infer.settings import Secrets, SitePath
from edge_infer.sources._address import NetworkSettings, checked
from edge_infer.sources._capture_clock import CaptureClock, Dating
from edge_infer.sources._driver import Capture, Driver
from edge_infer.sources._h264 import Numbering
from edge_infer.sources._video import Damage, Pixels, seconds

if TYPE_CHECKING:
    from av import Packet, VideoFrame, VideoStream
    from av.container import InputContainer
    from av.error import FFmpegError

log = logging.getLogger(__name__)

_REORDERED = 64
"""More frames than any camera sends out of order."""
_MISSED = "RTP: missed"
"""How the library's log begins to tell of lost packets; it holds them back over UDP only."""


class Rtsp(NetworkSettings):
    """``{type: rtsp, url: "rtsp://10.0.0.9/stream", ...}``."""

    type: Literal["rtsp"]
    url: str
    """rtsp://HOST[:PORT]/PATH or rtsps://, without user and password."""
    ca: SitePath | None = None
    """For rtsps: the certificate of who signed the camera's, or the camera's own. It is always verified."""
    camera_clock: bool = False
    """Frames are dated by the camera's clock instead of their arrival. Only where the camera and this device
    keep the time of one server."""
    transport: Literal["tcp", "udp"] = "tcp"
    """udp loses packets where the network is busy; the frames spoilt by that are UNDEFINED `damaged`."""
    open_timeout_s: float = Field(default=5.0, gt=0, le=60)
    """From the first packet to a decodable stream."""
    read_timeout_s: float = Field(default=5.0, gt=0, le=60)
    """A camera that sends nothing for so long is lost."""

    @field_validator("url")
    @classmethod
    def _an_address_without_secrets(cls, url: str) -> str:
        return checked(url, "rtsp", "rtsps")

    @model_validator(mode="after")
    def _whom_to_trust(self) -> Rtsp:
        encrypted = urlsplit(self.url).scheme == "rtsps"
        if encrypted and self.ca is None:
            raise ValueError(
                "rtsps needs ca: the certificate of who signed the camera's, or the camera's own"
            )
        if not encrypted and self.ca is not None:
            raise ValueError("ca is for rtsps:// only; this connection is not encrypted")
        if encrypted and self.transport == "udp":
            raise ValueError("rtsps is not encrypted over udp; remove transport")
        return self

    def connect(self, camera: str, secrets: Secrets) -> Driver:
        """Connect, authenticate, find the video stream."""
        password = self.read_password(camera, secrets)
        return _Stream(self, camera, password)


class _Stream:
    """One connection. Every wait in it has a limit, held by the library's interrupt."""

    def __init__(self, settings: Rtsp, camera: str, password: str | None) -> None:
        self._settings = settings
        self._camera = camera
        self._container = self._connect(password)
        if not self._container.streams.video:
            self._container.close()
            raise SourceError(
                f"camera {camera}: {settings.address} has no video stream",
                hint="look up the path of the video stream in the camera's manual",
            )
        self._stream = self._container.streams.video[0]
        # AUTO would decode several frames at once and hand each out that many frames late
        self._stream.thread_type = "SLICE"
        # but for MJPEG, a frame is known to be complete only when the next one begins
        self._held_back = self._stream.codec_context.name != "mjpeg"
        self._packets = self._container.demux(self._stream)
        self._numbering = Numbering() if self._stream.codec_context.name == "h264" else None
        self._pixels = Pixels()
        self._damage = Damage()
        self._missed = False
        self._clock = CaptureClock()
        self._dating = Dating()
        self._told_us: dict[int, int] = {}
        """What the camera says when a frame was taken, by its timestamp."""
        self._dated: bool | None = None
        self._first_s: float | None = None
        self._fresh = False
        self._ready: deque[Capture] = deque()

    def capture(self) -> Capture | None:
        """See Driver."""
        if not self._ready:
            asked_s = time.monotonic()
            packet = self._next_packet()
            came_s = time.monotonic()
            if came_s - asked_s >= self._settings.read_timeout_s:
                # at its limit the library first gives what it still holds, and reports the silence at the
                # next call, as long again
                raise self._silent()
            self._ready.extend(self._decode(packet, asked_s, came_s))
        return self._ready.popleft() if self._ready else None

    def close(self) -> None:
        """See Driver."""
        self._container.close()

    def _connect(self, password: str | None) -> InputContainer:
        import av

        settings = self._settings
        if settings.transport == "udp" or settings.ca is not None:
            _listen_to_the_library()
        told: list[tuple[int, str, str]] = []
        asked_s = time.monotonic()
        try:
            with av.logging.Capture() as told:
                container = av.open(
                    _with_credentials(settings.url, settings.user, password),
                    mode="r",
                    options={
                        "rtsp_transport": settings.transport,
                        "allowed_media_types": "video",
                        # only as much as it needs to see the kind of stream: 0.2 s instead of 1.1 s
                        "analyzeduration": "100000",
                        "probesize": "32768",
                        **({} if settings.ca is None else {"tls_verify": "1", "ca_file": str(settings.ca)}),
                    },
                    timeout=(settings.open_timeout_s, settings.read_timeout_s),
                )
        except av.FFmpegError as error:
            failure = self._not_opened(error, told, time.monotonic() - asked_s)
        else:
            self._opened_s = time.monotonic()
            self._opened_in_s = self._opened_s - asked_s
            return container
        # outside of `except`, with no link to it: the library's error holds the address with the password
        raise failure

    def _next_packet(self) -> Packet[VideoStream]:
        import av

        failure: SourceError
        try:
            with av.logging.Capture() as told:
                packet = next(self._packets, None)
        except av.error.ExitError:
            failure = self._silent()
        except av.FFmpegError as error:
            failure = self._lost(error.strerror or "the connection broke")
        else:
            if packet is not None and packet.size:
                missed = any(_MISSED in text for _, _, text in told)
                if missed or self._missed:
                    # told when the next picture began, which may be the one with the gap
                    self._damage.lose("packets of it were lost on the way", packet.pts)
                self._missed = missed
                return packet
            failure = self._lost("the camera ended the stream")
        raise failure  # see _connect

    def _decode(self, packet: Packet[VideoStream], asked_s: float, came_s: float) -> Iterator[Capture]:
        import av

        self._remember_date(packet)
        if packet.is_corrupt:
            self._damage.lose("packets of it were lost on the way", packet.pts)
        if self._numbering is not None and self._numbering.misses(bytes(packet)):
            self._damage.lose("pictures before it are missing", packet.pts)
        try:
            frames = packet.decode()
        except av.FFmpegError:
            # the connection is sound: the next key frame mends the picture
            self._damage.lose("data arrived broken", packet.pts)
            return
        for frame in frames:
            damaged = self._damage.of(frame)
            pts_s = seconds(frame, self._stream.time_base)
            if self._is_fresh(pts_s, came_s):
                # a frame that was held back was complete when the wait for the next one began
                taken_s = self._clock.taken(pts_s, asked_s if self._held_back else came_s)
                if self._settings.camera_clock:
                    taken_s = self._date(frame, taken_s)
                yield Capture(self._pixels.of(frame), taken_s, damaged)

    def _remember_date(self, packet: Packet[VideoStream]) -> None:
        """The time server's time of the packet (RTCP); there is none in the first seconds."""
        if not self._settings.camera_clock or packet.pts is None:
            return
        for data in packet.iter_sidedata():
            if data.data_type == "prft":
                self._told_us[packet.pts] = int.from_bytes(bytes(data)[:8], sys.byteorder, signed=True)
        while len(self._told_us) > _REORDERED:
            del self._told_us[next(iter(self._told_us))]

    def _date(self, frame: VideoFrame, by_arrival_s: float) -> float:
        told_us = None if frame.pts is None else self._told_us.pop(frame.pts, None)
        told_s = None if told_us is None else time.monotonic() - (time.time() - told_us / 1e6)
        taken_s = self._dating.taken(by_arrival_s, told_s)
        if told_s is not None and self._dated != self._dating.agrees:
            self._dated = self._dating.agrees
            ahead_s = self._dating.ahead_s or 0.0
            if self._dated:
                log.info(
                    "camera %s: sends frames %.3f s after its date for them", self._camera, max(0.0, -ahead_s)
                )
            else:
                log.warning(
                    "camera %s: its clock is %.1f s %s ours, frames are dated by their arrival; "
                    "give both the same time server",
                    self._camera, abs(ahead_s), "ahead of" if ahead_s > 0 else "behind",
                )  # fmt: skip
        return taken_s

    def _is_fresh(self, pts_s: float | None, came_s: float) -> bool:
        """False for frames from before the stream was open: they lay there for nobody knows how long."""
        if self._first_s is None:
            self._first_s = pts_s
        if not self._fresh:
            since_s = (
                came_s - self._opened_s if pts_s is None or self._first_s is None else pts_s - self._first_s
            )
            self._fresh = since_s >= self._opened_in_s
        return self._fresh

    def _silent(self) -> SourceError:
        return self._lost(f"it sent nothing for {self._settings.read_timeout_s:g} s")

    def _lost(self, why: str) -> SourceError:
        return SourceError(
            f"camera {self._camera}: lost {self._settings.address}: {why}",
            hint="is it switched on, is the cable in?",
        )

    def _not_opened(
        self, error: FFmpegError, told: list[tuple[int, str, str]], after_s: float
    ) -> SourceError:
        """What the library's error means. Only its number is safe to use: its text holds the password."""
        from av import error as av

        settings = self._settings
        host = urlsplit(settings.url).hostname or ""
        hint = "is it switched on, is the cable in, is the address right?"
        if isinstance(error, av.HTTPUnauthorizedError | av.HTTPForbiddenError) and settings.user is None:
            why, hint = "wants a user and a password", "write user: and password: beside url:"
        elif isinstance(error, av.HTTPUnauthorizedError | av.HTTPForbiddenError):
            why = f"does not accept the user {settings.user} with this password"
            hint = "try them in the camera's web page; some cameras lock out for minutes after wrong ones"
        elif isinstance(error, av.HTTPNotFoundError):
            why, hint = "is no stream of this camera", "look up the stream's path in the camera's manual"
        elif isinstance(error, av.HTTPServerError | av.HTTPClientError):
            why = f"refuses to send: {error.strerror}"
            hint = "too many viewers at once? close the others; else restart the camera"
        elif isinstance(error, ConnectionRefusedError):
            why, hint = "refuses the connection", "is the port right, is RTSP switched on in the camera?"
        elif isinstance(error, av.ExitError | TimeoutError) or after_s >= settings.open_timeout_s:
            why = f"did not answer within {settings.open_timeout_s:g} s"
        elif isinstance(error, OSError) and error.errno == errno.EIO and not _is_known(host):
            why, hint = f"cannot be found: nobody knows the name {host}", "write its IP address"
        elif any("certificate" in text for _, _, text in told):
            why = "does not prove who it is: its certificate is not signed by ca, expired, or of another host"
            hint = f"correct ca, or give the camera a certificate for {host}; is the time right here?"
        elif isinstance(error, av.InvalidDataError):
            why, hint = "does not speak RTSP", "is the port right (usually 554), is it this device?"
        else:
            why = f"cannot be opened: {error.strerror}"
        return SourceError(f"camera {self._camera}: {settings.address} {why}", hint=hint)


def _listen_to_the_library() -> None:
    """It tells of lost packets, and why it trusts no certificate, only in its log, which is off at first.

    We catch what it says to our thread; what it says to others goes nowhere, as before.
    """
    import av

    logging.getLogger("libav").setLevel(logging.CRITICAL + 1)
    av.logging.set_skip_repeated(False)
    av.logging.set_level(av.logging.WARNING)


def _with_credentials(url: str, user: str | None, password: str | None) -> str:
    """Encoded exactly once, so that ``@`` or ``/`` in a password do not end it."""
    if user is None:
        return url
    parts = urlsplit(url)
    secret = quote(user, safe="") + (f":{quote(password, safe='')}" if password is not None else "")
    return parts._replace(netloc=f"{secret}@{parts.netloc}").geturl()


def _is_known(host: str) -> bool:
    try:
        socket.getaddrinfo(host, None)
    except OSError:
        return False
    return True
