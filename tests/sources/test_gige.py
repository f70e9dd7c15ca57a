"""GigE Vision over real UDP; what is asserted is what the camera painted into its pictures."""

from __future__ import annotations

import itertools
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edge_infer.camera import Camera, State
from edge_infer.errors import SourceBusyError, SourceError, SourceStalledError
from edge_infer.frame import Frame
from edge_infer.messages.camera import CameraMessage
from edge_infer.settings import Secrets
from edge_infer.sources import OnDemand, Source
from edge_infer.sources._genicam.connection import Connection
from edge_infer.sources._genicam.setup import set_up
from edge_infer.sources.gige import Gige
from tests.support.gige_camera import COLORS, GigeCamera, Stamp, read_stamp

OTHER = "127.0.0.2"


@pytest.fixture(scope="module")
def camera() -> Iterator[GigeCamera]:
    with GigeCamera() as running:
        yield running


@pytest.fixture
def other() -> Iterator[GigeCamera]:
    """To be killed, frozen and so on."""
    with GigeCamera(OTHER, "T2", "--grey", "140") as running:
        yield running


def settings(**options: object) -> Gige:
    usual = {"address": "127.0.0.1", "pixel_format": "Mono8", "width": 320, "height": 240}
    return Gige.model_validate({"type": "gige", **usual, **options})


@contextmanager
def opened(**options: object) -> Iterator[Source]:
    with closing(settings(**options).open("top", Secrets({}))) as source:
        yield source


def read(source: Source, timeout_s: float = 5.0) -> tuple[Frame, Stamp]:
    frame = source.read(timeout_s)
    assert frame is not None
    return frame, read_stamp(frame.pixels)


def lost(source: Source) -> tuple[SourceError, float]:
    """How it ends, and after how long."""
    started_s = time.monotonic()
    while True:
        try:
            source.read(0.5)
        except SourceStalledError:
            assert time.monotonic() - started_s < 20
        except SourceError as error:
            return error, time.monotonic() - started_s


def refused(**options: object) -> str:
    with pytest.raises(SourceError) as caught, opened(**options):
        pass
    message = str(caught.value)
    assert "\n" not in message
    return message


# -- frames


@pytest.mark.usefixtures("camera")
def test_frames_come_whole_in_order_and_once() -> None:
    with opened(frame_rate=50) as source:
        seen = [read(source) for _ in range(20)]
    ids = [(stamp.frame_id - 65401) % 65535 for _, stamp in seen]  # it counts from 65401 up to 65535
    assert ids == sorted(set(ids))
    first, _ = seen[0]
    # what was dropped is counted by the camera's own numbers
    assert [frame.seq - first.seq for frame, _ in seen] == [one - ids[0] for one in ids]
    for frame, _ in seen:
        assert frame.pixels.shape == (240, 320, 3)
        assert (frame.pixels[1:] == 90).all()
        assert frame.damaged is None
        assert not frame.triggers


def test_each_pixel_is_the_cameras() -> None:
    """libaravis paints a ramp that moves with the frame's number."""
    with GigeCamera(OTHER, "T2", "--own-picture"), opened(address=OTHER, exposure_us=10000) as source:
        frame = source.read(5.0)
    assert frame is not None
    x, y = np.meshgrid(np.arange(320), np.arange(240))
    ramp = ((x + y + int(frame.pixels[0, 0, 0])) % 255).astype(np.uint8)
    assert np.array_equal(frame.pixels, np.repeat(ramp[:, :, None], 3, axis=2))


@pytest.mark.usefixtures("camera")
def test_the_cameras_count_passes_its_16_bits() -> None:
    """A camera begins at 65400 and has no number 0."""
    with GigeCamera(OTHER, "T2"), opened(address=OTHER, frame_rate=200) as source:
        first, begin = read(source)
        while (seen := read(source))[1].frame_id > 60000:
            pass
        for _ in range(5):
            frame, stamp = seen
            assert frame.seq - first.seq == stamp.frame_id + 65535 - begin.frame_id
            seen = read(source)


@pytest.mark.usefixtures("camera")
def test_a_frame_knows_when_it_was_taken() -> None:
    with opened(frame_rate=50) as source:
        late = [frame.time_s - stamp.time_s for frame, stamp in (read(source) for _ in range(20))]
    assert min(late) > 0
    assert sorted(late)[10] < 0.05


@pytest.mark.usefixtures("camera")
def test_a_slow_reader_sees_the_newest_frame_not_the_oldest() -> None:
    with opened(frame_rate=50) as source:
        first, _ = read(source)
        time.sleep(1.0)
        frame, stamp = read(source)
        assert time.monotonic() - stamp.time_s < 0.3
    assert frame.seq - first.seq > 20


