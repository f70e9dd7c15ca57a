from __future__ import annotations

import json
import threading
from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from edge_infer import clock
from edge_infer.errors import OutboxError
from edge_infer.outbox import Outbox, OutboxSettings, Row, writer
from edge_infer.outbox.folder import Folder
from edge_infer.outbox.handover import Handover, NewResult
from edge_infer.outbox.row import Place
from edge_infer.result import Decision, Result
from tests.support.outboxes import Reader, numbers, opened, put_all
from tests.support.results import result


def _told(rows: list[Row]) -> list[int]:
    """Numbers that gap messages tell."""
    return [
        number
        for row in rows
        if row.kind == "gap"
        for one in json.loads(row.payload)["ranges"]
        for number in range(one["fromSeq"], one["toSeq"] + 1)
    ]


def test_a_full_outbox_gives_up_ok_first_then_undefined_and_nok_last(tmp_path: Path) -> None:
    outbox = opened(tmp_path, max_rows=4)
    decisions: list[Decision] = [
        "NOK",
        "OK",
        "UNDEFINED",
        "OK",
        "NOK",
        "UNDEFINED",
        "OK",
        "NOK",
        "NOK",
        "NOK",
    ]
    finals = put_all(outbox, [result(decision=one) for one in decisions])
    reader = Reader(outbox)
    outbox.connected()
    rows = reader.take(5)
    kept = numbers(rows)
    # 5 NOK for 4 places: the oldest of them went, and all others before it
    assert [finals[seq - 1].decision for seq in kept] == ["NOK"] * 4
    assert kept == [5, 8, 9, 10]
    assert _told(rows) == [1, 2, 3, 4, 6, 7]
    assert outbox.stats.given_up == {"OK": 3, "UNDEFINED": 2, "NOK": 1}
    outbox.close(5)


def test_every_number_is_either_delivered_or_told_as_given_up(tmp_path: Path) -> None:
    outbox = opened(tmp_path, max_bytes=100_000)
    decisions: list[Decision] = ["OK", "NOK", "UNDEFINED", "OK", "OK"]
    for i in range(4):
        put_all(outbox, [result(decision=decisions[(i + k) % 5]) for k in range(150)])
    assert outbox.stats.bytes <= 100_000
    outbox.close(5)
    again = opened(tmp_path, max_bytes=100_000)
    reader = Reader(again)
    again.connected()
    rows = reader.take(again.stats.depth + 1)
    sent, told = numbers(rows), _told(rows)
    assert sorted(sent + told) == list(range(1, 601))
    gap = next(row for row in rows if row.kind == "gap")
    assert gap.topic == "p/cap/gap"
    payload = json.loads(gap.payload)
    assert payload["schema"] == "gap/1"
    assert payload["station"] == "cap"
    assert payload["streamId"] == rows[0].stream_id
    assert payload["reason"] == "full"
    again.close(5)


def test_a_gap_is_told_once_and_told_again_when_nobody_took_it(tmp_path: Path) -> None:
    outbox = opened(tmp_path, max_rows=1)
    put_all(outbox, [result(), result()])
    reader = Reader(outbox)
    outbox.connected()
    assert _told(reader.take(2)) == [1]
    outbox.disconnected(broken=False)
    outbox.connected()
    rows = reader.deliver(2)
    assert _told(rows) == [1]
    outbox.close(5)
    again = opened(tmp_path)
    again.connected()
    put_all(again, [result()])
    assert _told(Reader(again).deliver(1)) == []
    again.close(5)


def test_a_gap_that_was_taken_is_not_told_again_with_the_next_one(tmp_path: Path) -> None:
    outbox = opened(tmp_path, max_rows=1)
    put_all(outbox, [result(), result()])
    reader = Reader(outbox)
    outbox.connected()
    rows = reader.take(2)
    assert _told(rows) == [1]
    outbox.delivered(next(row for row in rows if row.kind == "result"))
    put_all(outbox, [result(), result()])
    outbox.delivered(next(row for row in rows if row.kind == "gap"))
    assert _told(reader.take(2)) == [3]
    outbox.close(5)


