"""USB and other cameras of the kernel (Video4Linux)."""

from __future__ import annotations

import errno
import fcntl
import grp
import logging
import os
import pwd
import stat
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, NamedTuple, cast

import numpy as np
from pydantic import Field, StringConstraints, model_validator

from edge_infer.errors import SourceBusyError, SourceError
from edge_infer.settings import Secrets, SitePath
from edge_infer.sources._driver import Capture, Driver, DriverSettings

if TYPE_CHECKING:
    import cv2
    from numpy.typing import NDArray

log = logging.getLogger(__name__)

# linux/videodev2.h: _IOR('V', 0, struct v4l2_capability)
_QUERYCAP = 0x80685600
_QUERYCAP_BYTES = 104
_VIDEO_CAPTURE = 0x00000001 | 0x00001000  # single or multi-planar
_DEVICE_CAPS = 0x80000000
# _IOWR('V', 8, struct v4l2_requestbuffers)
_REQBUFS = 0xC0145608
_REQBUFS_BYTES = 20
_SINGLE, _MULTI_PLANAR = 1, 9
_MMAP = 1


class V4l2(DriverSettings):
    """``{type: v4l2, path: /dev/v4l/by-path/..., width: 1280, height: 720, fps: 30, fourcc: MJPG}``."""

    # a kernel's driver that does not come back from a call cannot be interrupted
    isolated: ClassVar[bool] = True
    library: ClassVar[str | None] = "cv2"

    type: Literal["v4l2"]
    path: SitePath
    """Best a name below /dev/v4l/by-path: /dev/video numbers change from start to start."""
    width: int | None = Field(default=None, ge=16, le=32768)
    """Pixels; together with height. Without: what the device is set to."""
    height: int | None = Field(default=None, ge=16, le=32768)
    """Pixels."""
    fps: float | None = Field(default=None, gt=0, le=1000)
    """Frames a second."""
    fourcc: Annotated[str, StringConstraints(pattern=r"^[A-Z0-9 ]{4}$")] | None = None
    """How the camera sends its pixels: MJPG, YUYV; many give their full rate only with MJPG."""
    open_timeout_s: float = Field(default=5.0, gt=0, le=60)
    """Until the device is set up."""
    read_timeout_s: float = Field(default=5.0, gt=0, le=60)
    """A device that gives nothing for so long is lost."""

    @model_validator(mode="after")
    def _a_whole_size(self) -> V4l2:
        if (self.width is None) != (self.height is None):
            raise ValueError("width and height go together; give both or none")
        return self

    def connect(self, camera: str, secrets: Secrets) -> Driver:  # noqa: ARG002 - a device has no password
        """Set the device up and read back what it took."""
        return _Device(self, camera)


class _Device:
    """An open device node."""

    def __init__(self, settings: V4l2, camera: str) -> None:
        import cv2

        self._camera = camera
        self._path = settings.path
        identity = _identify(camera, self._path)
        # its warnings would stand between our lines, and we ask for the reason ourselves
        cv2.utils.logging.setLogLevel(cv2.utils.logging.LOG_LEVEL_SILENT)
        # never CAP_ANY: it would try other ways, and its time limits are not ours
        self._capture = cv2.VideoCapture(str(self._path), cv2.CAP_V4L2)
        if not self._capture.isOpened():
            raise SourceError(
                f"camera {camera}: {self._path} ({identity}) does not start",
                hint=f"is another program using it? `fuser -v {self._path}` names it",
            )
        try:
            self._set_up(settings, identity)
        except BaseException:
            self._capture.release()
            raise

    def capture(self) -> Capture | None:
        """See Driver."""
        ok, pixels = self._capture.read()
        now_s = time.monotonic()
        if not ok:
            gone = "was unplugged" if not self._path.exists() else "gives no more pictures"
            raise SourceError(f"camera {self._camera}: {self._path} {gone}", hint="is its cable in?")
        if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] != 3:
            raise SourceError(
                f"camera {self._camera}: {self._path} gives pixels of an unknown kind "
                f"({pixels.shape}, {pixels.dtype})",
                hint="set fourcc: YUYV or MJPG",
            )
        return Capture(cast("NDArray[np.uint8]", pixels), self._taken(now_s))

    def close(self) -> None:
        """See Driver."""
        self._capture.release()

    def _taken(self, now_s: float) -> float:
        """The driver's own time, which most take from the monotonic clock; else now."""
        import cv2

        taken_s = float(self._capture.get(cv2.CAP_PROP_POS_MSEC)) / 1000
        return taken_s if now_s - 60 < taken_s <= now_s else now_s

    def _set_up(self, settings: V4l2, identity: str) -> None:
        import cv2

        # the pixel format first: sizes and rates depend on it
        if settings.fourcc is not None:
            self._capture.set(cv2.CAP_PROP_FOURCC, cv2.VideoWriter.fourcc(*settings.fourcc))
        if settings.width is not None and settings.height is not None:
            self._capture.set(cv2.CAP_PROP_FRAME_WIDTH, settings.width)
            self._capture.set(cv2.CAP_PROP_FRAME_HEIGHT, settings.height)
        if settings.fps is not None:
            self._capture.set(cv2.CAP_PROP_FPS, settings.fps)
        taken = _Mode.of(self._capture)
        log.info("camera %s: %s is %s, %s", self._camera, self._path, identity, taken)
        if settings.width is not None and (settings.width, settings.height) != (taken.width, taken.height):
            # zones in pixels would lie elsewhere
            raise SourceError(
                f"camera {self._camera}: {self._path} does not give {settings.width}x{settings.height}; "
                f"it took {taken}",
                hint=f"`v4l2-ctl -d {self._path} --list-formats-ext` lists what it can",
            )
        if settings.fourcc is not None and settings.fourcc != taken.fourcc:
            log.warning("camera %s: asked for %s, got %s", self._camera, settings.fourcc, taken)
        if settings.fps is not None and abs(settings.fps - taken.fps) > 0.01 * settings.fps:
            log.warning("camera %s: asked for %g frames a second, got %s", self._camera, settings.fps, taken)


