"""What another process wishes: carried out once, in time, and only on what was there."""

from __future__ import annotations

import sqlite3
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest

from edge_infer import clock
from edge_infer.errors import OutboxError
from edge_infer.outbox import Outbox, Row
from edge_infer.outbox.ask import carry_out
from edge_infer.outbox.store import Store
from edge_infer.outbox.wish import Wish
from edge_infer.outbox.work import Work
from tests.support.outboxes import Reader, numbers, opened, put_all
from tests.support.results import result


class Held:
    """A writer that stands still until it is let go."""

    def __init__(self, outbox: Outbox) -> None:
        self._release = threading.Event()
        held = threading.Event()

        def hold(_: object) -> None:
            held.set()
            self._release.wait(20)

        outbox.put("p/cap/result", result(), hold)
        assert held.wait(5)

    def let_go(self) -> None:
        self._release.set()


def _wish(database: Path, *, last: int, until_s: float) -> None:
    with closing(sqlite3.connect(database, isolation_level=None)) as db:
        db.execute(
            "INSERT INTO wish (verb, last, refused, waiting, until_s) VALUES ('purge', ?, 1, 1, ?)",
            (last, until_s),
        )


def test_a_wish_that_nobody_waits_for_any_more_is_not_carried_out(tmp_path: Path) -> None:
    outbox = opened(tmp_path)
    put_all(outbox, [result() for _ in range(3)])
    _wish(tmp_path / "outbox.db", last=3, until_s=clock.now().timestamp() - 1)
    put_all(outbox, [result()])
    assert outbox.flush(5)
    assert numbers(Reader(outbox).deliver(4)) == [1, 2, 3, 4]
    outbox.close(5)


def test_an_asker_that_gives_up_withdraws_its_wish(tmp_path: Path) -> None:
    outbox = opened(tmp_path)
    held = Held(outbox)
    with pytest.raises(OutboxError, match="did not answer within"):
        carry_out(tmp_path / "outbox.db", "purge", station=None, refused=True, waiting=True, timeout_s=0.2)
    with closing(sqlite3.connect(tmp_path / "outbox.db")) as db:
        assert db.execute("SELECT count(*) FROM wish").fetchone() == (0,)
    held.let_go()
    outbox.close(5)


def test_a_wish_is_bound_to_what_is_there_when_it_is_made(tmp_path: Path) -> None:
    outbox = opened(tmp_path)
    put_all(outbox, [result() for _ in range(7)])
    held = Held(outbox)
    asker = threading.Thread(
        target=carry_out,
        args=(tmp_path / "outbox.db", "purge"),
        kwargs={"station": None, "refused": True, "waiting": True, "timeout_s": 10},
    )
    asker.start()
    until = time.monotonic() + 5
    with closing(sqlite3.connect(tmp_path / "outbox.db")) as db:
        while (found := db.execute("SELECT last FROM wish").fetchone()) is None:
            assert time.monotonic() < until
            time.sleep(0.01)
    held.let_go()
    asker.join(10)
    assert found == (8,)
    outbox.close(5)


@pytest.mark.parametrize("refused", [True, False])
def test_what_came_later_is_not_touched(refused: bool) -> None:
    store = Store.in_memory()
    with store.transaction():
        for seq in range(1, 11):
            id_ = store.insert(Row("result", "p/cap/result", b"{}", 1e9, "cap", "stream", seq, "OK"))
            if refused:
                store.bury(id_, 0x87, "no", 1e9)
    work = Work(Wish("purge", 6, None, refused=True, waiting=True))
    while not work.finished:
        with store.transaction():
            work = work.step(store, lambda rows: rows)
    assert work.done == 6
    left = (store.dead_between if refused else store.between)(0, 100, None, -1)
    assert sorted(row.seq for row in left) == [7, 8, 9, 10]
    store.close()


def test_a_wish_from_before_a_kill_is_carried_out_by_the_next_service(tmp_path: Path) -> None:
    outbox = opened(tmp_path)
    put_all(outbox, [result() for _ in range(3)])
    outbox.close(5)
    _wish(tmp_path / "outbox.db", last=3, until_s=clock.now().timestamp() + 60)
    again = opened(tmp_path)
    assert again.flush(5)
    put_all(again, [result()])
    until = time.monotonic() + 5
    while again.depth() > 1:
        assert time.monotonic() < until
        assert again.flush(5)
    assert numbers(Reader(again).deliver(1)) == [4]
    again.close(5)
