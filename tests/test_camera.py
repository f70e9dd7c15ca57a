from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Literal

import pytest

from edge_infer import camera as camera_module
from edge_infer.camera import Camera, State
from edge_infer.camera_meter import Meter
from edge_infer.errors import SourceBusyError, SourceError, SourceStalledError
from edge_infer.frame import Frame
from edge_infer.messages.camera import CameraMessage
from edge_infer.settings import Secrets
from edge_infer.sources import Source, SourceSettings
from tests.support.frames import frame

Script = Iterator[Frame | Exception | None]


class ScriptedSource:
    """Gives, raises or ends as the test says: a real camera will not on demand."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self.closed = threading.Event()
        self.packets_lost: int | None = 3

    def read(self, timeout_s: float) -> Frame | None:
        step = next(self._script, SourceStalledError("nothing more"))
        if isinstance(step, SourceStalledError):
            self.closed.wait(timeout_s)
        if isinstance(step, Exception):
            raise step
        return step

    def close(self) -> None:
        self.closed.set()


class Scripted(SourceSettings):
    type: Literal["scripted"] = "scripted"
    recording: bool = False

    @property
    def recorded(self) -> bool:
        return self.recording

    def open(self, camera: str, secrets: Secrets) -> Source:  # noqa: ARG002 - the contract's parameters
        step = OPENINGS.pop(0)
        if isinstance(step, Exception):
            raise step
        return ScriptedSource(step)


OPENINGS: list[Script | Exception] = []


class Ear:
    """Viewer and watcher in one."""

    def __init__(self) -> None:
        self.seen: list[int] = []
        self.states: list[State] = []
        self.told: list[CameraMessage] = []
        self._changed = threading.Condition()

    def offer(self, one: Frame) -> None:
        with self._changed:
            self.seen.append(one.seq)
            self._changed.notify_all()

    def camera_changed(self, camera: str, state: State, text: str) -> None:
        assert (camera, bool(text)) == ("top", True)
        with self._changed:
            self.states.append(state)
            self._changed.notify_all()

    def camera_counted(self, message: CameraMessage) -> None:
        with self._changed:
            self.told.append(message)
            self._changed.notify_all()

    def wait(self, wanted: Callable[[], bool]) -> None:
        with self._changed:
            assert self._changed.wait_for(wanted, 5), (self.seen, self.states)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    OPENINGS.clear()
    monkeypatch.setattr(camera_module, "FIRST_WAIT_S", 0.01)
    monkeypatch.setattr(camera_module, "READ_S", 0.02)
    monkeypatch.setattr(camera_module, "STALL_S", 0.0)


def script(*steps: Frame | Exception | None) -> Script:
    return iter(steps)


def start(ear: Ear, *openings: Script | Exception, **keys: Any) -> Camera:
    OPENINGS.extend(openings)
    camera = Camera("top", Scripted(max_age_s=0.05, **keys), Secrets({}), [ear], ear)
    camera.start()
    return camera


def stop(camera: Camera) -> None:
    camera.stop()
    assert camera.join(5)


def test_a_lost_camera_is_opened_again_and_its_frames_go_on() -> None:
    ear = Ear()
    gone = SourceError("unplugged")
    camera = start(ear, script(frame(1), gone), SourceError("still gone"), script(frame(2)))
    ear.wait(lambda: ear.seen == [1, 2])
    assert ear.states[:3] == ["connected", "lost", "connected"]
    stop(camera)


def test_a_stalled_camera_is_told_and_read_on() -> None:
    ear = Ear()
    stalls = [SourceStalledError("no frame")] * 8
    camera = start(ear, script(frame(1), *stalls, frame(2)))
    ear.wait(lambda: ear.seen == [1, 2])
    assert ear.states[:3] == ["connected", "stalled", "connected"]
    stop(camera)


def test_a_stall_tells_how_long_no_frame_came_also_where_the_camera_gave_signs_of_life() -> None:
    ear = Ear()
    stalls = [SourceStalledError("camera top: no frame for 0.0 s")] * 100
    camera = start(ear, script(frame(1), *stalls))
    ear.wait(lambda: "stalled" in ear.states)
    stop(camera)
    text = next(one.text for one in ear.told if one.state == "stalled")
    assert float(text.removeprefix("camera top: no frame for ").removesuffix(" s")) > 0


def test_a_bug_in_a_source_is_a_lost_camera_not_the_end_of_its_thread(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ear = Ear()
    camera = start(ear, script(frame(1), ZeroDivisionError("a bug")), script(frame(2)))
    ear.wait(lambda: ear.seen == [1, 2])
    assert "a bug" in caplog.text
    stop(camera)


def test_a_recording_ends_once_and_is_not_read_again() -> None:
    ear = Ear()
    camera = start(ear, script(frame(1), frame(2), None), recording=True)
    assert camera.ended.wait(5)
    assert (ear.seen, ear.states, camera.state) == ([1, 2], ["connected", "ended"], "ended")
    assert camera.join(5)


def test_a_recording_that_breaks_off_failed_and_is_not_started_over() -> None:
    ear = Ear()
    camera = start(ear, script(frame(1), SourceError("truncated")), script(frame(1)), recording=True)
    assert camera.ended.wait(5)
    assert (ear.seen, camera.state) == ([1], "failed")
    assert camera.join(5)


def test_stop_ends_a_pending_read() -> None:
    ear = Ear()
    camera = start(ear, script(frame(1)))
    ear.wait(lambda: ear.seen == [1])
    stop(camera)


def test_a_camera_that_another_host_has_is_busy_and_tried_again() -> None:
    ear = Ear()
    camera = start(ear, SourceBusyError("in use by 10.1.2.3"), script(frame(1)))
    ear.wait(lambda: ear.seen == [1])
    assert ear.states[:2] == ["busy", "connected"]
    assert [one.text for one in ear.told if one.state == "busy"] == ["in use by 10.1.2.3"]
    stop(camera)


def test_what_was_given_dropped_damaged_and_opened_again_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(camera_module, "TELL_S", 0.0)
    ear = Ear()
    broken = replace(frame(7), damaged="half of it")
    camera = start(ear, script(frame(2), frame(3), broken, SourceError("gone")), script(frame(1)))
    ear.wait(lambda: bool(ear.told) and ear.told[-1].reconnections == 1)
    last = ear.told[-1]
    # before frame 2 one, between 3 and 7 three
    assert (last.frames, last.dropped, last.damaged) == (4, 4, 1)
    assert last.packets_lost == 6, "of both connections"
    assert last.last_frame_at is not None
    assert last.state == "connected"
    stop(camera)


def test_each_change_is_told_at_once_and_frames_at_most_every_few_seconds() -> None:
    ear = Ear()
    camera = start(ear, script(*(frame(seq) for seq in range(1, 200)), SourceError("gone")), script())
    ear.wait(lambda: bool(ear.told) and ear.told[-1].state == "lost")
    assert [one.state for one in ear.told] == ["opening", "connected", "lost"]
    assert ear.told[-1].frames == 199
    stop(camera)


def test_a_camera_comes_into_a_state_once_and_says_since_when() -> None:
    ear = Ear()
    openings: list[Script | Exception] = [SourceError("no route"), SourceError("refused"), script(frame(1))]
    camera = start(ear, *openings)
    ear.wait(lambda: ear.seen == [1])
    assert ear.states == ["lost", "connected"]
    times = {one.state: one.since for one in ear.told}
    assert times["opening"] <= times["lost"] <= times["connected"]
    stop(camera)


def test_the_rate_is_that_of_the_camera_and_falls_to_nothing_when_it_is_silent() -> None:
    meter = Meter()

    def fps(now_s: float) -> float | None:
        since = datetime.now(UTC)
        return meter.message("top", "connected", "", since, now_s).fps

    assert fps(100.0) is None
    for number in range(1, 101):
        # of each two one was dropped
        meter.count(frame(2 * number), 100 + number / 10)
    assert fps(110.0) == pytest.approx(20, abs=1)
    assert fps(130.0) is not None
    assert (fps(130.0) or 0.0) < 5


@pytest.mark.parametrize("steady_s", [0.0, 10.0])
def test_a_camera_that_comes_and_goes_is_asked_ever_less_often(
    monkeypatch: pytest.MonkeyPatch, steady_s: float
) -> None:
    """Else cameras and brokers are flooded; one that was there for long is back at once."""
    monkeypatch.setattr(camera_module, "STEADY_S", steady_s)
    ear = Ear()
    started_s = time.monotonic()
    camera = start(ear, *[script(frame(count), SourceError("gone")) for count in range(1, 8)])
    ear.wait(lambda: ear.seen == list(range(1, 8)))
    took_s = time.monotonic() - started_s
    stop(camera)
    # 0.01, 0.02, ... 0.32 s and a fifth less; or six times 0.01
    assert took_s > 0.5 if steady_s else took_s < 0.5


class Eye:
    """A further station of the same camera."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []

    def offer(self, one: Frame) -> None:
        self.frames.append(one)


