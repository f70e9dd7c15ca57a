"""``edge-infer outbox``: safe beside a running service and without one, and honest about what it finds."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import click
import pytest

from edge_infer import cli
from edge_infer.outbox import Outbox, Row
from edge_infer.outbox.visit import visiting
from edge_infer.result import Result
from tests.support.filesystems import tmpfs
from tests.support.outboxes import Reader, numbers, opened, put_all
from tests.support.results import result
from tests.support.sites import write_model

Said = tuple[int, str, str]
Run = Callable[..., Said]

SITE = """\
format: 1
site: plant1
line: l3
device: ipc7
state_dir: {state}
mqtt: {{host: 127.0.0.1}}
cameras:
  top: {{type: synthetic}}
models:
  seals: {{path: seals}}
stations:
  cap: {{camera: top, model: seals, rules: [{{name: a, count: {{labels: [tear], at_most: 0}}}}]}}
"""


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def config(tmp_path: Path, state: Path) -> Path:
    write_model(tmp_path / "seals")
    path = tmp_path / "site.yaml"
    path.write_text(SITE.format(state=state))
    return path


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], config: Path) -> Run:
    """``run("show", "--json")``: exit code, standard output, standard error."""

    def call(verb: str, *arguments: object) -> Said:
        argv = ["edge-infer", "outbox", verb, str(config), *map(str, arguments)]
        monkeypatch.setattr(sys, "argv", argv)
        with pytest.raises(SystemExit) as ended:
            cli.main()
        out, err = capsys.readouterr()
        assert "Traceback" not in out + err
        return int(ended.value.code or 0), out, err

    return call


@pytest.fixture
def outbox(state: Path) -> Iterator[Outbox]:
    """As a running service has it."""
    one = opened(state)
    yield one
    one.close(5)


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def told(rows: list[Row], reason: str) -> list[int]:
    """Numbers that gap messages tell."""
    gaps = [json.loads(row.payload) for row in rows if row.kind == "gap"]
    return [
        number
        for gap in gaps
        if gap["reason"] == reason
        for one in gap["ranges"]
        for number in range(one["fromSeq"], one["toSeq"] + 1)
    ]


def refuse(outbox: Outbox, count: int) -> None:
    """The broker refuses the oldest ones."""
    reader = Reader(outbox)
    for row in reader.take(count):
        outbox.refused(row, 0x87, "Not authorized")
    reader.alarm("result_refused")
    assert outbox.flush(5)
    while outbox.stats.dead < count:
        assert outbox.flush(5)


# -- show


def test_show_says_what_waits_and_what_was_refused(run: Run, outbox: Outbox) -> None:
    final = put_all(outbox, [result("cap", "NOK"), result("cap", "OK"), result("cap", "OK")])[-1]
    outbox.put_event("p/event", b"{}")
    refuse(outbox, 1)
    code, out, _ = run("show", "--json")
    assert code == 0
    (shown,) = lines(out)
    assert (shown["running"], shown["waiting"], shown["refused"]) == (True, 3, 1)
    assert shown["stations"] == [
        {"station": "cap", "streamId": final.stream_id, "seq": 3, "waiting": {"OK": 2}, "refused": 1}
    ]
    code, out, _ = run("show")
    assert code == 0
    assert "a service runs on it" in out
    assert "station cap: last number 3" in out


def test_show_lists_the_messages_that_are_asked_for(run: Run, outbox: Outbox) -> None:
    put_all(outbox, [result("cap", "NOK"), result("cap"), result("x")])
    refuse(outbox, 1)
    _, out, _ = run("show", "--refused", "--json")
    (refused,) = lines(out)
    assert (refused["station"], refused["seq"], refused["decision"]) == ("cap", 1, "NOK")
    assert (refused["refused"]["code"], refused["refused"]["reason"]) == (0x87, "Not authorized")
    _, out, _ = run("show", "--waiting", "--station", "x", "--json")
    assert [(one["station"], one["seq"]) for one in lines(out)] == [("x", 1)]
    _, out, _ = run("show", "--refused")
    assert "refused: Not authorized (0x87)" in out


def test_show_counts_what_was_given_up_and_not_told_yet(run: Run, state: Path) -> None:
    outbox = opened(state, max_rows=2)
    put_all(outbox, [result() for _ in range(5)])
    _, out, _ = run("show", "--json")
    outbox.close(5)
    (gap,) = lines(out)[0]["gaps"]
    assert (gap["reason"], gap["ranges"]) == ("full", [{"fromSeq": 1, "toSeq": 3}])


def test_without_a_state_folder_it_says_where_it_looked(run: Run, state: Path) -> None:
    code, out, err = run("show", "--json")
    assert (code, out) == (1, "")
    assert str(state) in err
    assert "state_dir" in err
    assert not state.exists()


def test_a_damaged_database_is_said_and_left_alone(run: Run, state: Path) -> None:
    opened(state).close(5)
    (state / "outbox.db").write_bytes(b"this is no database" * 1000)
    for verb in ("show", "retry", "export"):
        code, _, err = run(verb)
        assert code == 1
        assert "damaged" in err
    assert not list(state.glob("*.corrupt-*"))


def test_a_read_only_disk_is_shown_and_exported_even_after_a_crash(
    tmp_path: Path, run: Run, config: Path
) -> None:
    with tmpfs(tmp_path / "disk", "8m") as disk:
        config.write_text(SITE.format(state=disk.path / "state"))
        outbox = opened(disk.path / "state")
        put_all(outbox, [result(), result()])
        # as after a kill: the log is there, its index not
        files = {one.name: one.read_bytes() for one in (disk.path / "state").iterdir()}
        outbox.close(5)
        for name in ("outbox.db", "outbox.db-wal"):
            (disk.path / "state" / name).write_bytes(files[name])
        disk.read_only()
        code, out, _ = run("show", "--json")
        assert (code, lines(out)[0]["waiting"]) == (0, 2)
        code, out, _ = run("export")
        assert (code, [line["seq"] for line in lines(out)]) == (0, [1, 2])
        code, _, err = run("purge", "--yes")
        assert code == 1
        assert "read-only" in err.lower()
        disk.writable()
        opened(disk.path / "state").close(5)
        disk.read_only()
        code, out, _ = run("show", "--json")
        assert (code, lines(out)[0]["waiting"]) == (0, 2)


def test_a_service_that_writes_is_not_disturbed_by_lookers(run: Run, outbox: Outbox) -> None:
    stop = threading.Event()
    committed: list[Result] = []

    def station() -> None:
        while not stop.is_set():
            outbox.put("p/cap/result", result(), committed.append)
            stop.wait(0.001)

    thread = threading.Thread(target=station)
    thread.start()
    for _ in range(10):
        code, out, _ = run("export")
        assert code == 0
        assert [line["seq"] for line in lines(out)] == list(range(1, len(lines(out)) + 1))
    stop.set()
    thread.join()
    assert outbox.flush(5)
    assert [final.seq for final in committed] == list(range(1, len(committed) + 1))
    assert not outbox.stats.in_memory


def test_a_reader_that_stands_still_does_not_let_the_log_grow(outbox: Outbox, state: Path) -> None:
    put_all(outbox, [result() for _ in range(500)])
    with visiting(state / "outbox.db") as visit:
        messages = visit.messages(waiting=True, refused=True, station=None)
        assert next(messages).row.seq == 1
        # 12 MB
        for _ in range(6):
            put_all(outbox, [result() for _ in range(1000)])
        assert (state / "outbox.db-wal").stat().st_size < 7_000_000
        assert [one.row.seq for one in messages] == list(range(2, 6501))


# -- retry


@pytest.mark.parametrize("running", [True, False])
def test_refused_messages_wait_again(run: Run, state: Path, running: bool) -> None:
    outbox = opened(state)
    put_all(outbox, [result("cap"), result("x"), result("cap")])
    refuse(outbox, 2)
    if not running:
        outbox.close(5)
    code, out, _ = run("retry", "--station", "cap", "--json")
    assert (code, lines(out)) == (0, [{"retried": 1, "byService": running}])
    if not running:
        outbox = opened(state)
    rows = Reader(outbox).deliver(2)
    assert [(row.station, row.seq) for row in rows] == [("cap", 2), ("cap", 1)]
    assert outbox.stats.dead == 1
    outbox.close(5)


# -- purge


@pytest.mark.parametrize("running", [True, False])
def test_purged_results_are_told_as_gaps(run: Run, state: Path, running: bool) -> None:
    outbox = opened(state)
    put_all(outbox, [result() for _ in range(5000)])
    refuse(outbox, 3)
    if not running:
        outbox.close(5)
    code, out, _ = run("purge", "--yes", "--json")
    assert (code, lines(out)) == (0, [{"purged": 5000, "onWire": 0, "byService": running}])
    if not running:
        outbox = opened(state)
    after = put_all(outbox, [result()])[0]
    outbox.connected()
    rows = Reader(outbox).deliver(2)
    assert numbers(rows) == [5001] == [after.seq]
    assert told(rows, "purged") == list(range(1, 5001))
    assert outbox.stats.dead == 0
    outbox.close(5)


def test_purge_leaves_what_is_on_its_way_and_what_came_later(run: Run, outbox: Outbox) -> None:
    put_all(outbox, [result() for _ in range(10)])
    reader = Reader(outbox)
    outbox.connected()
    on_wire = reader.take(2)
    code, out, _ = run("purge", "--waiting", "--yes", "--json")
    assert (code, lines(out)) == (0, [{"purged": 8, "onWire": 2, "byService": True}])
    put_all(outbox, [result()])
    for row in on_wire:
        outbox.delivered(row)
    rows = reader.deliver(2)
    assert (numbers(on_wire), numbers(rows), told(rows, "purged")) == ([1, 2], [11], list(range(3, 11)))


def test_purge_takes_only_what_is_named(run: Run, outbox: Outbox) -> None:
    put_all(outbox, [result("cap"), result("x"), result("cap"), result("x")])
    refuse(outbox, 2)
    code, _, _ = run("purge", "--refused", "--station", "x", "--yes")
    assert code == 0
    assert (outbox.stats.dead, outbox.stats.depth) == (1, 2)
    outbox.connected()
    rows = Reader(outbox).deliver(3)
    assert [(row.station, row.seq) for row in rows if row.kind == "result"] == [("cap", 2), ("x", 2)]
    assert [row.station for row in rows if row.kind == "gap"] == ["x"]
    assert told(rows, "purged") == [1]


@pytest.mark.parametrize("verb", ["show", "retry", "purge", "export"])
def test_a_station_that_nobody_knows_is_no_empty_answer(run: Run, outbox: Outbox, verb: str) -> None:
    put_all(outbox, [result("removed")])
    code, out, err = run(verb, "--station", "capp")
    assert (code, out) == (1, "")
    assert "known are: cap, removed" in err


def test_purge_asks_and_without_a_terminal_needs_yes(run: Run, outbox: Outbox) -> None:
    put_all(outbox, [result()])
    code, out, err = run("purge")
    assert (code, out) == (2, "")
    assert "1 waiting and 0 refused" in err
    assert "--yes" in err
    assert outbox.stats.depth == 1


def test_a_service_that_does_not_answer_is_said_and_nothing_happens_later(run: Run, outbox: Outbox) -> None:
    held, release = threading.Event(), threading.Event()

    def hang(_: object) -> None:
        held.set()
        release.wait(10)

    put_all(outbox, [result()])
    outbox.put("p/cap/result", result(), hang)
    assert held.wait(5)
    code, _, err = run("purge", "--yes", "--timeout", "0.3")
    assert code == 1
    assert "did not answer" in err
    release.set()
    put_all(outbox, [result()])
    assert outbox.flush(5)
    assert numbers(Reader(outbox).deliver(3)) == [1, 2, 3]


def test_a_wish_and_results_at_the_same_time_lose_nothing(config: Path, outbox: Outbox) -> None:
    """A process of its own, while results come in and go out."""
    stop, sent = threading.Event(), []
    put_all(outbox, [result() for _ in range(300)])
    reader = Reader(outbox)
    outbox.connected()

    def pump() -> None:
        while not stop.is_set():
            row = outbox.take()
            if row is None:
                stop.wait(0.002)
                continue
            stop.wait(0.001)
            sent.append(row)
            outbox.delivered(row)

    thread = threading.Thread(target=pump)
    thread.start()
    command = [sys.executable, "-m", "edge_infer", "outbox", "purge", str(config), "--yes"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as purge:
        while purge.poll() is None:
            put_all(outbox, [result() for _ in range(20)])
        assert purge.returncode == 0
    last = put_all(outbox, [result()])[0].seq
    while not (outbox.idle and told(sent, "purged")) and len(numbers(sent)) < last:
        assert outbox.flush(5)
        assert reader.outbox.failure is None
    stop.set()
    thread.join()
    assert sorted({*numbers(sent), *told(sent, "purged")}) == list(range(1, last + 1))
    assert not set(numbers(sent)) & set(told(sent, "purged"))


# -- export


def test_export_writes_what_would_be_sent(run: Run, outbox: Outbox, tmp_path: Path) -> None:
    finals = put_all(outbox, [result(label="Löcher 孔"), result("cap", "NOK")])
    outbox.put_event("p/event", b"{}")
    refuse(outbox, 1)
    out = tmp_path / "out.jsonl"
    out.write_text("of before")
    code, said, _ = run("export", "--out", out)
    assert code == 0
    assert "3 messages" in said
    second, event, first = lines(out.read_text())
    assert json.loads(first["payload"]) == json.loads(finals[0].as_json())
    assert first["userProperties"] == {"schema": "result/1", "seq": "1", "streamId": finals[0].stream_id}
    assert (first["seq"], first["refused"]["reason"]) == (1, "Not authorized")
    assert (second["topic"], second["refused"]) == ("p/cap/result", None)
    assert (event["payload"], event["seq"], event["userProperties"]) == ("{}", None, {"schema": "event/1"})
    assert outbox.stats.depth == 2


def test_an_export_that_does_not_fit_leaves_nothing_behind(run: Run, outbox: Outbox, tmp_path: Path) -> None:
    put_all(outbox, [result() for _ in range(200)])
    with tmpfs(tmp_path / "small", "64k") as disk:
        code, _, err = run("export", "--out", disk.path / "out.jsonl")
        assert code == 1
        assert "No space left" in err
        assert list(disk.path.iterdir()) == []


def test_of_a_database_that_was_set_aside_what_can_be_read_is_exported(run: Run, state: Path) -> None:
    first = opened(state)
    put_all(first, [result() for _ in range(3000)])
    first.close(5)
    database = state / "outbox.db"
    with closing(sqlite3.connect(database)) as db:
        size = db.execute("PRAGMA page_size").fetchone()[0]
    with database.open("r+b") as file:
        file.seek(database.stat().st_size // size * 2 // 3 * size)
        file.write(os.urandom(40 * size))
    code, out, err = run("export", "--database", database)
    assert code == 1
    found = [line["seq"] for line in lines(out)]
    assert f"only {len(found)} messages could be read" in err
    assert len(found) > 500
    assert found == list(range(1, len(found) + 1))


def test_of_a_database_that_was_set_aside_without_a_header_is_said_what_may_help(
    run: Run, state: Path
) -> None:
    opened(state).close(5)
    (state / "outbox.db").write_bytes(b"\xa5" * 8192)
    opened(state).close(5)
    (aside,) = state.glob("outbox.db.corrupt-*Z")
    code, _, err = run("export", "--database", aside)
    assert code == 1
    assert f"{aside} is damaged" in err
    assert f"strings -n 100 {aside.name}" in err
    assert "sets it aside" not in err


def test_a_database_to_export_that_is_not_there_is_said(run: Run, state: Path) -> None:
    opened(state).close(5)
    code, _, err = run("export", "--database", state / "outbox.db.corrupt-no")
    assert (code, "there is no " in err, "may not be read" in err) == (1, True, False)


# -- documentation


def test_the_documentation_names_every_option() -> None:
    text = (Path(__file__).parents[2] / "docs" / "outbox.md").read_text()
    group = cli.cli.get_command(click.Context(cli.cli), "outbox")
    assert isinstance(group, click.Group)
    for name, command in group.commands.items():
        (synopsis,) = re.findall(rf"^edge-infer outbox {name} +CONFIG (.*)$", text, re.MULTILINE)
        options = [one.opts[0] for one in command.params if isinstance(one, click.Option)]
        assert sorted(re.findall(r"--[a-z]+", synopsis)) == sorted(options)
