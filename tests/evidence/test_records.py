from __future__ import annotations

import threading
import time

import pytest

from edge_infer.evidence.records import Records
from edge_infer.result import Result, StoredPicture
from tests.support.results import result

RAW = StoredPicture(uri="file:///x.jpg", sha256="0" * 64, width=1, height=1, content_type="image/jpeg")


class Out:
    def __init__(self) -> None:
        self.got: list[Result] = []
        self.at_s: list[float] = []
        self.came = threading.Event()

    def put(self, one: Result) -> None:
        self.got.append(one)
        self.at_s.append(time.monotonic())
        self.came.set()

    @property
    def ids(self) -> list[str]:
        return [one.result_id for one in self.got]


def test_a_result_without_pictures_passes_straight_through() -> None:
    out = Out()
    records = Records(out.put)
    one = result()
    records.pass_on(one)
    assert out.got == [one]
    records.close()


def test_a_result_is_held_until_its_pictures_are_named_and_then_names_them() -> None:
    out = Out()
    records = Records(out.put)
    held = records.hold(result())
    assert records.attach(held, "raw", RAW)
    assert not out.got
    records.complete(held)
    (one,) = out.got
    assert one.image is not None
    assert one.image.uri == RAW.uri
    assert one.has_transferable_data_on_file
    records.close()


def test_results_of_one_station_stay_in_order_and_others_do_not_wait() -> None:
    out = Out()
    records = Records(out.put)
    first, second, third = result("cap"), result("cap"), result("cap")
    other = result("seal")
    held = records.hold(first)
    late = records.hold(second)
    records.pass_on(third)
    records.pass_on(other)
    assert out.ids == [other.result_id]
    records.complete(late)
    assert len(out.got) == 1
    records.complete(held)
    assert out.ids == [one.result_id for one in (other, first, second, third)]
    records.close()


def test_a_result_waits_a_moment_for_its_pictures_and_not_longer(hold_s: float) -> None:
    out = Out()
    records = Records(out.put)
    start_s = time.monotonic()
    held = records.hold(result())
    records.pass_on(behind := result())
    while len(out.got) < 2:
        assert out.came.wait(5)
        out.came.clear()
    waited_s = [at - start_s for at in out.at_s]
    assert hold_s <= waited_s[0] <= waited_s[1] < hold_s + 0.2
    assert out.got[1] is behind
    assert out.got[0].image is None
    # too late: nothing may be stored that no result names
    assert not records.attach(held, "raw", RAW)
    records.complete(held)
    assert len(out.got) == 2
    records.close()


@pytest.mark.usefixtures("hold_s")
def test_what_is_there_in_time_is_named_though_the_rest_is_late() -> None:
    out = Out()
    records = Records(out.put)
    held = records.hold(result())
    records.attach(held, "raw", RAW)
    assert out.came.wait(5)
    (one,) = out.got
    assert one.image is not None
    assert one.image.drawn is None
    records.close()


def test_a_close_lets_all_go_at_once_and_holds_nothing_more() -> None:
    out = Out()
    records = Records(out.put)
    wanted = [result(), result()]
    records.hold(wanted[0])
    records.pass_on(wanted[1])
    records.close()
    assert out.got == wanted
    records.hold(later := result())
    assert out.got[-1] is later
