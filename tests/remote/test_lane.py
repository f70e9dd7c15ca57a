from __future__ import annotations

import queue
import threading
from collections.abc import Callable

import pytest

from edge_infer.remote.lane import Lane

Task = Callable[[], None] | None


def test_a_request_that_comes_while_the_lane_closes_is_refused_and_the_lane_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun, go = threading.Event(), threading.Event()
    ran: list[str] = []
    taken: list[bool] = []
    lane = Lane("test", 1)

    def hang() -> None:
        begun.set()
        go.wait(10)

    late = threading.Thread(target=lambda: taken.append(lane.put(lambda: ran.append("late"))))

    def emptied() -> Task:
        try:
            return queue.Queue[Task].get_nowait(lane._queue)
        except queue.Empty:
            late.start()
            late.join(0.2)
            go.set()
            raise

    assert lane.put(hang)
    assert begun.wait(5)
    assert lane.put(lambda: ran.append("waits"))
    monkeypatch.setattr(lane._queue, "get_nowait", emptied)
    assert lane.close(5)
    late.join(5)
    assert (taken, ran) == ([False], [])
