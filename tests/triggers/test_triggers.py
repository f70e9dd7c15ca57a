from __future__ import annotations

import json
from typing import get_args

import pytest
from pydantic import ValidationError

from edge_infer.result import TriggerType
from edge_infer.station import StationSettings
from edge_infer.triggers import PartTriggerSettings
from edge_infer.triggers.continuous import Continuous
from edge_infer.triggers.every import Every
from tests.support.frames import frame


@pytest.mark.parametrize("name", get_args(TriggerType))
def test_every_type_is_a_trigger_of_a_station(name: str) -> None:
    needed: dict[str, dict[str, object]] = {"every": {"every_s": 1}, "gpio": {"line": 17}}
    trigger = {"type": name} | needed.get(name, {})
    text = json.dumps({"camera": "c", "model": "m", "trigger": trigger})
    settings = StationSettings.model_validate_json(text).trigger
    assert settings.type == name
    assert (
        isinstance(settings, PartTriggerSettings)
        == (name in {"mqtt", "camera", "gpio"})
        == settings.triggered
    )


def test_a_delay_longer_than_the_deadline_is_refused() -> None:
    text = '{"camera": "c", "model": "m", "trigger": {"type": "mqtt", "delay_ms": 2000}}'
    with pytest.raises(ValidationError, match="no part could be answered"):
        StationSettings.model_validate_json(text)


def test_continuous_wants_each_frame() -> None:
    chooser = Continuous(type="continuous").choose()
    assert all(chooser.wants(frame(i)) for i in range(5))


def test_every_takes_the_first_frame_of_each_period_and_does_not_drift() -> None:
    chooser = Every(type="every", every_s=0.5).choose()
    times = [i * 0.04 for i in range(2501)]
    taken = [time_s for time_s in times if chooser.wants(frame(time_s=time_s))]
    assert len(taken) == 201
    assert all(abs(time_s - i * 0.5) < 0.04 for i, time_s in enumerate(taken))


def test_every_does_not_make_up_for_a_gap() -> None:
    chooser = Every(type="every", every_s=1).choose()
    assert [chooser.wants(frame(time_s=time_s)) for time_s in (0, 5.5, 5.6, 6.1)] == [True, True, False, True]
