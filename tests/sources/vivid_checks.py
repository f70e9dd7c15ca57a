"""What a kernel's camera driver is asked for real; runs inside the guest, see test_vivid.py.

The cameras show one colour; when it is changed, that is the clock burned into the pictures.
"""

from __future__ import annotations

import logging
import os
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import ClassVar

from edge_infer.camera import Camera, State
from edge_infer.errors import SourceError, SourceStalledError
from edge_infer.frame import Frame
from edge_infer.messages.camera import CameraMessage
from edge_infer.settings import Secrets
from edge_infer.sources import Source
from edge_infer.sources.v4l2 import V4l2
from tests.support.vivid.guest import UDEV_RULES, control, load_cameras, unload_cameras

BY_PATH = Path("/dev/v4l/by-path/platform-vivid.0-video-index0")
"""As udev's own rules name it."""
LEFT, RIGHT = Path("/dev/v4l/by-path/left"), Path("/dev/v4l/by-path/right")
PATTERNS = {"red": 7, "green": 8, "blue": 9}
COLOURS = {"red": (0, 0, 255), "green": (0, 255, 0), "blue": (255, 0, 0)}
"""BGR."""
PROCESS_S = 60.0
"""Until a camera with a process of its own is there, likewise."""
ONE_S = 1.0
"""Ample for anything that should happen at once, on a machine ten times slower than a real one."""


def show(colour: str, number: int = 0) -> float:
    """Have the camera show it; the time when every new picture does."""
    control(number, test_pattern=PATTERNS[colour], osd_text_mode=2)
    return time.monotonic()


def colour_of(frame: Frame) -> str:
    """What it shows from corner to corner."""
    mean = frame.pixels.reshape(-1, 3).mean(axis=0)
    spread = frame.pixels.reshape(-1, 3).std(axis=0)
    for name, colour in COLOURS.items():
        if all(abs(m - c) < 12 and s < 6 for m, c, s in zip(mean, colour, spread, strict=True)):
            return name
    return f"BGR {mean.round()} +- {spread.round()}"


class InThread(V4l2):
    """The same driver in this process: one of its own takes the guest ten seconds to start."""

    isolated: ClassVar[bool] = False


def opened(path: str | Path = "/dev/video0", **keys: object) -> Source:
    return InThread.model_validate({"type": "v4l2", "path": Path(path), **keys}).open("usb", Secrets({}))


def refused(path: str | Path = "/dev/video0", **keys: object) -> str:
    try:
        opened(path, **keys).close()
    except SourceError as error:
        return str(error)
    raise AssertionError("not refused")


def read(source: Source, timeout_s: float = 5.0) -> Frame:
    frame = source.read(timeout_s)
    assert frame is not None
    return frame


def wait_for(wanted: Callable[[], bool], timeout_s: float) -> float:
    """Seconds until it was so."""
    started_s = time.monotonic()
    while not wanted():
        assert time.monotonic() - started_s < timeout_s, f"not within {timeout_s} s"
        time.sleep(0.01)
    return time.monotonic() - started_s


def children() -> list[int]:
    """Of this process; also such as ended and were not waited for."""
    found: list[int] = []
    for task in Path("/proc/self/task").iterdir():
        # a thread may end meanwhile
        with suppress(OSError):
            found += map(int, (task / "children").read_text(encoding="ascii").split())
    return found


def has_open(device: str, process: int) -> bool:
    """Whether the process holds the device."""
    with suppress(OSError):
        return any(handle.readlink() == Path(device) for handle in Path(f"/proc/{process}/fd").iterdir())
    return False


class Log(logging.Handler):
    """What the product said."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(f"{record.levelname} {record.getMessage()}")


@contextmanager
def listening() -> Iterator[list[str]]:
    handler = Log()
    logger = logging.getLogger("edge_infer")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield handler.said
    finally:
        logger.removeHandler(handler)


class Viewer:
    """A station and whoever watches the camera."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.states: list[tuple[State, str]] = []

    def offer(self, frame: Frame) -> None:
        self.frames.append(frame)

    def camera_changed(self, camera: str, state: State, text: str) -> None:
        assert camera == "usb"
        self.states.append((state, text))

    def camera_counted(self, camera: CameraMessage) -> None:
        assert camera.camera == "usb"

    @property
    def state(self) -> State | None:
        return self.states[-1][0] if self.states else None


