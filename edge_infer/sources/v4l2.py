"""USB and other cameras of the kernel (Video4Linux)."""

from __future__ import annotations

import errno
import grp
import logging
import os
import pwd
import re
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, NamedTuple, cast

import numpy as np
from pydantic import Field, StringConstraints, model_validator

from edge_infer.errors import SourceBusyError, SourceError
from edge_infer.settings import Secrets, SitePath
from edge_infer.sources import _v4l2_node
from edge_infer.sources._driver import Capture, Driver, DriverSettings

if TYPE_CHECKING:
    import cv2
    from numpy.typing import NDArray

log = logging.getLogger(__name__)

_ControlName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9_]{1,40}$")]


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
    """How the camera sends its pixels: MJPG, YUYV. Without, but with a size and a rate: uncompressed where
    that is as fast, else MJPG."""
    controls: dict[_ControlName, int] = Field(default_factory=dict)
    """Others by the names of `v4l2-ctl --list-ctrls`, set in the order written (automatic ones off first)."""
    open_timeout_s: float = Field(default=5.0, gt=0, le=60)
    """Until the device is set up."""
    read_timeout_s: float = Field(default=5.0, gt=0, le=60)
    """A device that gives nothing for so long is lost."""

    @model_validator(mode="after")
    def _a_whole_size(self) -> V4l2:
        if (self.width is None) != (self.height is None):
            raise ValueError("width and height go together; give both or none")
        return self

    @property
    def size(self) -> tuple[int, int] | None:
        """Width and height, where they are given."""
        return None if self.width is None or self.height is None else (self.width, self.height)

    def connect(self, camera: str, secrets: Secrets) -> Driver:  # noqa: ARG002 - a device has no password
        """Set the device up and read back what it took."""
        return _Device(self, camera)


class _Device:
    """An open device node."""

    def __init__(self, settings: V4l2, camera: str) -> None:
        import cv2

        self._camera = camera
        self._path = settings.path
        self._is_monotonic = False
        """The driver's clock is ours."""
        with _open_node(camera, self._path) as (node, identity):
            if _v4l2_node.has_an_owner(node):
                raise _in_use(camera, self._path)
            wanted = settings.size or _v4l2_node.size(node)
            self._offers = _v4l2_node.offers(node, *wanted) if wanted else []
        _warn_of_a_number(camera, self._path, identity)
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
            self._set_up(settings, wanted, identity)
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
        # told by a new frame, and for good: one that lay there for minutes must not pass for new
        self._is_monotonic |= now_s - 60 < taken_s <= now_s
        return min(taken_s, now_s) if self._is_monotonic else now_s

    def _set_up(self, settings: V4l2, wanted: tuple[int, int] | None, identity: _v4l2_node.Identity) -> None:
        import cv2

        fourcc = settings.fourcc
        if fourcc is None and settings.fps is not None:
            fourcc = _v4l2_node.choose(self._offers, settings.fps)
        # the pixel format first: sizes and rates depend on it
        if fourcc is not None:
            self._capture.set(cv2.CAP_PROP_FOURCC, cv2.VideoWriter.fourcc(*fourcc))
        if wanted is not None:
            # also where it is what the device was set to: opening it, OpenCV took another one
            self._capture.set(cv2.CAP_PROP_FRAME_WIDTH, wanted[0])
            self._capture.set(cv2.CAP_PROP_FRAME_HEIGHT, wanted[1])
        if settings.fps is not None:
            self._capture.set(cv2.CAP_PROP_FPS, settings.fps)
        taken = _Mode.of(self._capture)
        log.info("camera %s: %s is %s, %s", self._camera, self._path, identity, taken)
        if settings.size not in (None, (taken.width, taken.height)):
            # zones in pixels would lie elsewhere
            raise SourceError(
                f"camera {self._camera}: {self._path} does not give {settings.width}x{settings.height}; "
                f"it took {taken}",
                hint=f"`v4l2-ctl -d {self._path} --list-formats-ext` lists what it can",
            )
        if fourcc is not None and fourcc != taken.fourcc:
            log.warning("camera %s: asked for %s, got %s", self._camera, fourcc, taken)
        # some say NaN, which is near nothing
        if settings.fps is not None and not abs(settings.fps - taken.fps) <= 0.01 * settings.fps:
            log.warning(
                "camera %s: asked for %g frames a second, got %s%s",
                self._camera, settings.fps, taken, self._faster(taken),
            )  # fmt: skip
        with _open_node(self._camera, self._path) as (node, _):
            self._set_controls(node, settings.controls)

    def _faster(self, taken: _Mode) -> str:
        others = {
            one.fourcc: max(one.fps)
            for one in self._offers
            if one.fps
            and one.fourcc in (*_v4l2_node.UNCOMPRESSED, "MJPG")
            and one.fourcc != taken.fourcc
            and max(one.fps) > 1.01 * taken.fps
        }
        return "".join(f"; {fourcc} gives up to {fps:g}" for fourcc, fps in others.items())

    def _set_controls(self, node: int, wanted: dict[str, int]) -> None:
        known = _v4l2_node.controls(node) if wanted else {}
        for name, value in wanted.items():
            if (control := known.get(name)) is None:
                raise SourceError(
                    f"camera {self._camera}: {self._path} has no control {name}",
                    hint=f"it has {', '.join(sorted(known)) or 'none'}",
                )
            try:
                taken = _v4l2_node.set_control(node, control, value)
                why = f"it stays {taken}"
            except OSError as error:
                taken, why = None, str(error.strerror)
            if taken != value:
                raise SourceError(
                    f"camera {self._camera}: cannot set {name} to {value}: {why}",
                    hint=f"{control.smallest} to {control.largest} is allowed; "
                    "switch an automatic control off first",
                )


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


