from __future__ import annotations

import time

from edge_infer.station.inspection import Unusable
from edge_infer.station.meter import Meter
from tests.support.frames import frame
from tests.support.results import result
from tests.support.stations import Line, Scripted, now


def test_a_window_has_its_own_rate_and_percentiles_and_decisions_count_on() -> None:
    meter = Meter()
    for age_ms in range(1, 101):
        meter.count(result(decision="OK").model_copy(update={"age_ms": float(age_ms)}))
    meter.count(result(decision="NOK").model_copy(update={"age_ms": None}))
    time.sleep(0.1)
    rate, age_ms_, processing_ms = meter.window()
    assert 200 < rate < 1010
    assert age_ms_ is not None
    assert (age_ms_.p50, age_ms_.p95) == (51.0, 95.0)
    assert processing_ms is not None
    assert processing_ms.p50 == 12.5
    assert (meter.decisions.ok, meter.decisions.nok, meter.decisions.undefined) == (100, 1, 0)
    rate, age_ms_, processing_ms = meter.window()
    assert (rate, age_ms_, processing_ms) == (0.0, None, None)
    assert meter.decisions.ok == 100


def test_counting_costs_an_inspection_next_to_nothing() -> None:
    meter, one = Meter(), result()
    began = time.perf_counter()
    for _ in range(20_000):
        meter.count(one)
    # 20 µs each on a busy machine; alone it is below 1 µs
    assert time.perf_counter() - began < 0.4


def test_a_station_counts_each_inspection_once_and_a_standing_trouble_once() -> None:
    network = Scripted()
    line = Line(network)
    for i in range(1, 4):
        line.station.offer(frame(i, time_s=now()))
        line.box.wait(i)
    line.station.trouble(Unusable("camera_lost", "gone"))
    for _ in range(3):
        line.station.check_deadlines()
    decisions = line.station.meter.decisions
    assert (decisions.ok, decisions.nok, decisions.undefined) == (3, 0, 1)
    rate, age_ms, processing_ms = line.station.meter.window()
    assert rate > 0
    assert age_ms is not None
    assert processing_ms is not None
