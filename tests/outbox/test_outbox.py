from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from edge_infer.errors import OutboxError
from edge_infer.outbox import Counts, ready
from edge_infer.outbox.ask import carry_out
from edge_infer.result import Result
from tests.support.outboxes import Reader, numbers, opened, put_all
from tests.support.results import result


def test_each_station_counts_its_results_from_one_without_holes(tmp_path: Path) -> None:
    outbox = opened(tmp_path)
    finals = put_all(outbox, [result("cap" if i % 3 else "label") for i in range(300)])
    for station in ("cap", "label"):
        mine = [final for final in finals if final.station == station]
        assert [final.seq for final in mine] == list(range(1, len(mine) + 1))
        assert len({final.stream_id for final in mine}) == 1
    assert len({final.stream_id for final in finals}) == 2
    outbox.close(5)


def test_the_number_is_given_by_the_commit_and_stands_in_what_is_sent(tmp_path: Path) -> None:
    outbox = opened(tmp_path)
    final = put_all(outbox, [result()])[0]
    row = Reader(outbox).deliver(1)[0]
    assert row.topic == "p/cap/result"
    assert json.loads(row.payload) == json.loads(final.as_json())
    assert (
        (row.seq, row.stream_id) == (final.seq, final.stream_id) == (1, json.loads(row.payload)["streamId"])
    )
    outbox.close(5)


def test_the_count_goes_on_after_a_restart_in_the_same_stream(tmp_path: Path) -> None:
    first = opened(tmp_path)
    before = put_all(first, [result(), result()])
    first.close(5)
    second = opened(tmp_path)
    after = put_all(second, [result()])
    assert (after[0].seq, after[0].stream_id) == (3, before[0].stream_id)
    assert numbers(Reader(second).deliver(3)) == [1, 2, 3]
    second.close(5)


def test_delivered_results_are_gone_after_a_restart_and_others_are_not(tmp_path: Path) -> None:
    first = opened(tmp_path)
    put_all(first, [result() for _ in range(5)])
    reader = Reader(first)
    reader.deliver(2)
    reader.take(1)
    first.close(5)
    second = opened(tmp_path)
    assert numbers(Reader(second).deliver(3)) == [3, 4, 5]
    second.close(5)


def test_what_was_on_the_wire_is_sent_again_first_and_in_order(tmp_path: Path) -> None:
    outbox = opened(tmp_path)
    put_all(outbox, [result() for _ in range(5)])
    reader = Reader(outbox)
    outbox.connected()
    taken = reader.take(3)
    outbox.delivered(taken[1])
    outbox.disconnected(broken=False)
    assert numbers(reader.deliver(4)) == [1, 3, 4, 5]
    outbox.close(5)


def test_what_a_broker_acknowledged_just_before_it_died_is_sent_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ready, "FRESH_S", 0.2)
    outbox = opened(tmp_path)
    put_all(outbox, [result() for _ in range(5)])
    reader = Reader(outbox)
    outbox.connected()
    reader.deliver(1)
    time.sleep(0.3)
    reader.deliver(2)
    reader.take(1)
    assert outbox.depth() == 2
    outbox.disconnected(broken=True)
    assert outbox.depth() == 4
    assert numbers(reader.deliver(4)) == [2, 3, 4, 5]
    outbox.disconnected(broken=False)
    outbox.close(5)
    again = opened(tmp_path)
    assert again.stats.depth == 0
    again.close(5)


def test_results_from_before_the_connection_are_delayed_and_later_ones_are_not(tmp_path: Path) -> None:
    outbox = opened(tmp_path)
    reader = Reader(outbox)
    # more than is kept ready in memory
    put_all(outbox, [result() for _ in range(600)])
    outbox.connected()
    put_all(outbox, [result()])
    rows = reader.deliver(601)
    assert [row.delayed for row in rows] == [True] * 600 + [False]
    outbox.close(5)


