"""Lost packets, dead and frozen industrial cameras, and whoever else has one."""

from __future__ import annotations

import itertools
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from edge_infer.camera import Camera, State
from edge_infer.errors import SourceBusyError, SourceStalledError
from edge_infer.frame import Frame
from edge_infer.messages.camera import CameraMessage
from edge_infer.settings import Secrets
from edge_infer.sources import OnDemand
from edge_infer.sources._genicam.setup import set_up
from tests.support.gige_camera import GigeCamera, Stamp, read_stamp
from tests.support.gige_source import OTHER, camera, lost, opened, other, python, read, settings

__all__ = ["camera", "other"]


# -- trouble


@pytest.mark.usefixtures("camera")
def test_no_incomplete_picture_is_trusted(caplog: pytest.LogCaptureFixture) -> None:
    with GigeCamera(OTHER, "T2", "--grey", "140") as other:
        with opened(address=OTHER, frame_rate=100, packet_size=1400) as source:
            read(source)
            other.lose(0.01)
            damaged, whole, ids = 0, 0, []
            for _ in range(100):
                frame = source.read(5.0)
                assert frame is not None
                if frame.damaged is not None:
                    damaged += 1
                    assert not frame.pixels.any()
                    continue
                whole += 1
                assert (frame.pixels[1:] == 140).all()
                ids.append((read_stamp(frame.pixels).frame_id - 65401) % 65535)  # it counts up to 65535
        assert damaged > 10
        assert whole > 10
        assert ids == sorted(set(ids))
    texts = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(texts) == 1, "one line, not one a picture"
    assert texts[0].startswith(f"camera top: {OTHER}: a picture is damaged: ")
    # by the packets of the next picture, or by its silence
    assert "packets of it were lost on the way" in texts[0] or "did not arrive in time" in texts[0]


@pytest.mark.usefixtures("other")
def test_other_traffic_is_not_taken_for_pictures() -> None:
    """Before its filter is set the library's raw socket hears everything on the network."""
    code = (
        "import os, socket\n"
        "ours, theirs = (socket.socket(type=socket.SOCK_DGRAM) for _ in 'ab')\n"
        "theirs.bind(('127.0.0.1', 0))\n"
        "while True: ours.sendto(os.urandom(200), theirs.getsockname())"
    )
    flood = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(3)]
    try:
        for _ in range(8):
            with opened(address=OTHER, trigger="software") as source:
                assert isinstance(source, OnDemand)
                source.fire(0)
                frame, _stamp = read(source)
                assert (frame.damaged, frame.seq) == (None, 1)
                with pytest.raises(SourceStalledError):
                    source.read(0.2)
    finally:
        for one in flood:
            one.kill()
            one.wait(5)


def test_a_killed_camera_is_lost_after_its_read_timeout(other: GigeCamera) -> None:
    with opened(address=OTHER, read_timeout_s=1.0) as source:
        read(source)
        other.kill()
        error, after_s = lost(source)
    assert str(error).startswith(f"camera top: {OTHER} is lost: it sent no picture for 1.")
    assert after_s < 2.5


def test_a_waiting_camera_that_no_longer_answers_is_lost() -> None:
    """Without parts there are no pictures: the heartbeat tells."""
    with (
        GigeCamera(OTHER, "T2", "--line") as line,
        opened(address=OTHER, trigger="line", line="Line1", read_timeout_s=0.5) as source,
    ):
        for _ in range(3):
            with pytest.raises(SourceStalledError):
                source.read(0.3)
        line.kill()
        error, after_s = lost(source)
    assert "it no longer answers, or another host took control" in str(error)
    assert after_s < 9


def test_letting_a_dead_camera_go_delays_nobody(other: GigeCamera) -> None:
    with opened(address=OTHER, read_timeout_s=0.5) as source:
        read(source)
        other.kill()
        lost(source)
        started_s = time.monotonic()
        source.close()
        assert time.monotonic() - started_s < 0.5