def test_a_gap_that_grew_while_it_was_told_is_told_again_whole(tmp_path: Path) -> None:
    outbox = opened(tmp_path, max_rows=1)
    put_all(outbox, [result("cap", "OK"), result("cap", "NOK")])
    reader = Reader(outbox)
    outbox.connected()
    gap = next(row for row in reader.take(2) if row.kind == "gap")
    outbox.disconnected(broken=False)
    put_all(outbox, [result("cap", "NOK")])
    outbox.connected()
    outbox.delivered(gap)
    assert _told(reader.take(2)) == [1, 2]
    outbox.close(5)


def test_a_result_that_the_pump_takes_while_victims_are_chosen_is_not_told_as_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outbox = opened(tmp_path, max_rows=1)
    reader = Reader(outbox)
    put_all(outbox, [result()])
    taken: list[Row] = []
    withdraw = outbox._ready.withdraw

    def late(place: Place, ids: Collection[int]) -> list[Row]:
        taken.extend(reader.take(1))
        monkeypatch.undo()
        return withdraw(place, ids)

    monkeypatch.setattr(outbox._ready, "withdraw", late)
    put_all(outbox, [result("cap", "NOK")])
    outbox.connected()
    assert numbers(taken) == [1]
    put_all(outbox, [result("cap", "NOK")])
    # all that is not on the wire goes
    assert _told(reader.take(1)) == [2, 3]
    outbox.close(5)


def test_a_result_on_the_wire_is_not_given_up(tmp_path: Path) -> None:
    outbox = opened(tmp_path, max_rows=2)
    reader = Reader(outbox)
    put_all(outbox, [result(), result()])
    outbox.connected()
    on_wire = reader.take(1)[0]
    put_all(outbox, [result("cap", "NOK") for _ in range(3)])
    outbox.delivered(on_wire)
    rows = reader.take(2)
    assert numbers([on_wire]) == [1]
    assert 1 not in _told(rows)
    outbox.close(5)


def held_up(outbox: Outbox) -> threading.Event:
    """The writer commits one result of ``cap`` and then hangs, as on a disk that does, until it is set."""
    held, release = threading.Event(), threading.Event()

    def hang(_: Result) -> None:
        held.set()
        release.wait(10)

    outbox.put("p/cap/result", result(), hang)
    assert held.wait(5)
    return release


def test_a_disk_that_hangs_bounds_what_is_in_hand_and_numbers_what_was_given_up(tmp_path: Path) -> None:
    outbox = Outbox(Folder(tmp_path, fsync=True), OutboxSettings(), limit=100)
    reader = Reader(outbox)
    release = held_up(outbox)
    for i in range(1000):
        outbox.put("p/cap/result", result("cap", "NOK" if i % 50 == 0 else "OK"))
        outbox.put("p/x/result", result("x", "OK"))
    assert outbox.stats.in_hand <= 204
    release.set()
    final = put_all(outbox, [result("cap"), result("x")])
    assert [one.seq for one in final] == [1002, 1001]
    outbox.connected()
    rows = reader.take(outbox.stats.depth + 2)
    for station in ("cap", "x"):
        mine = [row for row in rows if row.station == station]
        last = 1002 if station == "cap" else 1001
        assert sorted(numbers(mine) + _told(mine)) == list(range(1, last + 1))
    kept = [json.loads(row.payload)["decision"] for row in rows if row.kind == "result"]
    assert kept.count("NOK") == 20
    assert outbox.counts("cap").ok + outbox.counts("cap").nok == 1002
    outbox.close(5)


def test_an_answer_given_up_in_hand_does_not_leave_its_trigger_open(tmp_path: Path) -> None:
    outbox = Outbox(Folder(tmp_path, fsync=True), OutboxSettings(), limit=10)
    release = held_up(outbox)
    for i in range(10):
        outbox.accept_trigger("cap", f"job-{i}", f"part-{i}", clock.now())
        outbox.put("p/cap/result", result("cap", "OK", job_id=f"job-{i}", part_id=f"part-{i}"))
    for _ in range(20):
        outbox.put("p/cap/result", result("cap", "OK"))
    release.set()
    assert outbox.flush(5)
    assert outbox.open_triggers("cap") == []
    outbox.close(5)


