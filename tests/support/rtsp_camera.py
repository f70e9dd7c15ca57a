"""An RTSP camera for tests: GStreamer's own server, with a clock and a counter burned into each frame.

The server half runs under Debian's Python (the one that has ``gi``) in a process of its own, so that it can
be frozen and killed like a camera: ``python3 rtsp_camera.py --help``. The other half starts it and reads the
burned-in numbers back.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import threading
import time
import zlib
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

DEBIAN_PYTHON = "/usr/bin/python3"
WIDTH, HEIGHT = 640, 360
CELL = 16
"""Pixels of one bit; H.264's macroblock, so that bits do not bleed."""
BITS = WIDTH // CELL
BLACK, WHITE = 16, 235


@dataclass(frozen=True)
class Stamp:
    """What the camera wrote into a frame."""

    time_s: float
    """When the camera drew it, on the monotonic clock that all processes of this machine share."""
    count: int
    """From 0."""


def read_stamp(pixels: NDArray[np.uint8]) -> Stamp | None:
    """None where the numbers do not fit their checksum: the picture is broken."""
    first, second = (
        sum(
            1 << bit
            for bit in range(BITS)
            if pixels[row + 4 : row + CELL - 4, bit * CELL + 4 : (bit + 1) * CELL - 4].mean() > 125
        )
        for row in (0, CELL)
    )
    count, check = second & 0xFFFFFF, second >> 24
    return Stamp(first / 1000, count) if check == _checksum(first, count) else None