@contextmanager
def watched(
    path: str | Path = "/dev/video0", kind: type[V4l2] = InThread, **keys: object
) -> Iterator[Viewer]:
    """The camera as the service runs it."""
    viewer = Viewer()
    # one colour is the same picture again and again
    settings = kind.model_validate({"type": "v4l2", "path": Path(path), "frozen_s": None, **keys})
    camera = Camera("usb", settings, Secrets({}), [viewer], viewer)
    camera.start()
    try:
        wait_for(lambda: bool(viewer.frames), 10 if kind is InThread else PROCESS_S)
        yield viewer
    finally:
        camera.stop()
        assert camera.join(5)


# -- frames


def check_colours_are_right_in_every_pixel_format() -> None:
    show("red")
    for fourcc in ("YUYV", "UYVY", "NV12", "NV21", "YU12", "YV12", "RGB3", "BGR3"):
        with closing(opened(width=640, height=360, fourcc=fourcc)) as source:
            frame = read(source)
        assert (colour_of(frame), frame.pixels.shape) == ("red", (360, 640, 3)), (fourcc, colour_of(frame))


def check_the_size_is_set_after_the_format_and_read_back() -> None:
    with listening() as said, closing(opened(width=1280, height=720, fps=10, fourcc="UYVY")) as source:
        assert read(source).pixels.shape == (720, 1280, 3)
    assert said[-1].endswith("1280x720 UYVY 10 frames a second"), said
    assert len([line for line in said if "WARNING" in line]) == 1, said


def check_another_size_than_asked_for_is_refused() -> None:
    message = refused(width=642, height=362)
    assert "does not give 642x362; it took 640x360 " in message, message
    assert "list-formats-ext" in message, message


def check_mjpg_that_the_camera_does_not_have_is_said() -> None:
    with listening() as said, closing(opened(width=640, height=360, fourcc="MJPG")) as source:
        show("red")
        wait_for(lambda: colour_of(read(source)) == "red", 5)
    assert any("WARNING camera usb: asked for MJPG, got 640x360 " in line for line in said), said


def check_a_rate_that_the_camera_does_not_have_is_said() -> None:
    with listening() as said, closing(opened(width=1920, height=1080, fps=30)) as source:
        assert read(source).pixels.shape == (1080, 1920, 3)
    assert any(
        "asked for 30 frames a second, got 1920x1080 YUYV 5 frames a second" in line for line in said
    ), said