@contextmanager
def _open_node(camera: str, path: Path) -> Iterator[tuple[int, _v4l2_node.Identity]]:
    """The node beside OpenCV's capture. SourceError with the honest reason, which OpenCV keeps to itself."""
    try:
        if not stat.S_ISCHR(path.stat().st_mode):
            raise SourceError(f"camera {camera}: {path} is not a device", hint=_others())
        node = os.open(path, os.O_RDWR | os.O_NONBLOCK)
    except OSError as error:
        raise _not_opened(camera, path, error) from error
    try:
        try:
            identity = _v4l2_node.identify(node)
        except OSError as error:
            if error.errno == errno.ENODEV:
                raise _not_opened(camera, path, error) from error
            raise SourceError(f"camera {camera}: {path} is not a camera", hint=_others()) from error
        if not identity.gives_pictures:
            raise SourceError(
                f"camera {camera}: {path} ({identity.card}) gives no pictures",
                hint=f"a camera's second node holds only data about them; {_others()}",
            )
        yield node, identity
    finally:
        os.close(node)


def _warn_of_a_number(camera: str, path: Path, identity: _v4l2_node.Identity) -> None:
    """With several cameras /dev/video0 is another one after the next start."""
    if not re.fullmatch(r"/dev/video\d+", str(path)):
        return
    others = [other for other in Path("/dev").glob("video*") if other != path and _is_camera(other)]
    if others:
        links = [str(link) for link in sorted(Path("/dev/v4l/by-path").glob("*")) if link.resolve() == path]
        log.warning(
            "camera %s: %s is %s today, but there are %d cameras, and numbers change from start to start; "
            "name it by its path below /dev/v4l/by-path%s",
            camera, path, identity, 1 + len(others), "".join(f": {link}" for link in links),
        )  # fmt: skip


def _is_camera(path: Path) -> bool:
    try:
        node = os.open(path, os.O_RDWR | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        return _v4l2_node.identify(node).gives_pictures
    except OSError:
        return False
    finally:
        os.close(node)


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
