"""A camera in a process of its own: whatever its driver does, the service only loses that camera."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import numpy as np
import psutil
import pytest

from edge_infer.errors import SourceBusyError, SourceError, SourceStalledError
from edge_infer.frame import Frame
from edge_infer.settings import Secret, Secrets
from edge_infer.sources import OnDemand, Source, _isolated
from edge_infer.sources._isolated import DriverBugError
from edge_infer.sources._shared_frames import SharedFrames
from tests.support.gige_camera import GigeCamera, read_stamp
from tests.support.isolated import Bad, IsolatedGige, IsolatedRtsp

OTHER = "127.0.0.2"


@pytest.fixture
def told(tmp_path: Path) -> Path:
    """What the bad driver does is what this file says."""
    path = tmp_path / "told"
    path.write_text("")
    return path


def bad(told: Path, **keys: float) -> Source:
    return Bad(told=told, **keys).open("top", Secrets({}))  # type: ignore[arg-type]


def read(source: Source, timeout_s: float = 5.0) -> Frame:
    frame = source.read(timeout_s)
    assert frame is not None
    return frame


def read_on(source: Source) -> None:
    """Until it is lost."""
    while True:
        with suppress(SourceStalledError):
            source.read(0.2)


def children() -> list[psutil.Process]:
    return [
        one
        for one in psutil.Process().children()
        if one.status() != psutil.STATUS_ZOMBIE and "edge_infer.sources._child" in one.cmdline()
    ]


@pytest.fixture(autouse=True)
def nothing_stays() -> Iterator[None]:
    yield
    assert children() == []


def test_a_driver_that_hangs_in_c_is_killed_and_costs_neither_thread_nor_memory_for_ever(
    told: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_isolated, "CLOSE_S", 0.05)
    monkeypatch.setattr(_isolated, "GRACE_S", 0.05)
    here = psutil.Process()
    # what other tests left behind is closed whenever it is collected
    gc.collect()
    threads, files = threading.active_count(), here.num_fds()
    told.write_text("hang at open")
    for _ in range(8):
        started_s = time.monotonic()
        with pytest.raises(SourceError, match=r"did not open within 0\.05 s"):
            bad(told, open_timeout_s=0.05)
        assert time.monotonic() - started_s < 10
    assert threading.active_count() <= threads
    assert here.num_fds() <= files


def test_a_driver_that_hangs_while_it_is_read_is_a_lost_camera_in_time(told: Path) -> None:
    with closing(bad(told, read_timeout_s=0.5)) as source:
        read(source)
        told.write_text("hang")
        started_s = time.monotonic()
        with pytest.raises(SourceError, match="nothing came for") as caught:
            read_on(source)
        assert not isinstance(caught.value, SourceStalledError)
        assert time.monotonic() - started_s < 3
        closed_s = time.monotonic()
    assert time.monotonic() - closed_s < 2


def test_a_driver_that_crashes_is_a_lost_camera_and_its_crash_is_named(
    told: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with closing(bad(told)) as source:
        read(source)
        told.write_text("crash")
        with pytest.raises(SourceError, match=r"its driver crashed \(SIGSEGV\)"):
            read_on(source)
        for _ in range(2):
            with pytest.raises(SourceError, match="crashed"):
                source.read(0.1)
    assert "Segmentation fault" in capfd.readouterr().err, "where it crashed stands in the log"


def test_a_bug_in_a_driver_reaches_the_reader_with_its_place(
    told: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with closing(bad(told)) as source:
        told.write_text("bug")
        with pytest.raises(DriverBugError, match="ZeroDivisionError: boom"):
            read_on(source)
    assert "tests/support/isolated.py" in caplog.text


def test_a_process_ends_with_its_parent_also_while_its_driver_hangs(told: Path) -> None:
    code = (
        "import os, sys, time; from pathlib import Path; from tests.support.isolated import Bad\n"
        "from edge_infer.settings import Secrets\n"
        "source = Bad(told=Path(sys.argv[1])).open('top', Secrets(os.environ)); source.read(5)\n"
        "print(source._process.pid, flush=True); time.sleep(60)"
    )
    parent = subprocess.Popen([sys.executable, "-c", code, str(told)], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = psutil.Process(int(parent.stdout.readline()))
    told.write_text("hang")
    time.sleep(0.2)  # now it hangs
    parent.kill()
    parent.communicate()
    _, alive = psutil.wait_procs([child], timeout=5)
    assert alive == []


def test_a_signal_to_all_processes_of_the_service_loses_no_camera(told: Path) -> None:
    with closing(bad(told)) as source:
        first = read(source)
        (child,) = children()
        for number in (signal.SIGTERM, signal.SIGINT):
            child.send_signal(number)
        assert read(source).seq > first.seq
        assert read(source).seq > first.seq


def test_a_slow_reader_gets_the_newest_frame_and_sees_the_gap(told: Path) -> None:
    with closing(bad(told)) as source:
        before = read(source)
        time.sleep(0.6)  # some ten pictures
        frame = read(source)
        assert frame.seq > before.seq + 5
        read_s = time.monotonic()
        assert read_s - frame.time_s < 0.2
        assert read(source).time_s > read_s - 0.03, "no older one waits behind the newest"
        # each picture holds its own number
        assert int(frame.pixels[0, 0, 0]) == int(frame.pixels[-1, -1, -1]) == frame.seq


def test_its_frames_are_those_of_the_camera_and_as_fresh_as_without_a_process_of_its_own() -> None:
    ages = []
    with GigeCamera(OTHER, "T2"):
        settings = IsolatedGige(
            type="gige", address=OTHER, pixel_format="Mono8", width=1920, height=1080, frame_rate=20.0
        )
        with closing(settings.open("top", Secrets({}))) as source:
            seen = set()
            for _ in range(20):
                frame = read(source)
                stamp = read_stamp(frame.pixels)
                ages.append(time.monotonic() - stamp.time_s)
                seen.add(stamp.frame_id)
    assert len(seen) == 20
    assert sorted(ages)[10] < 0.1


def test_a_part_that_asks_has_its_picture_taken_in_the_other_process() -> None:
    with GigeCamera(OTHER, "T2"):
        settings = IsolatedGige(type="gige", address=OTHER, pixel_format="Mono8", trigger="software")
        with closing(settings.open("top", Secrets({}))) as source:
            assert isinstance(source, OnDemand)
            stamps = []
            for _ in range(12):
                asked_s = time.monotonic()
                source.fire(asked_s)
                frame = read(source)
                stamps.append(read_stamp(frame.pixels).frame_id)
                assert frame.time_s >= asked_s - 0.001
    assert stamps == list(range(stamps[0], stamps[0] + 12)), "each its own, none lost"


def test_a_camera_in_use_is_busy_here_too() -> None:
    with GigeCamera(OTHER, "T2"):
        settings = IsolatedGige(type="gige", address=OTHER, pixel_format="Mono8")
        with closing(settings.open("one", Secrets({}))) as source:
            read(source)
            with pytest.raises(SourceBusyError, match="in use by another host") as caught:
                settings.open("two", Secrets({}))
            assert caught.value.hint


def test_a_password_is_in_no_command_line_and_no_environment_of_the_process() -> None:
    """The camera never answers, so the process is there to be looked at."""
    import socket

    secret = "marked-3f9c1"
    with socket.create_server(("127.0.0.1", 0)) as silent:
        settings = IsolatedRtsp(
            type="rtsp",
            url=f"rtsp://127.0.0.1:{silent.getsockname()[1]}/s",
            user="u",
            password=Secret(env="CAMERA_PASSWORD"),
            open_timeout_s=2.0,
        )
        errors: list[SourceError] = []

        def open_it() -> None:
            try:
                settings.open("top", Secrets({**os.environ, "CAMERA_PASSWORD": secret})).close()
            except SourceError as error:
                errors.append(error)

        opener = threading.Thread(target=open_it)
        opener.start()
        silent.settimeout(10)
        connection, _ = silent.accept()
        (child,) = children()
        shown = " ".join(child.cmdline()) + str(child.environ())
        opener.join(10)
        connection.close()
    assert secret not in shown
    assert errors
    assert secret not in str(errors[0]) + repr(errors[0])


def test_a_slot_that_is_written_over_is_never_half_read() -> None:
    handle = SharedFrames.allocate(400, 600, 1)
    writer = SharedFrames(handle, 400, 600, 1, writer=True)
    reader = SharedFrames(handle, 400, 600, 1, writer=False)
    os.close(handle)
    latest = [0]
    done = threading.Event()

    def write_on() -> None:
        while not done.is_set():
            number = latest[0] + 1
            writer.write(number, np.full((400, 600, 3), number % 251, np.uint8))
            latest[0] = number

    thread = threading.Thread(target=write_on)
    thread.start()
    whole = 0
    began_s = time.monotonic()
    try:
        # on a busy machine the writer is seldom slow enough to be read
        while time.monotonic() < began_s + (1.0 if whole else 30.0):
            number = latest[0]
            pixels = reader.read(number) if number else None
            if pixels is not None:
                assert pixels.min() == pixels.max() == number % 251
                whole += 1
    finally:
        done.set()
        thread.join()
    assert whole
