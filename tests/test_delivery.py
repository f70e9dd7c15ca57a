from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from edge_infer import clock
from edge_infer.delivery import Delivery
from edge_infer.frame import PartTrigger
from edge_infer.remote.recent import Recent
from edge_infer.result import Reason, ReasonCode
from edge_infer.station import StationSettings
from tests.support.frames import frame
from tests.support.mosquitto import Mosquitto
from tests.support.publishers import PREFIX, Device
from tests.support.results import result


def test_a_cameras_trigger_that_the_outbox_cannot_take_is_said_and_does_not_stop_the_camera(
    mosquitto: Mosquitto, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    device = Device(mosquitto, tmp_path / "outbox").start()
    delivery = Delivery(device.outbox, device.publisher, PREFIX, Recent(scenes=False))
    monkeypatch.setattr(device.outbox._handover, "_limit", 0)
    delivery.accept("cap", PartTrigger(time.monotonic(), clock.now(), part_id="A-1", job_id="job-1"))
    assert "the trigger of cap is not stored" in caplog.text
    device.close()


@pytest.mark.parametrize(("code", "settles"), [("backend_failed", True), ("restarted", False)])
def test_a_frame_is_settled_when_its_result_is_committed_unless_a_stop_cut_it_short(
    mosquitto: Mosquitto, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: ReasonCode, *, settles: bool
) -> None:
    device = Device(mosquitto, tmp_path / "outbox").start()
    delivery = Delivery(device.outbox, device.publisher, PREFIX, Recent(scenes=False))
    commits: list[Callable[[], None]] = []
    monkeypatch.setattr(
        device.outbox, "put", lambda _topic, one, committed: commits.append(partial(committed, one))
    )
    settled: list[str] = []
    settings = StationSettings.model_validate_json('{"camera": "cam", "model": "m"}')
    undefined = result(decision="UNDEFINED").model_copy(update={"reasons": (Reason(code=code, text="why"),)})
    delivery.publish(undefined, replace(frame(1), settled=settled.append), None, settings)
    assert settled == []
    commits.pop()()
    assert settled == (["cap"] if settles else [])
    device.close()
