"""A light barrier on an input. There is no GPIO chip here: the kernel's half is played with gpiod's types."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from queue import Empty, SimpleQueue
from typing import Any, Literal

import gpiod
import pytest
from gpiod.line import Clock, Direction, Edge
from pydantic import ValidationError

from edge_infer import clock
from edge_infer.frame import PartTrigger
from edge_infer.triggers import Listener, gpio
from edge_infer.triggers.gpio import Gpio


class Ear:
    """A station as the light barrier sees it."""

    def __init__(self) -> None:
        self.parts: list[PartTrigger] = []
        self.states: list[tuple[str, str]] = []
        self._changed = threading.Condition()

    def accept(self, trigger: PartTrigger) -> None:
        with self._changed:
            self.parts.append(trigger)
            self._changed.notify_all()

    def trigger_changed(self, state: Literal["ready", "lost"], text: str) -> None:
        with self._changed:
            self.states.append((state, text))
            self._changed.notify_all()

    def wait(self, wanted: Callable[[], bool]) -> None:
        end_s = time.monotonic() + 5
        with self._changed:
            # what the chip was asked notifies nobody
            while not wanted():
                assert time.monotonic() < end_s, (self.parts, self.states)
                self._changed.wait(0.02)


class Chip:
    """Takes the place of the kernel's device: `gpiod.request_lines` and what it gives."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[Any, Any]]] = []
        self.away: OSError | None = None
        self._edges: SimpleQueue[gpiod.EdgeEvent | OSError] = SimpleQueue()
        self._sequence = 0

    def request_lines(self, path: str, config: dict[Any, Any], **_: object) -> Chip:
        self.asked.append((path, config))
        self._sequence = 0
        if self.away is not None:
            raise self.away
        return self

    def pulse(self, *, lost: int = 0) -> float:
        """An edge now; before it some that nobody could read."""
        now_ns = time.monotonic_ns()
        self._sequence += 1 + lost
        kind = gpiod.EdgeEvent.Type.RISING_EDGE.value
        self._edges.put(gpiod.EdgeEvent(kind, now_ns, 17, self._sequence, self._sequence))
        return now_ns / 1e9

    def unplug(self, error: OSError | None) -> None:
        self.away = error
        if error is not None:
            self._edges.put(error)

    def wait_edge_events(self, timeout: float) -> bool:
        try:
            self._next = self._edges.get(timeout=timeout)
        except Empty:
            return False
        return True

    def read_edge_events(self) -> list[gpiod.EdgeEvent]:
        if isinstance(self._next, OSError):
            raise self._next
        return [self._next]

    def __enter__(self) -> Chip:
        return self

    def __exit__(self, *_: object) -> None:
        pass


@pytest.fixture
def chip(monkeypatch: pytest.MonkeyPatch) -> Chip:
    one = Chip()
    monkeypatch.setattr(gpiod, "request_lines", one.request_lines)
    return one


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpio, "FIRST_WAIT_S", 0.02)
    monkeypatch.setattr(gpio, "LOOK_S", 0.02)


@pytest.fixture
def listen() -> Iterator[Callable[[Ear], Listener]]:
    started: list[Listener] = []

    def start(ear: Ear, **keys: object) -> Listener:
        settings = Gpio.model_validate({"type": "gpio", "line": 17, "debounce_ms": 5.0, **keys})
        started.append(settings.listen("cap", ear))
        return started[-1]

    yield start
    assert all(one.stop(2) for one in started)


def test_an_edge_is_a_part_at_the_time_the_kernel_saw_it(
    chip: Chip, listen: Callable[[Ear], Listener]
) -> None:
    ear = Ear()
    listen(ear)
    ear.wait(lambda: bool(ear.states))
    pulsed_s = [chip.pulse() for _ in range(3)]
    ear.wait(lambda: len(ear.parts) == 3)
    assert [one.time_s for one in ear.parts] == pytest.approx(pulsed_s, abs=1e-6)
    assert all(abs((datetime.now(UTC) - one.at).total_seconds()) < 2 for one in ear.parts)
    ((path, config),) = chip.asked
    (wanted,) = config.values()
    assert (path, *config) == ("/dev/gpiochip0", 17)
    assert (wanted.direction, wanted.edge_detection) == (Direction.INPUT, Edge.RISING)
    assert wanted.event_clock is Clock.MONOTONIC
    assert wanted.debounce_period.total_seconds() == 0.005