def test_triggers_beyond_the_limit_are_refused_and_push_out_no_results(tmp_path: Path) -> None:
    outbox = Outbox(Folder(tmp_path, fsync=True), OutboxSettings(), limit=10)
    release = held_up(outbox)
    for _ in range(10):
        outbox.put("p/cap/result", result())
    for i in range(10):
        outbox.accept_trigger("cap", f"job-{i}", None, clock.now())
    for i in range(10, 13):
        with pytest.raises(OutboxError, match="too many"):
            outbox.accept_trigger("cap", f"job-{i}", None, clock.now())
    release.set()
    assert outbox.flush(5)
    assert (outbox.stats.committed, outbox.stats.given_up) == (11, {})
    assert len(outbox.open_triggers("cap")) == 10
    # there is room again
    assert outbox.accept_trigger("cap", "job-13", None, clock.now()).wait(5)
    outbox.close(5)


def test_a_disk_that_hangs_for_days_needs_no_memory_for_what_was_given_up() -> None:
    handover = Handover(10)

    def held() -> int:
        kept = [item for item in handover._items if isinstance(item, NewResult)]
        return len(kept) + sum(len(item.lost_jobs) for item in kept)

    for _ in range(20):
        one = result("cap", "OK")
        handover.put(NewResult("p/cap/result", "cap", "OK", one, None))
    before = held()
    for _ in range(2000):
        one = result("cap", "OK")
        handover.put(NewResult("p/cap/result", "cap", "OK", one, None))
    assert held() <= before + 10


def test_results_that_are_too_old_are_given_up_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outbox = opened(tmp_path, max_age_days=7)
    put_all(outbox, [result() for _ in range(3)])
    outbox.close(5)
    # a week passes while the device is off
    later = datetime.now(UTC) + timedelta(days=8)
    monkeypatch.setattr(clock, "now", lambda: later)
    again = opened(tmp_path, max_age_days=7)
    put_all(again, [result()])
    reader = Reader(again)
    again.connected()
    rows = reader.take(2)
    assert (numbers(rows), _told(rows)) == ([4], [1, 2, 3])
    again.close(5)


def test_a_clock_that_was_not_set_makes_no_result_too_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as boot:
        boot.setattr(clock, "now", lambda: datetime(1970, 1, 1, 0, 5, tzinfo=UTC))
        outbox = opened(tmp_path, max_age_days=7)
        put_all(outbox, [result()])
        outbox.close(5)
    again = opened(tmp_path, max_age_days=7)
    put_all(again, [result()])
    assert numbers(Reader(again).take(2)) == [1, 2]
    again.close(5)


@pytest.mark.parametrize(("bound", "value"), [("max_bytes", 40_000), ("DEAD_ROWS", 2)])
def test_refused_results_are_bounded_and_those_given_up_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: str, value: int
) -> None:
    monkeypatch.setattr(writer, "AGE_S", 0.0)
    if bound == "DEAD_ROWS":
        monkeypatch.setattr(writer, bound, value)
        outbox = opened(tmp_path)
    else:
        outbox = opened(tmp_path, **{bound: value})
    reader = Reader(outbox)
    outbox.connected()
    # a tenth of the bytes is room for two of them
    sizes = [len(final.as_json()) for final in put_all(outbox, [result("cap", "NOK") for _ in range(5)])]
    assert 2 * max(sizes) < 4_000 < 3 * min(sizes)
    for row in reader.take(5):
        outbox.refused(row, 0x87, "not authorized")
    gap = reader.take(1)
    assert [json.loads(row.payload)["reason"] for row in gap] == ["refused"]
    assert _told(gap) == [1, 2, 3]
    assert outbox.stats.dead == 2
    outbox.close(5)


def test_full_is_said_once_not_for_every_result(tmp_path: Path) -> None:
    outbox = opened(tmp_path, max_rows=5)
    reader = Reader(outbox)
    for _ in range(10):
        put_all(outbox, [result()])
    reader.alarm("outbox_full")
    assert [kind for kind, _ in reader.alarms] == ["outbox_full"]
    outbox.close(5)