@pytest.mark.usefixtures("camera")
def test_a_driver_that_was_held_up_skips_what_piled_up_meanwhile() -> None:
    """Eight buffers lie in the library, the oldest first."""
    with closing(Connection(settings(frame_rate=20), "top")) as connection:
        captures = (one for one in iter(connection.capture, connection) if one is not None)
        next(captures)
        time.sleep(1.5)
        held, late = next(captures), next(captures)
        # it lay there for a second, and says so
        assert held.time_s - read_stamp(held.pixels).time_s < 0.4
        assert time.monotonic() - read_stamp(late.pixels).time_s < 0.5


@pytest.mark.parametrize("name", ["BayerRG8", "BayerGB12p", "RGB8"])
@pytest.mark.usefixtures("camera")
def test_colors_come_out_as_themselves(name: str) -> None:
    with opened(pixel_format=name, width=64, height=48) as source:
        frame = source.read(5.0)
    assert frame is not None
    for (row, column), rgb in zip(((12, 16), (12, 48), (36, 16), (36, 48)), COLORS.values(), strict=True):
        assert tuple(frame.pixels[row, column]) == rgb[::-1]


@pytest.mark.usefixtures("camera")
def test_two_cameras_at_once_give_each_its_own_pictures(other: GigeCamera) -> None:
    with opened(frame_rate=40) as one, opened(address=other.address, frame_rate=30) as two:
        for _ in range(20):
            first, second = read(one), read(two)
            assert (first[0].pixels[1:] == 90).all()
            assert (second[0].pixels[1:] == 140).all()
            assert time.monotonic() - min(first[1].time_s, second[1].time_s) < 0.5


@pytest.mark.parametrize("name", [{"serial": "T2"}, {"device_id": "Aravis-Fake-T2"}])
@pytest.mark.usefixtures("camera", "other")
def test_a_camera_is_found_by_its_label(name: dict[str, str]) -> None:
    with opened(address=None, **name) as source:
        assert int(read(source)[0].pixels[1, 0, 0]) == 140


# -- triggers


@pytest.mark.usefixtures("camera")
def test_each_software_trigger_gives_one_picture_taken_after_it() -> None:
    with opened(trigger="software") as source:
        assert isinstance(source, OnDemand)
        with pytest.raises(SourceStalledError):
            source.read(0.3)
        seen = []
        for _ in range(50):
            asked_s = time.monotonic()
            source.fire(asked_s)
            frame, stamp = read(source)
            assert asked_s < stamp.time_s <= frame.time_s
            seen.append((frame.seq, stamp.frame_id))
        with pytest.raises(SourceStalledError):
            source.read(0.5)
    (seq, frame_id), _ = seen[0], seen
    assert [one - seq for one, _ in seen] == list(range(50))
    assert [(one - frame_id) % 65535 for _, one in seen] == list(range(50))


@pytest.mark.usefixtures("camera")
def test_a_software_trigger_waits_until_it_is_due() -> None:
    with opened(trigger="software") as source:
        assert isinstance(source, OnDemand)
        due_s = time.monotonic() + 0.4
        source.fire(due_s)
        assert read(source)[1].time_s >= due_s


@pytest.mark.usefixtures("camera")
def test_asking_a_camera_that_runs_freely_changes_nothing() -> None:
    with opened() as source:
        assert isinstance(source, OnDemand)
        source.fire(time.monotonic())
        read(source)


def test_each_picture_of_a_cameras_line_is_a_part() -> None:
    with (
        GigeCamera(OTHER, "T2", "--line") as line,
        opened(address=OTHER, trigger="line", line="Line1") as source,
    ):
        for _ in range(10):
            asked_s = time.monotonic()
            line.pulse()
            frame, stamp = read(source)
            (part,) = frame.triggers
            assert asked_s < stamp.time_s <= frame.time_s == part.time_s


def test_no_picture_of_a_part_gives_way_to_a_newer_one() -> None:
    with (
        GigeCamera(OTHER, "T2", "--line") as line,
        opened(address=OTHER, trigger="line", line="Line1") as source,
    ):
        line.pulse()
        read(source)  # from here on the simulated camera looks at its line each 4 ms
        for _ in range(5):
            line.pulse()
            time.sleep(0.05)
        seen = [read(source) for _ in range(5)]
        with pytest.raises(SourceStalledError):
            source.read(0.3)
    assert [frame.seq for frame, _ in seen] == [2, 3, 4, 5, 6]
    assert len({stamp.frame_id for _, stamp in seen}) == 5