def test_parts_are_numbered_and_a_second_start_repeats_no_name(
    chip: Chip, listen: Callable[[Ear], Listener], monkeypatch: pytest.MonkeyPatch
) -> None:
    names: list[str | None] = []
    for second in (1, 2):
        at = datetime(2026, 11, 30, 12, 0, second, tzinfo=UTC)
        monkeypatch.setattr(clock, "now", lambda at=at: at)
        ear = Ear()
        listener = listen(ear)
        ear.wait(lambda ear=ear: bool(ear.states))  # type: ignore[misc]
        for _ in range(2):
            chip.pulse()
        ear.wait(lambda ear=ear: len(ear.parts) == 2)  # type: ignore[misc]
        assert listener.stop(2)
        names += [one.part_id for one in ear.parts]
    assert names == [f"20261130T12000{second}Z-{count}" for second in (1, 2) for count in (1, 2)]


def test_edges_that_nobody_could_read_are_told_and_counted(
    chip: Chip, listen: Callable[[Ear], Listener], caplog: pytest.LogCaptureFixture
) -> None:
    ear = Ear()
    listen(ear)
    ear.wait(lambda: bool(ear.states))
    chip.pulse()
    chip.pulse(lost=4)
    ear.wait(lambda: len(ear.parts) == 2)
    assert "4 part(s) came faster than they could be read" in caplog.text
    assert [str(one.part_id).rpartition("-")[2] for one in ear.parts] == ["1", "6"]


def test_a_chip_that_goes_away_is_told_once_and_heard_again(
    chip: Chip, listen: Callable[[Ear], Listener]
) -> None:
    ear = Ear()
    listen(ear)
    ear.wait(lambda: [state for state, _ in ear.states] == ["ready"])
    chip.unplug(OSError(19, "No such device"))
    ear.wait(lambda: len(chip.asked) > 4)
    assert [state for state, _ in ear.states] == ["ready", "lost"]
    assert "No such device" in ear.states[-1][1]
    chip.unplug(None)
    ear.wait(lambda: [state for state, _ in ear.states] == ["ready", "lost", "ready"])
    chip.pulse()
    ear.wait(lambda: len(ear.parts) == 1)


def test_a_chip_that_is_not_there_is_named_with_a_remedy(listen: Callable[..., Listener]) -> None:
    """By the real library."""
    ear = Ear()
    listen(ear, chip="/dev/gpiochip-absent")
    ear.wait(lambda: bool(ear.states))
    text = "line 17 of /dev/gpiochip-absent cannot be heard: there is no such chip; `gpiodetect` lists them"
    assert ear.states[0] == ("lost", f"station cap: {text}")


@pytest.mark.parametrize(
    "wrong", [{"line": -1}, {"line": True}, {"chip": "gpiochip0"}, {"edge": "both"}, {"debounce_ms": -1}]
)
def test_what_is_no_input_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Gpio.model_validate({"type": "gpio", "line": 17, **wrong})


def test_a_bug_that_ends_the_thread_is_kept_for_the_service(
    chip: Chip, listen: Callable[[Ear], Listener], caplog: pytest.LogCaptureFixture
) -> None:
    class Deaf(Ear):
        def accept(self, trigger: PartTrigger) -> None:
            super().accept(trigger)
            raise RuntimeError("a bug")

    ear = Deaf()
    line = listen(ear)
    ear.wait(lambda: bool(ear.states))
    assert line.failure is None
    chip.pulse()
    ear.wait(lambda: bool(ear.parts))
    assert line.stop(2)
    assert str(line.failure) == "a bug"
    assert "a bug ended its thread" in caplog.text