def test_a_long_backlog_comes_out_whole_and_in_order(tmp_path: Path) -> None:
    outbox = opened(tmp_path, commit="normal")
    reader = Reader(outbox)
    finals = put_all(outbox, [result("cap" if i % 2 else "label") for i in range(2000)])
    rows = reader.deliver(2000, timeout_s=10)
    assert [(row.station, row.seq) for row in rows] == [(final.station, final.seq) for final in finals]
    outbox.close(5)
    again = opened(tmp_path)
    assert again.stats.depth == 0
    again.close(5)


def test_memory_stays_small_however_much_waits(tmp_path: Path) -> None:
    outbox = opened(tmp_path, commit="normal")
    for _ in range(10):
        put_all(outbox, [result() for _ in range(400)])
    rows, _ = outbox._ready.snapshot()
    assert len(rows) <= 256
    assert outbox.stats.depth == 4000
    outbox.close(5)


def test_a_refused_result_is_kept_aside_and_can_be_tried_again(tmp_path: Path) -> None:
    outbox = opened(tmp_path)
    put_all(outbox, [result(), result()])
    reader = Reader(outbox)
    first, second = reader.take(2)
    outbox.refused(first, 0x87, "Not authorized")
    outbox.delivered(second)
    assert reader.alarm("result_refused") == {
        "topic": "p/cap/result",
        "streamId": first.stream_id,
        "seq": 1,
        "code": 0x87,
        "reason": "Not authorized",
    }
    outbox.close(5)
    again = opened(tmp_path)
    assert (again.stats.depth, again.stats.dead) == (0, 1)
    reader = Reader(again)
    answer = carry_out(
        tmp_path / "outbox.db", "retry", station=None, refused=True, waiting=False, timeout_s=5
    )
    assert (answer.done, answer.by_service) == (1, True)
    assert numbers(reader.deliver(1)) == [1]
    again.close(5)


