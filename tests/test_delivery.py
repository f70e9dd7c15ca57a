from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from edge_infer import clock
from edge_infer.delivery import Delivery
from edge_infer.frame import Frame, PartTrigger
from edge_infer.remote.recent import Recent
from edge_infer.result import Reason, Result
from edge_infer.station import StationSettings
from tests.support.frames import frame
from tests.support.mosquitto import Mosquitto
from tests.support.publishers import PREFIX, Device
from tests.support.results import result

STATION = StationSettings.model_validate({"camera": "cam", "model": "m"})


@pytest.fixture
def device(mosquitto: Mosquitto, tmp_path: Path) -> Iterator[Device]:
    """Its publisher is not started: what is stored stays."""
    one = Device(mosquitto, tmp_path / "outbox")
    yield one
    one.outbox.close(5)


def delivering(device: Device) -> Delivery:
    return Delivery(device.outbox, device.publisher, PREFIX, Recent(scenes=False))


def stored(folder: Path, one: Result) -> bool:
    """As another program sees the outbox, which sees only what is committed."""
    with closing(sqlite3.connect(folder / "outbox" / "outbox.db")) as database:
        payloads = [row[0] for row in database.execute("SELECT payload FROM outbox WHERE kind = 'result'")]
    return any(one.result_id.encode() in payload for payload in payloads)


def settling(seen: list[bool], done: threading.Event, folder: Path, one: Result) -> Frame:
    def settled(station: str) -> None:
        assert station == one.station
        seen.append(stored(folder, one))
        done.set()

    return replace(frame(), settled=settled)


def test_a_picture_is_settled_when_its_result_is_committed_and_not_before(
    device: Device, tmp_path: Path
) -> None:
    delivery, one = delivering(device), result()
    seen: list[bool] = []
    done = threading.Event()
    delivery.publish(one, settling(seen, done, tmp_path, one), None, STATION)
    assert done.wait(5)
    assert seen == [True]


def test_a_picture_whose_verdict_the_stop_cut_short_is_never_settled(device: Device, tmp_path: Path) -> None:
    """It is judged after the restart."""
    delivery = delivering(device)
    cut = result(decision="UNDEFINED").model_copy(
        update={"reasons": (Reason(code="restarted", text="the service stopped before an answer"),)}
    )
    seen: list[bool] = []
    done, after = threading.Event(), threading.Event()
    delivery.publish(cut, settling(seen, done, tmp_path, cut), None, STATION)
    later = result()
    # committed in order: when this one is, the one before it is
    delivery.publish(later, settling([], after, tmp_path, later), None, STATION)
    assert after.wait(5)
    assert stored(tmp_path, cut)
    assert not done.is_set()


def test_a_cameras_trigger_that_the_outbox_cannot_take_is_said_and_does_not_stop_the_camera(
    mosquitto: Mosquitto, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    device = Device(mosquitto, tmp_path / "outbox").start()
    delivery = Delivery(device.outbox, device.publisher, PREFIX, Recent(scenes=False))
    monkeypatch.setattr(device.outbox._handover, "_limit", 0)
    delivery.accept("cap", PartTrigger(time.monotonic(), clock.now(), part_id="A-1", job_id="job-1"))
    assert "the trigger of cap is not stored" in caplog.text
    device.close()
