from __future__ import annotations

from edge_infer.registry import resolve
from edge_infer.triggers import TRIGGERS
from edge_infer.triggers.continuous import Continuous
from edge_infer.triggers.every import Every
from tests.support.frames import frame


def test_every_name_in_the_table_is_a_trigger_of_that_type() -> None:
    for name in TRIGGERS:
        settings = resolve(TRIGGERS, name).model_validate(
            {"type": name} | ({"every_s": 1} if name == "every" else {})
        )
        assert settings.type == name
        assert settings.triggered == (name in {"mqtt", "camera"})


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