class _Mode(NamedTuple):
    """What the device says it does; ``set`` returns True for refused values too."""

    width: int
    height: int
    fps: float
    fourcc: str

    @classmethod
    def of(cls, capture: cv2.VideoCapture) -> _Mode:
        import cv2

        code = int(capture.get(cv2.CAP_PROP_FOURCC)) & 0xFFFFFFFF
        return cls(
            int(capture.get(cv2.CAP_PROP_FRAME_WIDTH)),
            int(capture.get(cv2.CAP_PROP_FRAME_HEIGHT)),
            float(capture.get(cv2.CAP_PROP_FPS)),
            code.to_bytes(4, "little").decode("ascii", "replace"),
        )

    def __str__(self) -> str:
        return f"{self.width}x{self.height} {self.fourcc} {self.fps:g} frames a second"


def _identify(camera: str, path: Path) -> str:
    """What the device calls itself. SourceError with the honest reason, which OpenCV keeps to itself."""
    try:
        if not stat.S_ISCHR(path.stat().st_mode):
            raise SourceError(f"camera {camera}: {path} is not a device", hint=_others())
        handle = os.open(path, os.O_RDWR | os.O_NONBLOCK)
    except OSError as error:
        raise _not_opened(camera, path, error) from error
    answer = bytearray(_QUERYCAP_BYTES)
    try:
        fcntl.ioctl(handle, _QUERYCAP, answer)
        busy = _has_an_owner(handle)
    except OSError as error:
        raise SourceError(f"camera {camera}: {path} is not a camera", hint=_others()) from error
    finally:
        os.close(handle)
    if busy:
        raise _in_use(camera, path)
    all_caps, node_caps = (int.from_bytes(answer[at : at + 4], "little") for at in (84, 88))
    card, bus = (bytes(answer[at : at + 32]).split(b"\0")[0].decode("utf-8", "replace") for at in (16, 48))
    if not (node_caps if all_caps & _DEVICE_CAPS else all_caps) & _VIDEO_CAPTURE:
        raise SourceError(
            f"camera {camera}: {path} ({card}) gives no pictures",
            hint=f"a camera's second node holds only data about them; {_others()}",
        )
    return f"{card} at {bus}"


def _has_an_owner(handle: int) -> bool:
    """True where another program takes pictures: opening works for everybody, only buffers have one owner."""
    for kind in (_SINGLE, _MULTI_PLANAR):
        # none: asks for nothing, frees nothing of ours
        request = bytearray(_REQBUFS_BYTES)
        request[4:12] = kind.to_bytes(4, "little") + _MMAP.to_bytes(4, "little")
        try:
            fcntl.ioctl(handle, _REQBUFS, request)
        except OSError as error:
            if error.errno == errno.EBUSY:
                return True
    return False


def _not_opened(camera: str, path: Path, error: OSError) -> SourceError:
    if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ENXIO, errno.ENODEV):
        return SourceError(f"camera {camera}: there is no {path}", hint=_others())
    if error.errno in (errno.EACCES, errno.EPERM):
        return _forbidden(camera, path)
    if error.errno == errno.EBUSY:
        return _in_use(camera, path)
    return SourceError(f"camera {camera}: cannot open {path}: {error.strerror}", hint=_others())


def _in_use(camera: str, path: Path) -> SourceBusyError:
    return SourceBusyError(
        f"camera {camera}: {path} is in use", hint=f"`fuser -v {path}` names the program that has it"
    )


def _forbidden(camera: str, path: Path) -> SourceError:
    me, groups = _user(os.geteuid()), ", ".join(sorted(_group(gid) for gid in os.getgroups()))
    try:
        status = path.stat()
    except OSError:
        return SourceError(f"camera {camera}: user {me} may not look for {path}", hint=_others())
    owner, group = _user(status.st_uid), _group(status.st_gid)
    return SourceError(
        f"camera {camera}: no permission for {path} ({owner}:{group} {stat.filemode(status.st_mode)}); "
        f"this is user {me}, in the groups {groups or 'of nobody'}",
        hint=f"`sudo usermod -aG {group} {me}`, then start again",
    )


def _others() -> str:
    """The cameras that are there."""
    found = sorted(str(path) for path in (*Path("/dev/v4l/by-path").glob("*"), *Path("/dev").glob("video*")))
    return f"cameras on this machine: {', '.join(found) or 'none; is it plugged in?'}"


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _group(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)