class RtspCamera:
    """A running camera. Use it as a context manager; it ends with the test."""

    def __init__(self, *options: str, user: str | None = None, password: str | None = None) -> None:
        self._command = [DEBIAN_PYTHON, __file__, *options]
        if user is not None and password is not None:
            self._command += ["--user", user, "--password", password]
        self.host = "[::1]" if "::1" in options else "127.0.0.1"
        self.scheme = "rtsps" if "--certificate" in options else "rtsp"
        self._start()

    @property
    def url(self) -> str:
        """Without user and password."""
        return f"{self.scheme}://{self.host}:{self.port}/cam"

    def restart(self, *more: str) -> None:
        """Powered again after `kill`, at the same address; its clock and counters begin anew."""
        self._close_pipes()
        self._start("--port", str(self.port), *more)

    def _start(self, *more: str) -> None:
        self._process = subprocess.Popen(
            [*self._command, *more], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.port = int(self._answer())

    def lose(self, packets: int) -> None:
        """Do not send the next packets of video; returns when they are gone."""
        self._tell(f"lose {packets}")
        self._answer()

    def resize(self, width: int, height: int) -> None:
        """From one of the next frames on, in the same connection."""
        self._tell(f"size {width} {height}")

    def _tell(self, order: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{order}\n")
        self._process.stdin.flush()

    def freeze(self) -> None:
        """Nothing comes any more, the connection stays: a pulled cable."""
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(5)

    def __enter__(self) -> RtspCamera:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self._close_pipes()

    def _close_pipes(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()


def _checksum(first: int, count: int) -> int:
    return zlib.crc32(first.to_bytes(5, "little") + count.to_bytes(3, "little")) & 0xFFFF


# -- the server's half: no third-party package but gi


class _Painter:
    """Grey noise, a light block that moves, two rows of bits."""

    def __init__(self, busy: bool, width: int, height: int, frozen_after: int | None = None) -> None:
        self._busy = busy
        self._padding = bytes([110]) * (width - WIDTH)
        self._below = bytes([110]) * width * (height - HEIGHT)
        self._frozen_after = frozen_after
        self._frozen: bytes | None = None
        value = 1
        tile = bytearray()
        for _ in range(WIDTH // 8 * (HEIGHT // 8)):
            value = (value * 1103515245 + 12345) & 0x7FFFFFFF
            tile.append(80 + (value >> 16) % 60)
        self._rows = [
            b"".join(bytes([tile[row // 8 * (WIDTH // 8) + x]]) * 8 for x in range(WIDTH // 8))
            for row in range(HEIGHT)
        ]
        self._chroma = bytes([128]) * (width * height // 2)

    def draw(self, time_s: float, count: int) -> bytes:
        """An I420 picture."""
        if self._frozen is not None:
            return self._frozen
        picture = self._draw(time_s, count)
        if count == self._frozen_after:
            self._frozen = picture
        return picture

    def _draw(self, time_s: float, count: int) -> bytes:
        first = int(time_s * 1000) & (1 << BITS) - 1
        second = count & 0xFFFFFF | _checksum(first, count & 0xFFFFFF) << 24
        rows = list(self._rows)
        if self._busy:
            # every frame needs many packets
            rows = [os.urandom(WIDTH) if row % 8 < 4 else rows[row] for row in range(HEIGHT)]
        rows[0:CELL] = [self._bits(first)] * CELL
        rows[CELL : 2 * CELL] = [self._bits(second)] * CELL
        left = count * 6 % (WIDTH - 100)
        for row in range(HEIGHT // 2, HEIGHT // 2 + 100):
            rows[row] = rows[row][:left] + bytes([230]) * 100 + rows[row][left + 100 :]
        return b"".join(row + self._padding for row in rows) + self._below + self._chroma

    @staticmethod
    def _bits(value: int) -> bytes:
        return b"".join(bytes([WHITE if value >> bit & 1 else BLACK]) * CELL for bit in range(BITS))


_ENCODERS = {
    "h264": "x264enc speed-preset=ultrafast tune=zerolatency key-int-max={gop} bitrate=4000 threads=1 {more} "
    "! h264parse ! rtph264pay pt=96 config-interval=1",
    "h265": "x265enc speed-preset=ultrafast tune=zerolatency bitrate=4000 "
    "option-string=keyint={gop}:min-keyint={gop}:scenecut=0:bframes=0 "
    "! h265parse ! rtph265pay pt=96 config-interval=1",
    "jpeg": "jpegenc quality=90 ! rtpjpegpay pt=26",
}


def _serve(options: argparse.Namespace) -> None:
    import gi  # type: ignore[import-not-found]  # Debian's, not in the virtual environment

    gi.require_version("Gst", "1.0")
    gi.require_version("GstRtspServer", "1.0")
    from gi.repository import GLib, Gst, GstRtspServer  # type: ignore[import-not-found]

    Gst.init(None)
    encoder = _ENCODERS[options.codec].format(gop=options.gop, more=options.encoder)
    if options.format != "I420":
        encoder = f"videoconvert ! video/x-raw,format={options.format} ! {encoder}"
    width, height = options.width, options.height
    orders = _Orders(Gst)

    def caps(width: int, height: int) -> str:
        return f"video/x-raw,format=I420,width={width},height={height},framerate={options.fps}/1"

    def push(source: Any, stop: threading.Event) -> None:
        # the server's clock is the monotonic one, and tells the readers when a frame was taken (RTCP)
        while not source.get_base_time() and not stop.wait(0.005):
            pass
        painter = _Painter(options.busy, width, height, options.frozen_after)
        started, count = source.get_base_time() / Gst.SECOND, 0
        while not stop.wait(max(0.0, started + count / options.fps - time.monotonic())):
            if orders.sizes:
                size = orders.sizes.popleft()
                painter = _Painter(options.busy, *size, options.frozen_after)
                source.set_property("caps", Gst.Caps.from_string(caps(*size)))
            drawn = time.monotonic()
            buffer = Gst.Buffer.new_wrapped(painter.draw(drawn, count))
            # like a camera's: when it was taken, even if it is late
            buffer.pts = buffer.dts = int((drawn - started) * Gst.SECOND)
            buffer.duration = Gst.SECOND // options.fps
            if source.emit("push-buffer", buffer) != Gst.FlowReturn.OK:
                return
            count += 1

    def configure(_: Any, media: Any) -> None:
        stop = threading.Event()
        media.connect("unprepared", lambda _: stop.set())
        bin_ = media.get_element()
        pad = bin_.get_child_by_name("pay0").get_static_pad("src")
        pad.add_probe(Gst.PadProbeType.BUFFER, orders.pass_or_drop)
        source = bin_.get_child_by_name("src")
        threading.Thread(target=push, args=(source, stop), daemon=True).start()

    class Media(GstRtspServer.RTSPMedia):  # type: ignore[misc]
        def do_setup_rtpbin(self, rtpbin: Any) -> bool:
            rtpbin.set_property("rtcp-sync-send-time", options.clock == "sending")
            # the numbers are GstRtpNtpTimeSource's
            rtpbin.set_property("ntp-time-source", 2 if options.clock == "unset" else 0)
            return True

    factory = GstRtspServer.RTSPMediaFactory()
    factory.set_media_gtype(Media)
    factory.set_shared(True)
    factory.set_launch(
        f"( appsrc name=src is-live=true block=true format=GST_FORMAT_TIME "
        f"max-bytes={width * height * 3} caps={caps(width, height)} ! {encoder} "
        # takes lists of packets apart, so that one can get lost
        "! identity name=pay0 "
        # a microphone, offered before the video by some
        f"{'audiotestsrc is-live=true ! mulawenc ! rtppcmupay name=pay1 pt=0' if options.audio else ''} )"
    )
    factory.connect("media-configure", configure)
    server = GstRtspServer.RTSPServer()
    server.set_address(options.address)
    server.set_service(str(options.port))
    if options.user is not None or options.certificate is not None:
        _protect(GstRtspServer, server, factory, options)
    server.get_mount_points().add_factory("/cam", factory)
    server.attach(None)
    threading.Thread(target=orders.obey, daemon=True).start()
    _say(server.get_bound_port())
    GLib.MainLoop().run()


def _say(number: int) -> None:
    sys.stdout.write(f"{number}\n")
    sys.stdout.flush()


class _Orders:
    """What the test wants: packets that are numbered but never sent, frames of another size."""

    def __init__(self, gst: Any) -> None:
        self._gst = gst
        self._to_lose = 0
        self.sizes: deque[tuple[int, int]] = deque()

    def obey(self) -> None:
        for line in sys.stdin:
            order, *numbers = line.split()
            if order == "lose":
                self._to_lose = int(numbers[0])
            else:
                self.sizes.append((int(numbers[0]), int(numbers[1])))

    def pass_or_drop(self, *_: Any) -> Any:
        if not self._to_lose:
            return self._gst.PadProbeReturn.OK
        self._to_lose -= 1
        if not self._to_lose:
            _say(0)
        return self._gst.PadProbeReturn.DROP


def _protect(rtsp: Any, server: Any, factory: Any, options: argparse.Namespace) -> None:
    auth = rtsp.RTSPAuth()
    token = rtsp.RTSPToken()
    token.set_string("media.factory.role", "viewer")
    permissions = rtsp.RTSPPermissions()
    for permission in ("media.factory.access", "media.factory.construct"):
        permissions.add_permission_for_role("viewer", permission, True)
    factory.set_permissions(permissions)
    # the methods are GstRTSPAuthMethod's, which gi does not name
    if options.user is None:
        auth.set_default_token(token)
    elif options.basic:
        auth.add_basic(rtsp.RTSPAuth.make_basic(options.user, options.password), token)
        auth.set_supported_methods(1)
    else:
        auth.add_digest(options.user, options.password, token)
        auth.set_supported_methods(2)
    if options.certificate is not None:
        from gi.repository import Gio

        auth.set_tls_certificate(Gio.TlsCertificate.new_from_files(options.certificate, options.key))
    server.set_auth(auth)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="An RTSP camera at rtsp://127.0.0.1:PORT/cam; prints PORT.")
    parser.add_argument("--fps", type=int, default=25)
    parser.add_argument("--gop", type=int, default=25, help="frames from one key frame to the next")
    parser.add_argument("--codec", choices=_ENCODERS, default="h264")
    parser.add_argument("--busy", action="store_true", help="pictures that need many packets each")
    parser.add_argument("--width", type=int, default=WIDTH)
    parser.add_argument("--height", type=int, default=HEIGHT)
    parser.add_argument("--format", default="I420", help="how the encoder gets it: Y42B, I420_10LE, GRAY8")
    parser.add_argument("--encoder", default="", help="more properties of the H.264 encoder")
    parser.add_argument("--audio", action="store_true", help="a microphone beside it")
    parser.add_argument(
        "--clock", choices=("capture", "sending", "unset"), default="sending",
        help="what its RTCP dates: when frames were taken, when they were sent, nonsense",
    )  # fmt: skip
    parser.add_argument("--address", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--certificate", help="speak TLS with it")
    parser.add_argument("--key")
    parser.add_argument("--basic", action="store_true", help="basic authentication, not digest")
    parser.add_argument("--frozen-after", type=int, help="pictures; from then on it sends the same one")
    parser.add_argument("--user")
    parser.add_argument("--password")
    return parser.parse_args()


if __name__ == "__main__":
    _serve(_options())