@pytest.mark.parametrize("share", [1.0, 0.2])
def test_a_lost_picture_of_a_part_is_answered_as_damaged(share: float) -> None:
    """Wholly lost it is told by the next one's number; one in five packets lost spoils each of them."""
    with (
        GigeCamera(OTHER, "T2", "--line") as line,
        opened(address=OTHER, trigger="line", line="Line1") as source,
    ):
        line.pulse()
        assert read(source)[0].damaged is None
        line.lose(share)
        line.pulse()
        time.sleep(0.1)
        line.lose(0)
        line.pulse()
        spoilt, whole = source.read(5.0), source.read(5.0)
    assert spoilt is not None
    assert whole is not None
    assert (spoilt.damaged is not None, len(spoilt.triggers)) == (True, 1)
    assert not spoilt.pixels.any()
    assert (whole.damaged, len(whole.triggers), whole.seq) == (None, 1, 3)


def test_a_picture_whose_first_packet_was_lost_has_no_time_of_an_older_one() -> None:
    """Time and number stand in that packet, and in the memory those of the picture before."""
    with (
        GigeCamera(OTHER, "T2", "--line") as line,
        opened(address=OTHER, trigger="line", line="Line1") as source,
    ):
        for number in range(20):
            line.lose(0.8 if number > 9 else 0)
            asked_s = time.monotonic()
            line.pulse()
            frame = source.read(5.0)
            assert frame is not None
            assert (frame.damaged is not None) == (number > 9)
            assert frame.time_s > asked_s
            assert frame.seq == number + 1


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


# -- settings


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            {"features": {"TriggerActivation": "Falling"}},
            "cannot set TriggerActivation to Falling: there is no such entry; it can be RisingEdge",
        ),
        (
            {"features": {"ExposureTimeAbs": -5}},
            "cannot set ExposureTimeAbs to -5: that is out of range; it can be 10 to 10000000",
        ),
        ({"features": {"Stubborn": 500}}, "cannot set Stubborn to 500: it stays 100; it can be 0 to 1000"),
        ({"features": {"GainRaw": "high"}}, "cannot set GainRaw to high: it is of kind integer"),
        ({"features": {"GainRaw": True}}, "cannot set GainRaw to true: it is of kind integer"),
        ({"features": {"DeviceModelName": "x"}}, "cannot set DeviceModelName to x: it can only be read now"),
        ({"features": {"Absent": 1}}, "this camera has no feature Absent; feature names are in the camera's"),
        ({"width": 5000}, "cannot set Width to 5000: that is out of range; it can be 1 to 2048"),
        ({"exposure_us": 1}, "cannot set exposure_us to 1: that is out of range; it can be 10 to 1e+07"),
        ({"gain_db": 50}, "cannot set Gain to 50: that is out of range; it can be 0 to 24"),
        ({"frame_rate": 2000}, "cannot set frame_rate to 2000: that is out of range; it can be 0.1 to 1000"),
        (
            {"trigger": "line", "line": "Line7"},
            "cannot set TriggerSource to Line7: there is no such entry; it can be Line0, Software",
        ),
    ],
)
@pytest.mark.usefixtures("camera")
def test_a_value_that_the_camera_does_not_take_is_an_error(options: dict[str, object], text: str) -> None:
    assert refused(**options).startswith(f"camera top: 127.0.0.1: {text}")


def test_what_is_written_reaches_the_camera() -> None:
    """The library's ramp is twice as bright at ten times the exposure, and once more with each raw gain."""
    with GigeCamera(OTHER, "T2", "--own-picture"):
        for options, scale in ((dict[str, object](), 2), ({"features": {"GainRaw": 1}}, 3)):
            with opened(address=OTHER, exposure_us=100000, width=300, **options) as source:
                frame = source.read(5.0)
            assert frame is not None
            grey = frame.pixels[:, :, 0].astype(int)
            rising = (np.diff(grey, axis=1) > 0) & (grey[:, 1:] < 250)
            assert set(np.diff(grey, axis=1)[rising]) == {scale}


@pytest.mark.usefixtures("camera")
def test_a_region_of_the_sensor_is_set_within_its_limits() -> None:
    with opened(width=2048, height=16) as source:
        assert read(source)[0].pixels.shape == (16, 2048, 3)
    with opened(width=100, height=60, offset_x=1900, offset_y=30) as source:
        assert read(source)[0].pixels.shape == (60, 100, 3)


# -- what is not there