def test_a_trigger_that_is_said_to_be_stored_is_open_after_a_kill(tmp_path: Path) -> None:
    code = (
        "import sys, os, signal; from datetime import datetime, UTC; from pathlib import Path\n"
        "from edge_infer.outbox import Outbox, OutboxSettings\n"
        "outbox = Outbox.open(Path(sys.argv[1]), OutboxSettings())\n"
        "stored = outbox.accept_trigger('cap', 'job-1', 'part-1', datetime(2026, 1, 2, tzinfo=UTC))\n"
        "stored.wait(5)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    killed = subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False, timeout=20)
    assert killed.returncode == -signal.SIGKILL
    outbox = opened(tmp_path)
    trigger = outbox.open_triggers("cap")[0]
    assert (trigger.job_id, trigger.part_id) == ("job-1", "part-1")
    assert trigger.received_at == datetime(2026, 1, 2, tzinfo=UTC)
    assert outbox.open_triggers("label") == []
    put_all(outbox, [result("cap", "UNDEFINED", job_id="job-1", part_id="part-1")])
    assert outbox.open_triggers("cap") == []
    outbox.close(5)
    again = opened(tmp_path)
    assert again.open_triggers("cap") == []
    again.close(5)


def test_counts_are_committed_with_their_results_and_can_be_reset(tmp_path: Path) -> None:
    outbox = opened(tmp_path)
    put_all(
        outbox, [result("cap", "OK"), result("cap", "NOK"), result("cap", "OK"), result("x", "UNDEFINED")]
    )
    outbox.close(5)
    outbox = opened(tmp_path)
    cap = outbox.counts("cap")
    assert (cap.ok, cap.nok, cap.undefined) == (2, 1, 0)
    assert cap.since is not None
    outbox.reset_counts("cap")
    outbox.close(5)
    outbox = opened(tmp_path)
    assert (outbox.counts("cap").ok, outbox.counts("x").undefined) == (0, 1)
    assert outbox.counts("never") == Counts()
    outbox.close(5)


def test_events_go_the_same_way_without_a_number(tmp_path: Path) -> None:
    outbox = opened(tmp_path)
    outbox.put_event("p/event", b"{}")
    row = Reader(outbox).deliver(1)[0]
    assert (row.kind, row.topic, row.payload, row.seq) == ("event", "p/event", b"{}", 0)
    outbox.close(5)


def test_a_second_service_on_the_same_folder_is_refused(tmp_path: Path) -> None:
    outbox = opened(tmp_path)
    with pytest.raises(OutboxError, match="another edge-infer uses the outbox") as caught:
        opened(tmp_path)
    assert "state_dir" in str(caught.value)
    outbox.close(5)
    opened(tmp_path).close(5)


def test_a_callback_that_fails_stops_nobody(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    outbox = opened(tmp_path)

    def broken(final: Result) -> None:
        raise ValueError(final.seq)

    outbox.put("p/cap/result", result(), broken)
    assert put_all(outbox, [result()])[0].seq == 2
    assert "callback failed" in caplog.text
    outbox.close(5)


def test_a_result_that_is_no_unicode_is_told_as_a_gap_and_stops_nobody(tmp_path: Path) -> None:
    outbox = opened(tmp_path)
    reader = Reader(outbox)
    outbox.connected()
    outbox.put("p/cap/result", result(label="\ud800"))
    put_all(outbox, [result()])
    rows = reader.deliver(2)
    assert numbers(rows) == [2]
    assert json.loads(rows[1].payload)["ranges"] == [{"fromSeq": 1, "toSeq": 1}]
    outbox.close(5)


def test_close_commits_what_is_in_hand(tmp_path: Path) -> None:
    outbox = opened(tmp_path)
    for _ in range(1000):
        outbox.put("p/cap/result", result())
    outbox.close(5)
    again = opened(tmp_path)
    assert again.stats.depth == 1000
    again.close(5)


def test_a_kill_at_any_instant_loses_no_committed_result(tmp_path: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path; sys.path.insert(0, sys.argv[2])\n"
        "from tests.support.results import result\n"
        "from edge_infer.outbox import Outbox, OutboxSettings\n"
        "outbox = Outbox.open(Path(sys.argv[1]), OutboxSettings())\n"
        "while True:\n"
        "    outbox.put('p/cap/result', result(), lambda final: print(final.seq, flush=True))\n"
        "    time.sleep(0.0005)\n"
    )
    told = 0
    for round_ in range(3):
        with subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path), str(Path(__file__).parents[2])],
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                if int(line) >= told + 50 + 37 * round_:
                    break
            os.kill(process.pid, signal.SIGKILL)
            told = max([int(line), *(int(rest) for rest in process.stdout.read().splitlines() if rest)])
    outbox = opened(tmp_path)
    stored = outbox.stats.depth
    assert stored >= told
    rows = Reader(outbox).deliver(stored)
    assert numbers(rows) == list(range(1, stored + 1))
    assert len({row.stream_id for row in rows}) == 1
    outbox.close(5)


def test_putting_never_waits_for_a_commit(tmp_path: Path) -> None:
    outbox = opened(tmp_path)
    held = threading.Event()
    release = threading.Event()

    def hold(_: Result) -> None:
        held.set()
        release.wait(10)

    outbox.put("p/cap/result", result(), hold)
    assert held.wait(5)
    # the writer stands still; this returns all the same
    for _ in range(100):
        outbox.put("p/cap/result", result())
    assert outbox.stats.committed == 1
    release.set()
    outbox.close(5)


def test_an_alarm_that_comes_while_somebody_begins_to_listen_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outbox = opened(tmp_path)
    told: list[str] = []
    listener = threading.Thread(target=lambda: outbox.listen(lambda: None, lambda kind, _: told.append(kind)))

    class Late(deque[tuple[str, Mapping[str, Any]]]):
        def append(self, alarm: tuple[str, Mapping[str, Any]], /) -> None:
            # nobody listened when the alarm looked; now somebody does
            listener.start()
            listener.join(0.2)
            super().append(alarm)

    monkeypatch.setattr(outbox, "_alarms", Late())
    outbox._alarm("late", {})
    listener.join(5)
    outbox._alarm("next", {})
    assert told == ["late", "next"]
    outbox.close(5)
