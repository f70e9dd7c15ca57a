"""The arithmetic of windows that lie in turns."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

import pytest

from edge_infer.bench.windows import Turns, Window, fastest, ideal_s, percentile, take_turns, timed


def window(fps: float, model: str = "m", seconds: float = 1.0, cpu_s: float = 1.0) -> Window:
    return Window({model: round(fps * seconds)}, seconds, cpu_s)


def test_the_ratio_is_of_the_windows_beside_not_of_all() -> None:
    # the machine gets slower while it is measured; the pipeline always has 0.9 of it
    turns = Turns(
        tuple({"m": window(fps)} for fps in (1000, 800, 400)), (window(0.9 * 900), window(0.9 * 600))
    )
    assert turns.ratio == pytest.approx(0.9)


def test_one_disturbed_window_does_not_move_the_ratio() -> None:
    bare = tuple({"m": window(1000)} for _ in range(4))
    assert Turns(bare, (window(950), window(200), window(950))).ratio == pytest.approx(0.95)


def test_of_several_models_each_frame_counts_what_its_own_network_costs() -> None:
    bare = {"slow": window(10, "slow"), "fast": window(1000, "fast")}
    # alone 0.3 s would have been enough for the ones, 0.6 s for the others
    both = Window({"slow": 3, "fast": 600}, 1.2, 1.0)
    assert ideal_s(both, bare, bare) == pytest.approx(0.9)
    turns = Turns((bare, bare), (both,))
    assert turns.ratio == pytest.approx(0.75)
    assert turns.bare_fps == pytest.approx(670)
    assert turns.pipeline_fps == pytest.approx(603 / 1.2)


def test_processor_time_is_a_frames_own() -> None:
    bare = ({"m": window(100, cpu_s=2.0)}, {"m": window(100, cpu_s=2.0)})
    turns = Turns(bare, (window(50, cpu_s=1.5),))
    assert (turns.cpu_ms_per_frame, turns.bare_cpu_ms_per_frame) == pytest.approx((30, 20))


def test_each_pipeline_window_lies_between_two_bare_ones() -> None:
    order: list[str] = []

    def bare() -> dict[str, Window]:
        order.append("bare")
        return {"m": window(100)}

    def pipeline() -> Window:
        order.append("pipeline")
        return window(90)

    *_, last = take_turns(bare, pipeline, rounds=3)
    assert order == ["bare", "pipeline", "bare", "pipeline", "bare", "pipeline", "bare"]
    assert (len(last.bare), len(last.pipeline)) == (4, 3)


def test_the_shortest_window_has_one_frame() -> None:
    def run(stop: Callable[[], bool]) -> int:
        done = 0
        while not stop():
            done += 1
        return done

    assert timed("m", run, 0.0).frames == {"m": 1}


def test_a_window_is_as_long_as_its_last_frame() -> None:
    late = threading.Event()

    def run(_: object) -> int:
        late.wait(0.05)
        return 2

    of = timed("m", run, 0.0)
    assert of.seconds >= 0.05
    assert of.fps == pytest.approx(2 / of.seconds)


def test_the_fastest_way_is_that_of_the_best_median() -> None:
    rates = {"lucky once": iter([900.0, 1.0, 1.0]), "steady": iter([100.0, 100.0, 100.0])}
    assert fastest({name: partial(next, each) for name, each in rates.items()}) == "steady"


def test_a_percentile_is_a_value_that_was_there() -> None:
    values = [float(one) for one in range(100, 0, -1)]
    assert [percentile(values, share) for share in (0.5, 0.95, 0.99)] == [51, 96, 100]
    assert percentile([7.0], 0.99) == 7