def check_frames_come_at_the_rate_that_was_asked_for() -> None:
    with closing(opened(width=320, height=180, fps=10)) as source:
        frames = [read(source) for _ in range(16)]
    between = sorted(later.time_s - earlier.time_s for earlier, later in pairwise(frames))
    assert 0.09 < between[len(between) // 2] < 0.11, between
    assert [frame.seq for frame in frames] == sorted({frame.seq for frame in frames})


# -- when


def check_the_time_of_a_picture_is_that_of_its_light() -> None:
    show("red")
    with closing(opened(width=320, height=180, fps=25)) as source:
        read(source)
        for colour in ("green", "blue"):
            before_s = time.monotonic()
            after_s = show(colour)
            while colour_of(frame := read(source)) != colour:
                # an older picture: taken before the change was complete
                assert frame.time_s < after_s + 0.05, (frame.time_s - after_s, colour)
            assert frame.time_s > before_s - 0.05, frame.time_s - before_s
            assert frame.time_s <= time.monotonic()


def check_a_slow_reader_sees_the_newest_picture_not_the_oldest() -> None:
    show("red")
    with closing(opened(width=320, height=180, fps=10)) as source:
        first = read(source)
        assert colour_of(first) == "red"
        time.sleep(0.6)
        show("green")
        time.sleep(0.6)
        frame = read(source)
        assert colour_of(frame) == "green", colour_of(frame)
        assert time.monotonic() - frame.time_s < 0.3
        assert frame.seq - first.seq > 6
    # reopened, it begins with what is there now
    show("blue")
    with closing(opened(width=320, height=180, fps=10)) as source:
        assert colour_of(read(source)) == "blue"


# -- settings


def check_controls_are_set_by_their_names_and_read_back() -> None:
    with closing(opened(controls={"brightness": 200, "gain_automatic": 0, "gain": 33})) as source:
        read(source)
        seen = subprocess.run(
            ["v4l2-ctl", "-d", "/dev/video0", "-C", "brightness,gain"],
            capture_output=True,
            text=True,
            check=True,
        )
    assert seen.stdout.split() == ["brightness:", "200", "gain:", "33"], seen.stdout
    control(0, brightness=128, gain_automatic=1)


def check_controls_that_the_camera_refuses_are_an_error() -> None:
    message = refused(controls={"exposure_time_absolute": 100})
    assert "has no control exposure_time_absolute; it has " in message, message
    assert "brightness" in message, message
    message = refused(controls={"brightness": 300})
    assert "cannot set brightness to 300: " in message, message
    assert "0 to 255 is allowed" in message, message
    assert "cannot set gain to 34: it stays " in refused(controls={"gain_automatic": 1, "gain": 34})
    control(0, brightness=128)


# -- trouble


def check_a_camera_that_somebody_has_is_said_and_his_pictures_go_on() -> None:
    with closing(opened()) as source:
        read(source)
        message = refused()
        assert "/dev/video0 is in use; `fuser -v /dev/video0` names" in message, message
        read(source)


def check_a_camera_runs_in_a_process_of_its_own_and_is_busy_for_whoever_comes_second() -> None:
    with watched(kind=V4l2) as viewer:
        wait_for(lambda: len(viewer.frames) > 5, 10)
        assert any(has_open("/dev/video0", child) for child in children()), "its driver is in a child"
        assert not has_open("/dev/video0", os.getpid())
        second = Viewer()
        settings = V4l2.model_validate({"type": "v4l2", "path": Path("/dev/video0")})
        other = Camera("usb", settings, Secrets({}), [second], second)
        other.start()
        try:
            wait_for(lambda: bool(second.states), PROCESS_S)
        finally:
            other.stop()
            assert other.join(5)
        state, text = second.states[0]
        assert state == "busy", second.states
        assert "/dev/video0 is in use" in text, text
        assert second.frames == []
        count = len(viewer.frames)
        wait_for(lambda: len(viewer.frames) > count + 3, 10)
        assert {state for state, _ in viewer.states} == {"connected"}, viewer.states
    assert not any(has_open("/dev/video0", child) for child in children())


def check_lost_buffers_make_no_old_picture_new() -> None:
    show("red")
    control(0, percentage_of_dropped_buffers=70)
    try:
        with closing(opened(width=320, height=180, fps=25)) as source:
            read(source)
            changed_s = show("green")
            colours = Counter[str]()
            for _ in range(6):
                frame = read(source)
                colours[colour_of(frame)] += 1
                assert (colour_of(frame) == "green") or frame.time_s < changed_s + 0.05
        assert colours["green"], colours
    finally:
        control(0, percentage_of_dropped_buffers=0)


def check_a_camera_that_gives_nothing_is_stalled_then_lost_and_comes_back() -> None:
    with watched(width=320, height=180, fps=10, read_timeout_s=2.5, max_age_s=0.5) as viewer:
        control(0, percentage_of_dropped_buffers=100)
        silent_s = time.monotonic()
        wait_for(lambda: viewer.state == "stalled", 3)
        wait_for(lambda: viewer.state == "lost", 4)
        assert time.monotonic() - silent_s < 5
        assert "nothing came for" in viewer.states[-1][1] or "gives no more" in viewer.states[-1][1], (
            viewer.states
        )
        control(0, percentage_of_dropped_buffers=0)
        took_s = wait_for(lambda: viewer.state == "connected", 20)
    assert took_s < 5, (took_s, viewer.states)


def check_an_error_of_the_driver_is_a_loss_and_the_camera_is_opened_again() -> None:
    with watched() as viewer:
        control(0, inject_fatal_streaming_error=1)
        wait_for(
            lambda: (
                ("lost", "camera usb: /dev/video0 gives no more pictures; is its cable in?") in viewer.states
            ),
            2,
        )
        seen = len(viewer.frames)
        took_s = wait_for(lambda: len(viewer.frames) > seen, 4)
    assert took_s < 0.6 + 2, took_s
    assert [state for state, _ in viewer.states] == ["connected", "lost", "connected"], viewer.states


def check_an_unplugged_camera_is_lost_at_once_and_opening_it_does_not_pretend() -> None:
    with watched(fps=25, width=320, height=180) as viewer:
        # somebody else still has it open, so the driver keeps it unplugged
        holder = os.open("/dev/video0", os.O_RDWR)
        try:
            control(0, disconnect=1)
            took_s = wait_for(lambda: viewer.state == "lost", 3)
            assert took_s < ONE_S, took_s
            seen = len(viewer.frames)
            assert Path("/dev/video0").exists()
            message = refused()
            assert "there is no /dev/video0; cameras on this machine: " in message, message
            time.sleep(2.0)
            assert (viewer.state, len(viewer.frames)) == ("lost", seen)
        finally:
            back_s = time.monotonic()
            os.close(holder)
        took_s = wait_for(lambda: len(viewer.frames) > seen, 6)
        # back-off: 0.5, 1, 2 s and a fifth
        assert took_s < 2.4 + 2, took_s
        assert viewer.frames[seen].time_s > back_s
    assert [state for state, _ in viewer.states] == ["connected", "lost", "connected"], viewer.states


def check_closing_while_it_gives_nothing_returns() -> None:
    control(0, percentage_of_dropped_buffers=100)
    try:
        source = opened()
        try:
            source.read(0.2)
        except SourceStalledError:
            pass
        else:
            raise AssertionError("a frame came")
        started_s = time.monotonic()
        source.close()
        assert time.monotonic() - started_s < 2
    finally:
        control(0, percentage_of_dropped_buffers=0)
    # until the driver was let go
    wait_for(lambda: not [one for one in threading.enumerate() if one.name == "driver-usb"], 15)


# -- numbers and names; these load the cameras anew


def check_c07_a_number_among_several_cameras_is_warned_of() -> None:
    # both sit at one place of this machine; two that can be told apart have names of their own
    rules = (
        f'SUBSYSTEM=="video4linux", ATTR{{name}}=="vivid-00{number}-vid-cap", SYMLINK+="{place}"\n'
        for number, place in enumerate((LEFT.relative_to("/dev"), RIGHT.relative_to("/dev")))
    )
    UDEV_RULES.mkdir(parents=True, exist_ok=True)
    (UDEV_RULES / "99-cameras.rules").write_text("".join(rules))
    subprocess.run(["udevadm", "control", "--reload"], check=True)
    unload_cameras()
    load_cameras()
    with listening() as said, closing(opened("/dev/video1")) as source:
        read(source)
    (warning,) = [line for line in said if "WARNING" in line]
    assert "/dev/video1 is vivid at platform:vivid-001 today, but there are 2 cameras" in warning, warning
    assert "name it by its path below /dev/v4l/by-path: " in warning, warning
    assert str(RIGHT) in warning, warning
    with listening() as said, closing(opened(RIGHT)) as source:
        read(source)
    assert not [line for line in said if "WARNING" in line], said


def check_c07_a_name_leads_to_the_same_camera_when_the_numbers_are_swapped() -> None:
    for numbers, left in (("0,1", 0), ("1,0", 1)):
        unload_cameras()
        load_cameras(numbers=numbers)
        show("red", left)
        show("green", 1 - left)
        assert Path(f"/dev/video{left}") == LEFT.resolve()
        with listening() as said, closing(opened(LEFT)) as source:
            assert colour_of(read(source)) == "red"
        assert f"{LEFT} is vivid at platform:vivid-000" in said[0], said
        with closing(opened(RIGHT)) as source:
            assert colour_of(read(source)) == "green"


def check_c07_a_single_camera_may_be_named_by_its_number() -> None:
    unload_cameras()
    assert "there is no /dev/video0; cameras on this machine: none; is it plugged in?" in refused()
    load_cameras(1, "0")
    for path in (Path("/dev/video0"), BY_PATH):
        with listening() as said, closing(opened(path)) as source:
            assert read(source).pixels.shape == (360, 640, 3)
        # the size that it is set to, not OpenCV's own
        assert len(said) == 1, said
        assert said[0].startswith(f"INFO camera usb: {path} is vivid at platform:vivid-000, 640x360 "), said