def test_a_picture_is_settled_once_each_station_of_its_camera_has_settled_it() -> None:
    settled: list[str] = []
    ear, eyes = Ear(), [Eye(), Eye(), Eye()]
    OPENINGS.append(script(replace(frame(1), settled=settled.append)))
    camera = Camera("top", Scripted(max_age_s=0.05), Secrets({}), [*eyes, ear], ear)
    camera.start()
    ear.wait(lambda: ear.seen == [1])
    tells = [eye.frames[0].settled for eye in eyes]
    for number, tell in enumerate((*tells, tells[0])):
        assert tell is not None
        # the same station again does not stand for another one
        tell(f"s{number % 3}")
        assert settled == []
    assert tells[0] is not None
    tells[0]("s3")
    assert settled == ["s3"]
    stop(camera)


def test_a_picture_of_a_camera_with_one_station_is_settled_by_it() -> None:
    settled: list[str] = []
    ear, eye = Ear(), Eye()
    OPENINGS.append(script(replace(frame(1), settled=settled.append)))
    camera = Camera("top", Scripted(max_age_s=0.05), Secrets({}), [eye], ear)
    camera.start()
    ear.wait(lambda: bool(eye.frames))
    tell = eye.frames[0].settled
    assert tell is not None
    tell("cap")
    assert settled == ["cap"]
    stop(camera)