@pytest.mark.usefixtures("camera")
def test_an_absent_camera_is_one_line_with_those_that_are_there() -> None:
    started_s = time.monotonic()
    there = "cameras that answer a search: 127.0.0.1 (Aravis Fake, serial T1, id Aravis-Fake-T1)"
    assert refused(address="127.0.0.77") == (
        f"camera top: 127.0.0.77 does not answer: GigEVision read_memory timeout; {there}"
    )
    assert refused(address=None, serial="T9") == f"camera top: T9 is not there; {there}"
    assert time.monotonic() - started_s < 7


def test_without_the_library_the_message_says_what_to_install() -> None:
    process = python(
        "import edge_infer.sources._genicam.library as aravis; aravis.LIBRARY = 'libaravis-absent.so.0'\n"
        "try: open_it()\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    out, _ = process.communicate(timeout=20)
    assert out.startswith("SourceError camera top: libaravis-absent.so.0 is not installed: ")
    assert "sudo apt-get install libaravis-0.8-0" in out


# -- the process around it


def python(code: str, *before: str) -> subprocess.Popen[str]:
    """A Python of its own with ``open_it(**options)`` and ``wait()``."""
    begin = (
        "import logging, sys, time\nlogging.basicConfig(level=logging.WARNING, format='%(message)s')\n"
        "from edge_infer.settings import Secrets\nfrom edge_infer.sources.gige import Gige\n"
        "def open_it(**options):\n"
        "    usual = dict(type='gige', address='127.0.0.1', pixel_format='Mono8', width=320, height=240)\n"
        "    return Gige.model_validate({**usual, **options}).open('top', Secrets({}))\n"
        "def wait(): time.sleep(60)\n"
    )
    return subprocess.Popen(
        [*before, sys.executable, "-c", begin + code],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2],
    )  # fmt: skip


@pytest.mark.parametrize("ending", ["sys.exit(0)", "source.close(); sys.exit(0)"])
@pytest.mark.usefixtures("other")
def test_a_process_may_end_in_the_middle_of_pictures(ending: str) -> None:
    process = python(f"source = open_it(address={OTHER!r}, frame_rate=100); source.read(5); {ending}")
    assert process.communicate(timeout=20) == ("", "")
    assert process.returncode == 0


def test_a_process_may_end_while_a_dead_camera_is_let_go(other: GigeCamera) -> None:
    process = python(
        f"source = open_it(address={OTHER!r}, read_timeout_s=0.5); source.read(5); print('up', flush=True)\n"
        "try:\n    while True: source.read(5)\n"
        "except Exception as error: print(type(error).__name__)\nsource.close()"
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    other.kill()
    started_s = time.monotonic()
    assert process.communicate(timeout=20) == ("SourceError\n", "")
    assert process.returncode == 0
    assert time.monotonic() - started_s < 5


UNPRIVILEGED = ("setpriv", "--bounding-set", "-net_raw", "--inh-caps", "-net_raw")


@pytest.mark.usefixtures("camera")
def test_it_works_without_the_right_to_raw_sockets() -> None:
    code = (
        "source = open_it(frame_rate=50)\nfor _ in range(20): print(source.read(5).damaged)\nsource.close()"
    )
    out, err = python(code, *UNPRIVILEGED).communicate(timeout=30)
    assert (set(out.split()), err) == ({"None"}, "")


@pytest.mark.usefixtures("camera")
def test_where_the_kernel_drops_packets_the_log_says_what_to_do() -> None:
    """The socket's buffer holds a twentieth of a picture."""
    code = (
        "source = open_it(width=2048, height=2048, frame_rate=20, packet_size=1400, socket_buffer=65536)\n"
        "while not source.read(5).damaged: pass\nsource.close()"
    )
    _, err = python(code, *UNPRIVILEGED).communicate(timeout=30)
    assert "a picture is damaged" in err
    assert "give the service CAP_NET_RAW (AmbientCapabilities=CAP_NET_RAW)" in err


LEAKS = """
import gc
import psutil

def some(times):
    for _ in range(times):
        source = open_it(frame_rate=200, width=640, height=480)
        source.read(5.0)
        source.close()
    gc.collect()
    process = psutil.Process()
    return process.memory_info().rss, process.num_fds(), process.num_threads()

print(*some(4), *some(30))
"""


@pytest.mark.usefixtures("camera")
def test_thirty_times_open_and_close_leak_nothing() -> None:
    """In a process of its own: in this one other tests' memory comes and goes."""
    process = python(LEAKS)
    out, log = process.communicate(timeout=120)
    assert process.returncode == 0, log
    rss, handles, threads, rss_later, handles_later, threads_later = map(int, out.split())
    assert handles_later <= handles
    assert threads_later <= threads
    # eight buffers of 0.3 MB each time would be 74 MB
    assert rss_later - rss < 8e6
