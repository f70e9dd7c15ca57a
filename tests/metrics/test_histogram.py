from __future__ import annotations

import sys
import time

from edge_infer.metrics.histogram import BOUNDS_S, Histogram


def test_each_duration_is_in_the_bucket_of_the_first_bound_that_it_does_not_exceed() -> None:
    histogram = Histogram()
    for seconds in (0.0, 0.0005, 0.0006, 0.1, 0.1001, 5.0, 5.1, 1000):
        histogram.observe(seconds)
    told = dict(histogram.cumulative())
    assert told["0.0005"] == 2
    assert told["0.001"] == 3
    assert told["0.05"] == 3
    assert told["0.1"] == 4
    assert told["0.2"] == 5
    assert told["5.0"] == 6
    assert told["+Inf"] == 8
    assert histogram.sum_s == 0.0 + 0.0005 + 0.0006 + 0.1 + 0.1001 + 5.0 + 5.1 + 1000


def test_bounds_are_seconds_from_half_a_millisecond_to_some_seconds() -> None:
    assert list(BOUNDS_S) == sorted(BOUNDS_S)
    assert (BOUNDS_S[0], BOUNDS_S[-1]) == (0.0005, 5.0)


def test_it_stays_as_small_as_it_is_and_costs_an_inspection_next_to_nothing() -> None:
    histogram = Histogram()
    before = sys.getsizeof(histogram._counts)
    began = time.perf_counter()
    for number in range(100_000):
        histogram.observe(number / 10_000)
    # 5 µs each on a busy machine; alone it is 0.2 µs
    assert time.perf_counter() - began < 0.5
    assert sys.getsizeof(histogram._counts) == before
    assert dict(histogram.cumulative())["+Inf"] == 100_000
