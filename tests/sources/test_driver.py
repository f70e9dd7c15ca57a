"""Limits hold where a driver does not: the fake drivers here fail in ways no real one does on demand."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from queue import Empty, SimpleQueue

import numpy as np
import pytest

from edge_infer.errors import SourceError, SourceStalledError
from edge_infer.frame import Frame
from edge_infer.sources._driver import KEPT, Capture, Driver, DriverSource


class Scripted:
    """A driver that gives, raises or hangs as told; it ends with its test."""

    def __init__(self) -> None:
        self.given = threading.Semaphore(0)
        """Released after each capture was taken by the thread."""
        self.closed = threading.Event()
        self._script: SimpleQueue[Capture | Exception | None] = SimpleQueue()
        self._wanted = 0

    def then(self, *acts: Capture | Exception | None) -> Scripted:
        for act in acts:
            self._script.put(act)
        return self

    def capture(self) -> Capture | None:
        if self._wanted:
            self.given.release()
        self._wanted += 1
        while not self.closed.is_set():
            try:
                act = self._script.get(timeout=0.05)
            except Empty:
                continue
            if isinstance(act, Exception):
                raise act
            return act
        raise SourceError("the script is over")

    def close(self) -> None:
        self.closed.set()


def capture(value: int) -> Capture:
    return Capture(np.full((4, 6, 3), value, np.uint8), time.monotonic())


@pytest.fixture
def driver() -> Iterator[Scripted]:
    scripted = Scripted()
    yield scripted
    scripted.close()


def connected(connect: Callable[[], Driver], read_timeout_s: float = 5.0) -> DriverSource:
    return DriverSource("top", connect, open_timeout_s=5.0, read_timeout_s=read_timeout_s)


def read(source: DriverSource) -> Frame:
    frame = source.read(5.0)
    assert frame is not None
    return frame


def test_a_slow_reader_gets_the_newest_frame_and_sees_the_gap(driver: Scripted) -> None:
    source = connected(lambda: driver.then(capture(1), capture(2), capture(3)))
    for _ in range(3):
        assert driver.given.acquire(timeout=5)
    frame = read(source)
    assert (frame.seq, int(frame.pixels[0, 0, 0])) == (3, 3)


def test_no_frame_is_given_twice(driver: Scripted) -> None:
    source = connected(lambda: driver.then(capture(1)))
    assert read(source).seq == 1
    with pytest.raises(SourceStalledError):
        source.read(0.05)


def test_pictures_that_somebody_asked_for_are_all_given_in_order(driver: Scripted) -> None:
    asked = [capture(value)._replace(kept=True, part=value != 2) for value in range(1, 5)]
    source = connected(lambda: driver.then(*asked))
    for _ in asked:
        assert driver.given.acquire(timeout=5)
    seen = [read(source) for _ in asked]
    assert [int(frame.pixels[0, 0, 0]) for frame in seen] == [1, 2, 3, 4]
    assert [len(frame.triggers) for frame in seen] == [1, 0, 1, 1]
    assert seen[0].triggers[0].time_s == seen[0].time_s
    assert seen[0].triggers[0].at == seen[0].captured_at


def test_of_parts_that_come_too_fast_the_question_stays(driver: Scripted) -> None:
    """Their pictures would fill the memory."""
    asked = [capture(value)._replace(kept=True, part=True) for value in range(1, KEPT + 4)]
    source = connected(lambda: driver.then(*asked))
    for _ in asked:
        assert driver.given.acquire(timeout=5)
    seen = [read(source) for _ in asked]
    assert [frame.damaged is not None for frame in seen] == [False] * KEPT + [True] * 3
    assert not any(frame.pixels.any() for frame in seen[KEPT:])
    assert all(len(frame.triggers) == 1 for frame in seen)


def test_pictures_that_never_came_are_counted(driver: Scripted) -> None:
    source = connected(lambda: driver.then(capture(1)._replace(lost=3)))
    assert read(source).seq == 4


def test_nobody_can_write_to_a_frame(driver: Scripted) -> None:
    source = connected(lambda: driver.then(capture(1)))
    with pytest.raises(ValueError, match="read-only"):
        read(source).pixels[0, 0, 0] = 9


def test_the_wall_clock_of_a_frame_is_that_of_its_capture(driver: Scripted) -> None:
    old = Capture(np.zeros((4, 6, 3), np.uint8), time.monotonic() - 10)
    source = connected(lambda: driver.then(old))
    frame = read(source)
    assert time.time() - frame.captured_at.timestamp() == pytest.approx(10, abs=0.5)


def test_read_keeps_its_limit_while_the_driver_hangs(driver: Scripted) -> None:
    source = connected(lambda: driver)
    started = time.monotonic()
    with pytest.raises(SourceStalledError, match="camera top: no frame"):
        source.read(0.2)
    assert time.monotonic() - started < 1.2


def test_a_driver_that_hangs_too_long_is_a_lost_camera(driver: Scripted) -> None:
    source = connected(lambda: driver, read_timeout_s=0.3)
    started = time.monotonic()
    with pytest.raises(SourceError, match="nothing came") as caught:
        source.read(30.0)
    assert not isinstance(caught.value, SourceStalledError)
    assert time.monotonic() - started < 2


def test_a_sign_of_life_without_a_picture_is_no_loss(driver: Scripted) -> None:
    source = connected(lambda: driver, read_timeout_s=0.3)
    until = time.monotonic() + 1.0
    while time.monotonic() < until:
        driver.then(None)
        with pytest.raises(SourceStalledError):
            source.read(0.1)


def test_close_returns_while_the_driver_hangs(caplog: pytest.LogCaptureFixture) -> None:
    wake = threading.Event()
    closed = threading.Event()

    class Hanging:
        def capture(self) -> Capture | None:
            wake.wait(30)
            return None

        def close(self) -> None:
            closed.set()

    source = connected(Hanging)
    started = time.monotonic()
    source.close()
    source.close()
    assert time.monotonic() - started < 4
    assert [record.message for record in caplog.records] == [
        "camera top: its driver hangs and is left behind"
    ]
    wake.set()
    assert closed.wait(5), "a driver that comes back late must still be closed"


def test_close_ends_a_pending_read(driver: Scripted) -> None:
    source = connected(lambda: driver)
    errors: SimpleQueue[Exception] = SimpleQueue()

    def wait() -> None:
        try:
            source.read(30.0)
        except SourceError as error:
            errors.put(error)

    reader = threading.Thread(target=wait)
    reader.start()
    source.close()
    reader.join(2)
    assert not reader.is_alive()
    assert str(errors.get(timeout=1)) == "camera top is closed"


def test_open_keeps_its_limit_and_a_late_driver_is_closed(driver: Scripted) -> None:
    answer = threading.Event()

    def connect() -> Driver:
        answer.wait(30)
        return driver

    started = time.monotonic()
    with pytest.raises(SourceError, match=r"camera top did not open within 0\.2 s; is it switched on"):
        DriverSource("top", connect, open_timeout_s=0.2, read_timeout_s=1.0)
    assert time.monotonic() - started < 1.2
    answer.set()
    assert driver.closed.wait(5)


def test_an_error_of_opening_is_raised_by_opening() -> None:
    def connect() -> Driver:
        raise SourceError("camera top: no permission", hint="ask")

    with pytest.raises(SourceError, match="camera top: no permission; ask"):
        connected(connect)


def test_the_frame_before_a_loss_is_given_first_and_the_loss_stays(driver: Scripted) -> None:
    source = connected(lambda: driver.then(capture(1), SourceError("unplugged", hint="plug it in")))
    assert driver.closed.wait(5)
    assert read(source).seq == 1
    for _ in range(2):
        with pytest.raises(SourceError, match="unplugged; plug it in"):
            source.read(1.0)


def test_a_bug_in_a_driver_reaches_the_reader_as_itself(driver: Scripted) -> None:
    source = connected(lambda: driver.then(ZeroDivisionError("a bug")))
    with pytest.raises(ZeroDivisionError):
        source.read(5.0)
