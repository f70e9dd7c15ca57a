"""A camera whose settings or stations are others now."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

import pytest

from edge_infer import camera as camera_module
from edge_infer.camera import Camera
from edge_infer.errors import SourceBusyError
from edge_infer.frame import Frame
from edge_infer.settings import Secrets
from edge_infer.sources import Source, SourceSettings
from tests.support.frames import frame
from tests.test_camera import Ear


@dataclass
class Device:
    """One that only one may have, and that takes its time to let go."""

    held: bool = False
    opened: int = 0
    let_go: threading.Event = field(default_factory=threading.Event)

    def read(self, timeout_s: float) -> Frame | None:
        threading.Event().wait(min(timeout_s, 0.01))
        return frame(self.opened)

    def close(self) -> None:
        self.let_go.wait(10)
        self.held = False


DEVICE = Device()


class OneHolder(SourceSettings):
    type: Literal["one"] = "one"

    def open(self, camera: str, secrets: Secrets) -> Source:  # noqa: ARG002 - the contract's parameters
        if DEVICE.held:
            raise SourceBusyError("somebody has it")
        DEVICE.held = True
        DEVICE.opened += 1
        return DEVICE


@pytest.fixture(autouse=True)
def device(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    DEVICE.held, DEVICE.opened, DEVICE.let_go = False, 0, threading.Event()
    monkeypatch.setattr(camera_module, "READ_S", 0.02)
    monkeypatch.setattr(camera_module, "FIRST_WAIT_S", 0.02)
    yield
    DEVICE.let_go.set()


def camera_of(ear: Ear, after: Camera | None = None) -> Camera:
    one = Camera("top", OneHolder(), Secrets({}), [ear], ear, after=after)
    one.start()
    return one


def test_the_new_settings_wait_until_the_device_is_let_go() -> None:
    before, after = Ear(), Ear()
    old = camera_of(before)
    before.wait(lambda: bool(before.seen))
    old.stop()
    new = camera_of(after, old)
    assert not new.join(0.2)
    assert after.states == [], "it is not tried while the old one has it"
    DEVICE.let_go.set()
    after.wait(lambda: bool(after.seen))
    assert after.states == ["connected"]
    new.stop()
    assert new.join(5)


def test_a_device_that_is_never_let_go_is_told_as_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(camera_module, "AFTER_S", 0.1)
    before, after = Ear(), Ear()
    old = camera_of(before)
    before.wait(lambda: bool(before.seen))
    old.stop()
    new = camera_of(after, old)
    after.wait(lambda: after.states == ["busy"])
    new.stop()
    assert new.join(5)


def test_a_camera_that_was_asked_to_stop_says_nothing_any_more() -> None:
    ear = Ear()
    old = camera_of(ear)
    ear.wait(lambda: bool(ear.seen))
    states, told = len(ear.states), len(ear.told)
    old.stop()
    old._change("lost", "the driver was closed under it")
    DEVICE.let_go.set()
    assert old.join(5)
    assert (len(ear.states), len(ear.told)) == (states, told), "one of its name may run already"


def test_stations_join_and_leave_a_camera_that_runs_on() -> None:
    first, second = Ear(), Ear()
    one = camera_of(first)
    first.wait(lambda: bool(first.seen))
    one.show_to([second])
    second.wait(lambda: bool(second.seen))
    seen = len(first.seen)
    second.wait(lambda: len(second.seen) > 3)
    assert len(first.seen) <= seen + 1
    assert DEVICE.opened == 1
    DEVICE.let_go.set()
    one.stop()
    assert one.join(5)