class Ear:
    """A station and the service, as a camera sees them."""

    def __init__(self) -> None:
        self.states: list[State] = []
        self.frames: list[tuple[float, Stamp]] = []
        self._changed = threading.Condition()

    def offer(self, frame: Frame) -> None:
        with self._changed:
            self.frames.append((time.monotonic(), read_stamp(frame.pixels)))
            self._changed.notify_all()

    def camera_counted(self, message: CameraMessage) -> None:
        pass

    def camera_changed(self, camera: str, state: State, text: str) -> None:  # noqa: ARG002 - the contract's
        with self._changed:
            self.states.append(state)
            self._changed.notify_all()

    def wait_for(self, state: State) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self.states and self.states[-1] == state, 20), self.states

    def frame_after(self, time_s: float) -> tuple[float, Stamp]:
        with self._changed:
            assert self._changed.wait_for(lambda: self.frames and self.frames[-1][0] > time_s, 20)
            return next(one for one in self.frames if one[0] > time_s)


@contextmanager
def watched(**options: object) -> Iterator[Ear]:
    ear = Ear()
    running = Camera("top", settings(address=OTHER, **options), Secrets({}), [ear], ear)
    running.start()
    try:
        ear.wait_for("connected")
        yield ear
    finally:
        running.stop()
        assert running.join(5)


def test_a_camera_that_comes_back_gives_frames_within_the_back_off_and_2_s(other: GigeCamera) -> None:
    with watched(read_timeout_s=1.0) as ear:
        other.kill()
        ear.wait_for("lost")
        other.restart()
        back_s = time.monotonic()
        came_s, stamp = ear.frame_after(back_s)
        assert came_s - back_s < 0.5 * 1.2 + 2
        assert stamp.time_s > back_s
    assert ear.states == ["connected", "lost", "connected"]


def test_a_camera_whose_cable_comes_back_gives_no_old_frames(other: GigeCamera) -> None:
    with watched(read_timeout_s=2.0, frame_rate=20) as ear:
        ear.frame_after(time.monotonic())
        other.freeze()
        ear.wait_for("lost")
        time.sleep(1.5)  # the camera forgets its controller after 3 s without a heartbeat
        other.thaw()
        back_s = time.monotonic()
        came_s, stamp = ear.frame_after(back_s)
        assert stamp.time_s > back_s
        assert came_s - back_s < 2.4 + 2


def test_a_short_stall_is_no_loss(other: GigeCamera) -> None:
    with opened(address=OTHER, frame_rate=50) as source:
        read(source)
        other.freeze()
        time.sleep(1.0)
        other.thaw()
        back_s = time.monotonic()
        while (seen := read(source))[1].time_s < back_s:
            pass
        assert time.monotonic() - seen[1].time_s < 0.3


# -- who else has it


def test_a_camera_that_another_host_controls_is_named_as_busy() -> None:
    with GigeCamera(OTHER, "T2", "--address-of-controller", "10.1.2.3"), opened(address=OTHER) as source:
        with pytest.raises(SourceBusyError) as caught, opened(address=OTHER):
            pass
        read(source)  # and is not disturbed
    assert str(caught.value).startswith(
        f"camera top: {OTHER} is in use by another host (10.1.2.3) or program"
    )


@pytest.mark.usefixtures("other")
def test_after_a_crash_the_camera_is_had_again_once_it_forgot() -> None:
    holder = python(
        f"source = open_it(address={OTHER!r}); source.read(5); print('has it', flush=True); wait()"
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "has it\n"
    holder.kill()
    holder.communicate()
    started_s = time.monotonic()
    for attempt in itertools.count():
        try:
            with opened(address=OTHER) as source:
                read(source)
            break
        except SourceBusyError:
            assert attempt < 3
    assert time.monotonic() - started_s < 8


def test_a_camera_that_still_sends_to_a_crashed_program_sends_to_us(
    other: GigeCamera, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slowly(*arguments: Any, **options: Any) -> None:
        time.sleep(0.3)  # the simulated camera begins to send a tenth of a second after it has an owner
        set_up(*arguments, **options)

    monkeypatch.setattr("edge_infer.sources._genicam.connection.set_up", slowly)
    other.send_to_nobody()
    with opened(address=OTHER) as source:
        read(source)
