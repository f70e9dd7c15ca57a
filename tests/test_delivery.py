from __future__ import annotations

import time
from pathlib import Path

import pytest

from edge_infer import clock
from edge_infer.delivery import Delivery
from edge_infer.frame import PartTrigger
from edge_infer.remote.recent import Recent
from tests.support.mosquitto import Mosquitto
from tests.support.publishers import PREFIX, Device


def test_a_cameras_trigger_that_the_outbox_cannot_take_is_said_and_does_not_stop_the_camera(
    mosquitto: Mosquitto, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    device = Device(mosquitto, tmp_path / "outbox").start()
    delivery = Delivery(device.outbox, device.publisher, PREFIX, Recent(scenes=False))
    monkeypatch.setattr(device.outbox._handover, "_limit", 0)
    delivery.accept("cap", PartTrigger(time.monotonic(), clock.now(), part_id="A-1", job_id="job-1"))
    assert "the trigger of cap is not stored" in caplog.text
    device.close()
